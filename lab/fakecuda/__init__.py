"""Fake CUDA devices: PyTorch's own allocator and ComfyUI's own pager run on them. See README.md."""

from .build import CannotBuild, why_not
from .ledger import Ledger, Moment
from .settings import COPIED_KIB, FakeCuda, command

__all__ = ["COPIED_KIB", "CannotBuild", "FakeCuda", "Ledger", "Moment", "command", "why_not"]
