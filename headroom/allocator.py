"""Give the allocator's unused blocks back to the driver: through ComfyUI, or torch without it."""

from .base import device as devices
from .host.seam import current_host


def return_cache() -> None:
    """Return cached blocks on every device in use; what is still referenced stays.

    Call after the garbage collection: dead objects would keep their blocks. The price is that
    the next allocations go to the driver again.
    """
    host = current_host()
    if host is not None:
        host.empty_cache()
    else:
        devices.empty_cache()
