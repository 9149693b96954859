"""Fixtures of the tests of OOM Guard."""

import pytest

from headroom.measure import journal


@pytest.fixture
def entries():
    """What recoveries write into the journal during the test."""
    found = []
    journal.listen(found.append)
    return found
