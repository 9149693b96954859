"""The allocator settings that PyTorch takes from the environment or at run time."""

from __future__ import annotations

import re


def expandable_setting(settings: str) -> bool | None:
    """What a PYTORCH_ALLOC_CONF text says about expandable segments; None when nothing."""
    found = re.search(r"expandable_segments\s*:\s*(true|false)", settings, re.IGNORECASE)
    return None if found is None else found.group(1).lower() == "true"
