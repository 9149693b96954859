"""Connect reruns with a running ComfyUI server."""

import os
from collections.abc import Callable
from pathlib import Path

import torch

from ..actions.make_room import make_room
from ..actions.purge import purge
from ..actions.spare_ram import spare_ram
from ..base.environment import disk_limit_bytes
from ..base.ram import ram_total_bytes
from ..host import queue
from ..host import server as host_server
from ..host.adapter import has_cache_providers
from ..host.node_types import HostRegistry
from ..measure.journal import Action, listen, note
from ..models.loaded import loaded_models
from .finished import LIMIT_VARIABLE, Finished
from .rescue import Rescue
from .settings import as_wished


def make_rescue(outputs_of: Callable[[str], Path | None]) -> Rescue:
    """Make the Rescue of this server; `outputs_of`: as in KeptQueue."""
    registry = HostRegistry()
    rescue = Rescue(queue, registry, _empty, loaded_models, _finished(registry, outputs_of))
    listen(rescue.note)
    host_server.on_queue_cleared(rescue.queue_is_cleared)
    host_server.before_prompt_is_validated(
        lambda posted, browser: as_wished(posted, browser, registry)
    )
    return rescue


def _empty(free_ram: bool) -> None:
    """Unload all models; with `free_ram` move them to disk, and free all RAM that can be freed."""
    purge("all models", free_ram=free_ram)
    if free_ram:
        everything = ram_total_bytes()
        with torch.inference_mode():
            spare_ram(everything, lambda _: False)
        for step in make_room(everything):
            note(Action(None, None, step.action, None, step.text))


def _finished(registry: HostRegistry, outputs_of: Callable[[str], Path | None]) -> Finished | None:
    limit = disk_limit_bytes(os.environ, LIMIT_VARIABLE)
    if limit == 0 or not has_cache_providers():
        return None
    from ..host import finished

    return Finished(finished, registry, outputs_of, limit)
