"""What one sampling teaches the next of its kind: how large its pieces may be, what it needs."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.device import MIB
from ..base.said import said
from ..measure.report import mib_text
from . import lessons
from .options import GuardOptions
from .run import GuardedRun

_SPARE = 1.05  # of what was measured: blocks are rounded up


@dataclass(frozen=True)
class _Way:
    limit: int | None
    reserve: int
    keep_bytes: int
    alone: bool


def sampling_kind(guider: Any, shape: Sequence[int], options: GuardOptions) -> Hashable:
    """Return what samplings have in common that need the same memory; before one begins."""
    conds = sum(len(entries) for entries in (getattr(guider, "conds", None) or {}).values())
    return "sampling", lessons.identity(guider.model_patcher), tuple(shape), options, conds


def recall_into(run: GuardedRun, kind: Hashable, room: int | None) -> None:
    """Let `run` begin with what an earlier sampling of this kind came to its end with."""
    way = lessons.recall(kind, room)
    if way is None:
        return
    run.begins_fresh, run.alone = True, way.alone
    run.limit = run.works = way.limit
    run.reserve, run.keep_bytes = way.reserve, way.keep_bytes
    words: list[str] = [said("guard_tidied", "returned cached and dead memory")]
    if way.alone:
        words.append(said("guard_unloaded_all", "unloaded other models"))
    if way.limit is not None:
        text = f"split the batch into pieces of at most {way.limit}"
        words.append(said("guard_split_again", text, limit=way.limit))
    if way.keep_bytes:
        text = f"kept {mib_text(way.keep_bytes)} free of weights"
        words.append(said("guard_kept_free", text, kept_mib=way.keep_bytes / MIB))
    elif way.reserve > 1:
        words.append(said("guard_reserved", "loaded fewer of its own weights onto the GPU"))
    lessons.note_remembered(words)


def learn_from(run: GuardedRun, kind: Hashable, room: int | None) -> None:
    """Keep how `run` came to its end, if memory had run out in it; room: from before it."""
    if run.missing_bytes is None:
        return
    keep = int(run.need_bytes * _SPARE) if run.missing_bytes else 0
    way = _Way(run.limit if run.missing_bytes else None, run.reserve, keep, run.alone)
    lessons.learn(kind, way, room, run.missing_bytes)
