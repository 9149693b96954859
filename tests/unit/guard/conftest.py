"""Fixtures of the tests of OOM Guard."""

import copy

import pytest

from headroom.measure import journal


@pytest.fixture
def entries():
    """What recoveries write into the journal during the test, as it is at that moment."""
    found = []
    journal.listen(lambda entry: found.append(copy.copy(entry)))
    return found
