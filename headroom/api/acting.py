"""What a request to purge or to offload does, once its body is read and nothing else runs."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from ..actions.offload import offload
from ..actions.purge import free_bytes, purge
from ..base.device import in_mib
from ..models.loaded import patchers_named
from .requests import OffloadRequest, PurgeRequest

Asked = TypeVar("Asked")


def as_nodes_do(do: Callable[[Asked], Any], asked: Asked) -> Any:
    """Handle weights in inference mode, as nodes do."""
    with torch.inference_mode():
        return do(asked)


def purge_models(asked: PurgeRequest) -> dict[str, object]:
    keep = patchers_named(list(asked.keep)) or None
    report = purge(
        asked.unload, keep, asked.only_below_free_mib, asked.free_ram, asked.reset_node_cache,
        asked.free_mib,
    )
    if asked.free_mib is None:
        return report.as_json()
    return {**report.as_json(), "reached_free_mib": in_mib(free_bytes())}


def offload_model(asked: OffloadRequest) -> dict[str, object]:
    return offload(patchers_named([asked.model]), asked.scope, asked.to).as_json()
