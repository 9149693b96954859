"""Settings of property tests: the same cases in each run, no time limit, no files written."""

from hypothesis import settings

steady = settings(deadline=None, database=None, derandomize=True)
