"""Reading the reports of our nodes."""

from __future__ import annotations

import re


def figure(report: str, name: str) -> tuple[float, float]:
    """The (before, after) of one row of a report, in MiB."""
    found = re.search(rf"^  {name} +([\d,.]+) -> +([\d,.]+) MiB", report, re.MULTILINE)
    assert found is not None, f"no row {name!r} in:\n{report}"
    before, after = (float(number.replace(",", "")) for number in found.groups())
    return before, after
