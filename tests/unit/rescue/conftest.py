"""Fixtures of the tests of reruns."""

import pytest
from support.rescue_bench import Bench


@pytest.fixture
def bench():
    """A rescue, its host, and prompts that fail on it."""
    return Bench()
