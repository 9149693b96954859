"""What recording costs a run of 200 trivial nodes, and an idle server.

    python benchmarks/recorder_overhead.py --comfyui PATH

Runs ComfyUI's own executor on the CPU with the pack loaded, the same graph with the recorder
attached and detached in turns, and compares. `process_cpu` is of all threads, the recorder's too.
On a busy machine these differ by more than what is looked for; `inside_the_recorder` is the CPU
time spent in the recorder's own methods and thread, set against runs without it. Turns of the
interpreter's lock between threads are only in the former. What the nodes are called is looked up
when the prompt has left the executor, and is in neither. `idle_cpu_ms_per_s` is the CPU time of
the process while nothing runs, with the pack and without.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

NAME = "recorder_overhead"
ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

from devtools.bench_run import alone  # noqa: E402

CHILD = """
import sys, time, asyncio, importlib.util, json, threading
sys.path.insert(0, {comfyui!r})
sys.argv = ["main.py", "--cpu", "--base-directory", {base!r}]
import comfy.options
comfy.options.enable_args_parsing()
import utils.extra_config, app.frontend_management
import execution, server, nodes
from comfy_execution.progress import get_progress_state

class Trivial:
    CATEGORY, RETURN_TYPES, FUNCTION, OUTPUT_NODE = "benchmark", ("INT",), "run", False
    @classmethod
    def INPUT_TYPES(cls):
        return {{"required": {{"value": ("INT", {{"default": 0}})}}}}
    def run(self, value):
        return (value + 1,)

class TrivialEnd(Trivial):
    OUTPUT_NODE = True

nodes.NODE_CLASS_MAPPINGS.update(Trivial=Trivial, TrivialEnd=TrivialEnd)
loop = asyncio.new_event_loop()
prompt_server = server.PromptServer(loop)
threading.Thread(target=loop.run_until_complete, args=(prompt_server.publish_loop(),),
                 daemon=True).start()
executor = execution.PromptExecutor(
    prompt_server, cache_type=execution.CacheType.CLASSIC,
    cache_args={{"lru": 0, "ram": 0.0, "ram_inactive": 0.0}})

def idle(seconds):
    began = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - began) * 1000 / seconds

idle_without = idle(5)
spec = importlib.util.spec_from_file_location(
    "headroom_pack", {root!r} + "/__init__.py", submodule_search_locations=[{root!r}])
pack = importlib.util.module_from_spec(spec)
sys.modules["headroom_pack"] = pack
spec.loader.exec_module(pack)
asyncio.run(pack.comfy_entrypoint())
recorder = sys.modules["headroom_pack.headroom.start"].recorder()

def graph(salt, count):
    prompt = {{"0": {{"class_type": "Trivial", "inputs": {{"value": salt}}}}}}
    for i in range(1, count):
        kind = "Trivial" if i < count - 1 else "TrivialEnd"
        prompt[str(i)] = {{"class_type": kind, "inputs": {{"value": [str(i - 1), 0]}}}}
    return prompt

def once(salt, recorded):
    registry = get_progress_state()
    if recorded:
        recorder.attach()
    else:
        registry.handlers.pop("headroom", None)
    prompt_id = f"run-{{salt}}"
    queue = prompt_server.prompt_queue
    queue.put((0, prompt_id, graph(salt, {nodes}), {{}}, [str({nodes} - 1)], {{}}))
    item, item_id = queue.get()
    wall, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
    executor.execute(item[2], prompt_id, {{}}, item[4])
    took = (time.perf_counter() - wall, time.process_time() - cpu, time.thread_time() - own)
    status = execution.PromptQueue.ExecutionStatus("success", True, executor.status_messages)
    queue.task_done(item_id, executor.history_result, status)
    found = recorder.run(prompt_id)
    assert (found is not None) == recorded and (found is None or len(found["nodes"]) == {nodes})
    return took

for salt in range(6):
    once(-1 - salt, salt % 2 == 0)
runs = {{True: [], False: []}}
for turn in range({turns}):
    for recorded in ((True, False), (False, True))[turn % 2]:
        time.sleep(0.06)  # the recorder's thread finishes with the run before
        runs[recorded].append(once(turn * 2 + recorded, recorded))
spent = [0.0]

def timed(method):
    def call(*args):
        began = time.thread_time()
        try:
            return method(*args)
        finally:
            spent[0] += time.thread_time() - began
    return call

time.sleep(1)
idle_with = idle(5)
for name in ("prompt_resets", "prompt_begins", "node_starts", "node_finishes", "prompt_leaves",
             "_look"):
    setattr(recorder, name, timed(getattr(recorder, name)))
inside = []
for turn in range({turns}):
    time.sleep(0.06)
    spent[0] = 0.0
    once(10**6 + turn, True)
    inside.append(spent[0])
print(json.dumps({{"on": runs[True], "off": runs[False],
                   "idle_without": idle_without, "idle_with": idle_with, "inside": inside}}))
sys.stdout.flush()
import os
os._exit(0)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turns", type=int, default=40, help="runs of each kind")
    parser.add_argument("--nodes", type=int, default=200)


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return medians in ms of a run with and without the recorder, and the share it adds in %."""
    found = _measure(args)
    result: dict[str, object] = {"nodes": args.nodes, "turns": args.turns}
    for index, name in enumerate(("wall", "process_cpu", "executor_thread_cpu")):
        on = [times[index] * 1000 for times in found["on"]]
        off = [times[index] * 1000 for times in found["off"]]
        added = statistics.median(a - b for a, b in zip(on, off, strict=True))
        result[name] = {
            "recorded_ms": round(statistics.median(on), 3),
            "not_recorded_ms": round(statistics.median(off), 3),
            "recorded_min_ms": round(min(on), 3),
            "not_recorded_min_ms": round(min(off), 3),
            "added_percent": round(100 * added / statistics.median(off), 2),
        }
    inside = [seconds * 1000 for seconds in found["inside"]]
    result["inside_the_recorder"] = {
        "median_ms": round(statistics.median(inside), 3),
        "min_ms": round(min(inside), 3),
        "percent_of_fastest_run": round(
            100 * min(inside) / (1000 * min(times[0] for times in found["off"])), 2
        ),
        "percent_median": round(
            100 * statistics.median(inside)
            / (1000 * statistics.median(times[1] for times in found["off"])), 2
        ),
    }
    result["idle_cpu_ms_per_s"] = {
        "with": round(found["idle_with"], 3), "without": round(found["idle_without"], 3)
    }
    return result


def _measure(args: argparse.Namespace) -> dict[str, list[list[float]]]:
    import tempfile

    with tempfile.TemporaryDirectory() as base:
        for name in ("custom_nodes", "models", "input", "output", "user"):
            (Path(base) / name).mkdir()
        code = CHILD.format(
            comfyui=str(args.comfyui), root=str(ROOT), base=base, turns=args.turns,
            nodes=args.nodes,
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=base
        )
    if done.returncode != 0:
        raise RuntimeError(f"The measurement failed:\n{done.stderr[-2000:]}")
    answer: dict[str, list[list[float]]] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


if __name__ == "__main__":
    alone(sys.modules[__name__])
