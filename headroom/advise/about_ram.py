"""What to change if a run nearly filled the RAM that this process may use, or swapped.

Other findings are about the GPU's peak; these save RAM, and how much is not known before.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..base.device import MIB, in_mib
from ..base.graph import Graph
from ..record.run import Run
from .case import Case
from .finding import NOTHING, Finding
from .picture_size import Size, size_of
from .words import amounts, short_text

NEARLY_FULL = 0.9
LEAST_SWAPPED = 256 * MIB
LEAST_PINNED = LEAST_FRAMES = 0.25  # of the peak
LEAST_CACHED = LEAST_MODEL = 0.1
HEADROOM = 0.1  # of RAM, in addition to the RAM of the largest node
PARTS_NAMED = 3
CHANNELS, FLOAT32 = 3, 4


@dataclass(frozen=True)
class Server:
    """What RAM this process may use, and how its ComfyUI was started.

    `has_flag(flag)`: whether ComfyUI has that flag and it would change something. `pinned_bytes`:
    what is pinned now. `kept_free_gib`: the value of --cache-ram. `cache_flag`: another flag for
    the cache. ComfyUI accepts only one flag for the cache.
    """

    limit_bytes: int
    has_flag: Callable[[str], bool]
    pinned_bytes: int = 0
    kept_free_gib: float = 0.0
    cache_flag: str | None = None


def about_ram(
    run: Run, server: Server, graph: Graph | None = None, case: Case | None = None
) -> list[dict[str, Any]]:
    """Return what held the RAM, and which flags of this ComfyUI and which nodes lower its peak."""
    peak, before = run.peak_rss_bytes or 0, run.swapped_before
    swapped = max((one.swapped_bytes for one in run.nodes.records.values()), default=0)
    if run.ram_low is None and peak < NEARLY_FULL * server.limit_bytes and (
            before is None or swapped - before < LEAST_SWAPPED):
        return []
    values = amounts(peak=peak, limit=server.limit_bytes)
    measured = {"peak_rss_mib": in_mib(peak), "limit_mib": in_mib(server.limit_bytes)}
    parts = [*_held(run), *_frames(run, graph, peak), *_models(run, case, peak),
             *_flags(run, server, peak)]
    found = (Finding(kind, NOTHING, {**values, **more}, measured, node_ids, cost="seconds")
             for kind, more, node_ids in parts)
    return [one.as_json() for one in found]


Part = tuple[str, dict[str, Any], tuple[str, ...]]  # kind, values, nodes


def _held(run: Run) -> Iterator[Part]:
    """Yield who held most RAM when the run ended."""
    held = run.ram_held
    if held is None:
        return
    named = [(one["mib"], one["file"] or one["class"]) for one in held["models"]]
    named += [(one["mib"], f"{one['class_type']} #{one['node_id']}") for one in held["cached"]
              if one["node_id"] is not None]
    named += [(one["mib"], f"{one['pack']}: {one['holder']}") for one in held["packs"]]
    most = sorted(named, reverse=True)[:PARTS_NAMED]
    if most:
        told = ", ".join(f"{name} {short_text(mib * MIB)}" for mib, name in most)
        yield "ram_held", {"held": told}, ()


def _frames(run: Run, graph: Graph | None, peak: int) -> Iterator[Part]:
    """Yield a node that decodes many frames at once: their bytes are known before it runs."""
    if graph is None:
        return
    for record in run.nodes.records.values():
        info = record.info
        if record.before is None or "VAEDecode" not in info.class_type or (
                info.node_id not in graph.nodes):
            continue
        kind = graph.node_type(info.node_id)
        if kind is None or "IMAGE" not in kind.outputs:
            continue  # it decodes sound
        sizes = [found for above in graph.above(info.node_id)
                 if (found := size_of(graph, graph.nodes[above]["inputs"]))
                 and found.is_said and found.frames_said]
        size = sizes[-1] if sizes else Size()
        frames = size.pictures * size.frames
        size_bytes = size.width * size.height * frames * CHANNELS * FLOAT32
        if frames > 1 and size_bytes >= LEAST_FRAMES * peak:
            yield "ram_frames", {
                "node": f"{info.title} #{info.node_id}", "frames": frames, "width": size.width,
                "height": size.height, **amounts(size=size_bytes)}, (info.node_id,)


def _models(run: Run, case: Case | None, peak: int) -> Iterator[Part]:
    """Yield a model that stays in RAM after its last use, while another large model is needed."""
    if run.ram_held is None or case is None:
        return
    large = {one["id"]: one["mib"] for one in run.ram_held["models"]
             if one["mib"] * MIB >= LEAST_MODEL * peak and one["id"] in case.models}
    used = {one: [number for number, step in enumerate(case.steps) if case.uses(step, one)]
            for one in large}
    done = [(large[one], one, max(used[one])) for one in large if used[one] and any(
        used[other] and max(used[one]) < min(used[other]) for other in large)]
    if done:
        mib, one, last = max(done)
        step = case.steps[last]
        yield "ram_models", {"model": case.models[one].file or case.models[one].class_name,
                             "node": step.name, **amounts(held=int(mib * MIB))}, (step.node_id,)


def _flags(run: Run, server: Server, peak: int) -> Iterator[Part]:
    """Yield flags of this ComfyUI that keep less in RAM."""
    if server.pinned_bytes >= LEAST_PINNED * peak and server.has_flag("--disable-pinned-memory"):
        yield "ram_pinned", {"flag": "--disable-pinned-memory",
                             **amounts(pinned=server.pinned_bytes)}, ()
    is_paged = any(held.model.is_dynamic for record in run.nodes.records.values()
                   if record.after is not None for held in record.after.models)
    is_default = server.has_flag("--disable-fast-disk")
    if is_paged and server.has_flag("--fast-disk") and not is_default:
        yield "ram_disk", {"flag": "--fast-disk"}, ()
    cached = 0 if run.ram_held is None else int(
        sum(one["mib"] for one in run.ram_held["cached"]) * MIB)
    is_cache_large = cached >= LEAST_CACHED * peak
    if server.cache_flag == "--high-ram" or (server.cache_flag and is_cache_large):
        yield "ram_without", {"flag": server.cache_flag, **amounts(cached=cached)}, ()
    elif is_cache_large and server.has_flag("--cache-ram"):
        grown = [(one.after.rss_bytes or 0) - (one.before.rss_bytes or 0)
                 for one in run.nodes.records.values() if one.before and one.after]
        # Free before each node: the RAM of the largest one, and a part of all.
        wanted = max([0, *grown]) + HEADROOM * server.limit_bytes
        gib = math.ceil(max(wanted / MIB / 1024, 2 * server.kept_free_gib))
        yield "ram_headroom", {"flag": "--cache-ram", "gib": gib, **amounts(cached=cached)}, ()
    elif not (server.cache_flag or server.kept_free_gib) and server.has_flag("--cache-none"):
        yield "ram_cache", {"flag": "--cache-none"}, ()
