"""What nodes and packs put into the layers of a diffusion model."""

from collections.abc import Mapping
from typing import Any


def patches_in(transformer_options: Mapping[str, Any]) -> list[Any]:
    """Return the functions and objects in these options of a model that its layers call."""
    found: list[Any] = []
    for group in ("patches", "patches_replace"):
        for several in list(transformer_options.get(group, {}).values()):  # a prompt may add some
            found += several.values() if isinstance(several, dict) else several
    return found
