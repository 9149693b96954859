"""The sentences about a prompt that ran out of memory and its second life."""

from ..measure import mib
from .failure import Failure
