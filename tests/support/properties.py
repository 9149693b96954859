"""How properties are tried: a run is like the next, nothing is timed or written to the checkout."""

from hypothesis import settings

steady = settings(deadline=None, database=None, derandomize=True)
