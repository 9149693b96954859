"""The recorder of this server."""

from .recorder import Recorder

_current: Recorder | None = None


def current_recorder() -> Recorder | None:
    """Return the recorder of this server; None if none was started."""
    return _current


def use_recorder(recorder: Recorder) -> None:
    global _current
    _current = recorder
