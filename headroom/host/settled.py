"""Leave what a server has imported out of garbage collections, but not ComfyUI's node cache."""

from ..base.living import settle
from .core import loaded_entries, request_cache_reset
from .server import worker_is_idle


def settle_server() -> None:
    """Exclude what is alive now from later collections; call it before the first request.

    ComfyUI's first node cache is alive already, in a reference cycle. What it has when somebody
    empties it would stay in RAM until the server ends. So ComfyUI makes a new one while it is
    empty, in the thread that runs prompts. It unloads all models with that, so nothing is done if
    a pack has loaded one already.
    """
    if loaded_entries():
        return
    settle()
    if worker_is_idle():
        request_cache_reset()
        worker_is_idle()  # it has done that
