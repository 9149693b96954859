"""A package, so that its tests can share one Chromium and no others can: see `conftest.py`."""
