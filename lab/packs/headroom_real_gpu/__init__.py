"""A real GPU behind the same HTTP requests that the simulated one answers, under /realgpu.

GET  /realgpu/ledger, /realgpu/pending
POST /realgpu/capacity {"mib": N}   all that this process may take, and what the driver then shows
POST /realgpu/other {"mib": N}      bytes that another process really holds
POST /realgpu/reset_peaks, /realgpu/collect
A chosen allocation cannot be made to fail here: there is no /realgpu/fault.
"""

import asyncio
import gc

import torch
from aiohttp import web
from server import PromptServer

from .other_process import other_process

NODE_CLASS_MAPPINGS: dict[str, type] = {}
MIB = 2**20


class Limits:
    """The limits set on this process: the share of torch's allocator, and another process."""

    def __init__(self):
        self.capacity_bytes = None
        self.other = other_process()

    def set_capacity(self, nbytes):
        """Behave like a GPU of `nbytes`: limit the allocator; another process takes the rest."""
        total = torch.cuda.mem_get_info()[1]
        self.capacity_bytes = None if nbytes >= total else nbytes
        torch.cuda.set_per_process_memory_fraction(min(nbytes / total, 1.0))
        reserved = torch.cuda.memory_reserved()
        self.other.leave_free(None if nbytes >= total else max(nbytes - reserved, 0))


class Peaks:
    """torch's peaks since a test reset them, although others reset torch's counters meanwhile.

    A test wants one peak for many nodes, and the recorder resets the counters at each node.
    """

    def __init__(self):
        self.begin_again = torch.cuda.reset_peak_memory_stats
        self.allocated = self.reserved = 0
        torch.cuda.reset_peak_memory_stats = self.keep_and_begin_again

    def keep_and_begin_again(self, device=None):
        self.look()
        self.begin_again(device)

    def look(self):
        self.allocated = max(self.allocated, torch.cuda.max_memory_allocated())
        self.reserved = max(self.reserved, torch.cuda.max_memory_reserved())

    def reset(self):
        self.begin_again()
        self.allocated = self.reserved = 0


LIMITS, PEAKS = Limits(), Peaks()


def ledger(body=None):
    stats = torch.cuda.memory_stats()
    PEAKS.look()
    free, total = torch.cuda.mem_get_info()
    capacity = LIMITS.capacity_bytes or total
    reserved = torch.cuda.memory_reserved()
    return {
        "capacity_bytes": capacity,
        "free_bytes": free,
        "other_process_bytes": max(total - free - reserved, 0),
        "allocated_bytes": torch.cuda.memory_allocated(),
        "reserved_bytes": reserved,
        "peak_allocated_bytes": PEAKS.allocated,
        "peak_reserved_bytes": PEAKS.reserved,
        "requested_bytes": stats.get("requested_bytes.all.current", 0),
        "live_blocks": stats.get("allocation.all.current", 0),
        "allocations": stats.get("allocation.all.allocated", 0),
        "frees": stats.get("allocation.all.freed", 0),
        "alloc_retries": stats.get("num_alloc_retries", 0),
        "ooms": stats.get("num_ooms", 0),
        "allocator": torch.cuda.get_allocator_backend(),
    }


def collect(body):
    gc.collect()
    torch.cuda.synchronize()
    return ledger()


def reset_peaks(body):
    PEAKS.reset()
    return ledger()


def capacity(body):
    LIMITS.set_capacity(_bytes(body))
    return ledger()


def other(body):
    free, _ = torch.cuda.mem_get_info()
    taken = _bytes(body)
    LIMITS.other.leave_free(None if taken == 0 else max(free - taken, 0))
    return ledger()


def _bytes(body):
    mib = body.get("mib")
    if isinstance(mib, bool) or not isinstance(mib, int | float) or mib < 0:
        raise ValueError(f'expected {{"mib": a number from 0 up}}, got {body}')
    return int(mib * MIB)


ACTIONS = {
    "ledger": ledger, "collect": collect, "reset_peaks": reset_peaks, "capacity": capacity,
    "other": other,
}


@PromptServer.instance.routes.get("/realgpu/pending")
async def _pending(request: web.Request) -> web.Response:
    flags = PromptServer.instance.prompt_queue.get_flags(reset=False)
    return web.json_response({"free": bool(flags)})


@PromptServer.instance.routes.get("/realgpu/ledger")
async def _ledger(request: web.Request) -> web.Response:
    return web.json_response(await asyncio.to_thread(ledger))


async def _answer(request: web.Request) -> web.Response:
    try:
        body = await request.json() if request.can_read_body else {}
        action = ACTIONS[request.match_info["action"]]
        return web.json_response(await asyncio.to_thread(action, body))
    except (TypeError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=400)


for _name in ("collect", "reset_peaks", "capacity", "other"):
    PromptServer.instance.routes.post(f"/realgpu/{{action:{_name}}}")(_answer)
