"""Change a function of ComfyUI in a dry run, whose server is the only one that sees it."""

from functools import wraps
from typing import Any


def change_once(owner: Any, name: str, changed: Any, kind: Any = lambda made: made) -> None:
    """Let `changed(function, arguments...)` be called for a function; once, if there is one."""
    function = getattr(owner, name, None)
    if owner is None or function is None or getattr(function, "_headroom_dry", False):
        return

    @wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        return changed(function, *args, **kwargs)

    made._headroom_dry = True  # type: ignore[attr-defined]
    setattr(owner, name, kind(made))
