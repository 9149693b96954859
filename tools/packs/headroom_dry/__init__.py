"""What each node and each step of a dry run took, by the fake driver's own ledger.

GET /dry/runs/{prompt_id} -> [{node_id, peak_bytes, allocated_bytes, pages_bytes, workspace_bytes,
refused, htod_bytes, steps: [bytes copied to the device in each step]}]
POST /dry/forget: what Headroom learned from earlier runs.
POST /dry/shapes {wanted: [[function, its arguments]]} -> [{weight: shape}], by
tools/public_architectures.py.

Headroom's own progress handler calls it, so that each figure is read in the thread that runs
the node: between two events nothing else can have happened.
"""

import asyncio
import os
import sys
import threading
from collections import OrderedDict
from pathlib import Path

import psutil
import torch
from aiohttp import web
from comfy_execution.progress import get_progress_state
from server import PromptServer

sys.path.append(str(Path(__file__).resolve().parents[3] / "lab" / "fakecuda"))
from ledger import Ledger  # noqa: E402

from .headroom_dry_frames import LARGE_BYTES, Frames, uncomputed  # noqa: E402
from .headroom_dry_integers import Integers, mark_small, tell_of_data  # noqa: E402
from .headroom_dry_once import (  # noqa: E402
    load_unseen,
    look_at_one_frame,
    run_unseen,
    shorten_tiles,
)
from .headroom_dry_run import (  # noqa: E402
    assume_a_lens,
    forget_lessons,
    grow_no_frames,
    look_at_no_weight,
    look_for_no_holder,
    mesh_a_corner,
    resize_no_frames,
    write_few_words,
    write_one_frame,
    write_one_second,
)
from .headroom_dry_shapes import shapes  # noqa: E402
from .headroom_dry_steps import Steps  # noqa: E402

NODE_CLASS_MAPPINGS: dict[str, type] = {}
KEPT_RUNS = 8
ALL_TILES = "HEADROOM_DRY_ALL_TILES"  # not empty: each tile runs, so that launches can be counted
HOST_RAM = "HEADROOM_DRY_RAM_MIB"  # the RAM that ComfyUI is to find free, whatever this machine has


class Probe:
    """Follows one prompt after the other."""

    def __init__(self):
        self.ledger = Ledger(Path(os.environ["FAKECUDA_LEDGER"]))
        self.runs = OrderedDict()
        self.handler = None
        self.open = None
        self.thread = threading.local()

    def hang_on(self):
        """Be called by Headroom's handler too; there is one as long as the server lives."""
        found = get_progress_state().handlers.get("headroom")
        if found is None or found is self.handler:
            return
        self.handler = found
        starts, finishes = found.start_handler, found.finish_handler

        def start(node_id, state, prompt_id):
            self.close(prompt_id)  # before the recorder resets torch's peak
            starts(node_id, state, prompt_id)
            self.starts(node_id, prompt_id)

        def finish(node_id, state, prompt_id):
            self.finishes(node_id, prompt_id)
            finishes(node_id, state, prompt_id)

        found.start_handler, found.finish_handler = start, finish
        found.update_handler = lambda node_id, value, most, state, prompt_id, image=None: (
            self.steps(node_id, value, most, prompt_id))

    def starts(self, node_id, prompt_id):
        self.compute_integers()
        self.ledger.reset_peaks()
        torch.cuda.reset_peak_memory_stats()
        now = self.ledger.device()
        run = self.runs.setdefault(prompt_id, OrderedDict())
        while len(self.runs) > KEPT_RUNS:
            self.runs.popitem(last=False)
        node = run.setdefault(node_id, {
            "node_id": node_id, "peak_bytes": 0, "allocated_bytes": 0, "pages_bytes": 0,
            "workspace_bytes": 0, "refused": 0, "htod_bytes": 0, "steps": [],
        })
        self.open = (node_id, now.refused, now.htod_bytes)
        self.bar = Steps(node["steps"], now.htod_bytes)

    def compute_integers(self):
        """Let the thread that runs the nodes have real values of small integers, from now on."""
        if not getattr(self.thread, "integers", None):
            self.thread.integers = Integers(uncomputed)
            self.thread.integers.__enter__()

    def reads(self):
        """How often a number was read back, in the thread that runs the nodes."""
        return self.thread.integers.reads

    def copied_bytes(self):
        return self.ledger.device().htod_bytes

    def steps(self, node_id, value, most, prompt_id):
        if node_id in self.runs.get(prompt_id, {}):
            self.bar.told(value, most, self.copied_bytes())

    def finishes(self, node_id, prompt_id):
        self.close(prompt_id)

    def close(self, prompt_id):
        """Record the figures of the node that ran last."""
        if self.open is None:
            return
        (node_id, refused, copied), self.open = self.open, None
        node = self.runs.get(prompt_id, {}).get(node_id)
        if node is None:
            return
        now = self.ledger.device()
        # Expandable segments are handles too, as the pager's pages are.
        is_expandable = not now.malloc_bytes + now.pool_reserved_bytes
        torchs_own = torch.cuda.memory_reserved() if is_expandable else 0
        node["peak_bytes"] = max(node["peak_bytes"], now.peak_used_bytes)
        node["allocated_bytes"] = max(node["allocated_bytes"], torch.cuda.max_memory_allocated())
        node["pages_bytes"] = max(node["pages_bytes"], now.peak_handle_bytes - torchs_own)
        node["workspace_bytes"] = max(node["workspace_bytes"], now.largest_workspace_bytes)
        node["refused"] += now.refused - refused
        node["htod_bytes"] += now.htod_bytes - copied

    def told(self, prompt_id):
        self.close(prompt_id)  # the last node of a run that failed has no end
        return list(self.runs.get(prompt_id, {}).values())


PROBE = Probe()


def _on_prompt(data):
    PROBE.hang_on()
    look_at_no_weight()
    look_for_no_holder()
    write_few_words()
    write_one_frame()
    write_one_second()
    assume_a_lens()
    mesh_a_corner()
    resize_no_frames(LARGE_BYTES)
    grow_no_frames(LARGE_BYTES)
    if not os.environ.get(ALL_TILES):
        shorten_tiles(PROBE.copied_bytes, Frames)
        look_at_one_frame(PROBE.copied_bytes, lambda: PROBE.open)
    run_unseen(PROBE.reads)
    load_unseen(mark_small)
    return data


def _assume_ram(mib):
    """ComfyUI decides by free RAM where to make a model; the answer must not be this machine's."""
    asked = psutil.virtual_memory

    def virtual_memory():
        return asked()._replace(available=int(mib * 2**20))

    psutil.virtual_memory = virtual_memory


if os.environ.get(HOST_RAM):
    _assume_ram(float(os.environ[HOST_RAM]))
tell_of_data()
PromptServer.instance.add_on_prompt_handler(_on_prompt)


@PromptServer.instance.routes.get("/dry/runs/{prompt_id}")
async def _run(request: web.Request) -> web.Response:
    return web.json_response(PROBE.told(request.match_info["prompt_id"]))


@PromptServer.instance.routes.post("/dry/forget")
async def _forget(_request: web.Request) -> web.Response:
    forget_lessons()
    return web.json_response({})


@PromptServer.instance.routes.post("/dry/shapes")
async def _shapes(request: web.Request) -> web.Response:
    wanted = (await request.json())["wanted"]
    try:
        return web.json_response(await asyncio.to_thread(shapes, wanted))
    except Exception as error:  # noqa: BLE001 - a class of this ComfyUI may be another; it is told
        return web.json_response(repr(error), status=500)
