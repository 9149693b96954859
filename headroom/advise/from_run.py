"""Make the case of a run: from its record, its prompt, and what is known besides them."""

import sys
from collections.abc import Mapping
from typing import Any

import torch

from ..base.ceiling import ceiling_of
from ..base.device import MIB, computes_in_bf16, is_started
from ..base.environment import allocator_words
from ..base.graph import Prompt
from ..base.guards import is_inserted
from ..base.node_types import Registry
from ..host.adapter import current_host, has_flag
from ..measure.other_processes import other_processes
from ..measure.snapshot import used_devices
from ..record.memory import Reading, Use
from ..record.nodes import NodeRecord
from ..record.run import Run
from .case import Case, Step, Surroundings
from .finding import Bounds


def case_of(
    run: Run, prompt: Prompt, registry: Registry, around: Surroundings | None = None
) -> Case | None:
    """Return the case of a run that used a device; None for one on the CPU."""
    if not run.devices:
        return None
    main = run.fullest
    device = run.devices[main]
    everything = run.nodes.records.values()
    guards = [record for record in everything if is_inserted(record.info.node_id)]
    records = [record for record in everything
               if record.before is not None and record not in guards]
    steps = [_step(record, main, device, prompt) for record in records]
    models = {held.model.id: held.model for record in records
              for reading in (record.before, record.after) if reading is not None
              for held in reading.models}
    total, ceiling = run.totals[main], ceiling_of(torch.device(device))
    if total is not None and ceiling is not None:
        total = min(total, ceiling.limit_bytes)  # pages of idle models leave at the limit, too
    return Case(prompt, registry, tuple(step for step in steps if step is not None), models,
                device, total, around or Surroundings(), is_guarded=bool(guards))


def _step(record: NodeRecord, main: int, device: str, prompt: Prompt) -> Step | None:
    peak = record.peaks[main] if main < len(record.peaks) else None
    if peak is None:
        return None
    before, after = _held(record.before, device), _held(record.after, device)
    info = record.info
    use = record.after.devices[main] if record.after and main < len(record.after.devices) else Use()
    spare = 0 if use.allocated_bytes is None else use.reserved_bytes - use.allocated_bytes
    return Step(
        info.node_id, info.node_id if info.node_id in prompt else info.display_node_id,
        info.class_type, info.title, record.status, peak,
        {model_id: Bounds(*sorted((before.get(model_id, 0), after.get(model_id, 0))))
         for model_id in {**before, **after}},
        frozenset(m for m, size in after.items() if size > before.get(m, 0)),
        max(spare, 0),
    )


def _held(reading: Reading | None, device: str) -> dict[str, int]:
    if reading is None:
        return {}
    return {held.model.id: held.bytes for held in reading.models if held.device == device}


def surroundings_of(failure: Mapping[str, Any] | None) -> Surroundings:
    """Return what else is known now: other processes, torch's settings."""
    return Surroundings(failure, others(), allocator(), computes_in_bf16(), has_flag)


def others() -> dict[str, float]:
    """Return MiB of other processes on the cards by their names; empty if not known."""
    return {other.name: other.used_bytes / MIB
            for device in used_devices() for other in other_processes(device)}


def allocator() -> dict[str, Any]:
    """Return which allocator torch uses, and its settings that matter here.

    Dynamic VRAM does not see expandable segments, so it would leave no room for them.
    """
    if not torch.cuda.is_available() or not is_started("cuda"):
        return {}
    said, host = allocator_words(), current_host()
    has_pager = host is not None and host.has_dynamic_vram()
    return {
        "backend": torch.cuda.get_allocator_backend(),
        "expandable": "expandable_segments:true" in said,
        "can_expand": sys.platform == "linux" and torch.version.hip is None and not has_pager,
        "threshold": "garbage_collection_threshold:" in said,
    }
