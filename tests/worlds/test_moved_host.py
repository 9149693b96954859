"""A ComfyUI that has moved something costs the feature that needs it, and no prompt."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("moved_host.py")
# What is lost with each feature: itself, and what needs it.
ALONE = ("sorter", "reserve",  # these do not need "nodes"
         "devices", "buffers", "spare", "clip", "cast", "outputs")
RERUN = {"rerun", "outputs"}
WITH = {
    **{feature: {feature} for feature in ALONE}, "rerun": RERUN,
    "server": {"server", "record", *RERUN}, "record": {"record", *RERUN},
    "guard": {"guard", "clip", *RERUN}, "files": {"files", *RERUN},
    "nodes": {"nodes", "guard", "files", "server", "record", *RERUN, *ALONE[2:]},
}


def test_each_symbol_that_is_gone_costs_its_feature_and_one_line_and_no_prompt(comfyui, tmp_path):
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, str(PROGRAM), str(comfyui), str(ROOT), str(tmp_path)]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) > 200
    wrong = {f"{one['symbol']} {one['is_otherwise']}": found
             for one in answers if (found := list(what_is_wrong(one)))}
    assert not wrong


def what_is_wrong(answer):
    if "raised" in answer:
        yield answer["raised"]
        return
    if answer["finishes"] is not None:
        yield f"the prompt that can finish: {answer['finishes']}"
    if not answer["fails"].startswith("CUDA out of memory"):
        yield f"the prompt that runs out of memory: {answer['fails']}"
    if answer["tracebacks"]:
        yield f"tracebacks: {answer['tracebacks']}"
    if not answer["is_noticed"]:
        yield "the table does not tell"
    told = [line for line in answer["lines"] if "than Headroom knows" in line]
    if bool(told) != bool(answer["features"]):
        yield f"lines: {told}"
    gone = set().union(*(WITH[feature] for feature in answer["features"]))
    if "server" in gone:
        if answer["memory"] is not None:
            yield "routes are there"
        return
    if [f"[Headroom] {one['text']}" for one in answer["memory"]["lost"]] != told:
        yield f"the panel is told: {answer['memory']['lost']}"
    runs = {run["prompt_id"]: run for run in answer["runs"]["runs"]}
    if ("record" in gone) == ("finishes" in runs):
        yield f"recorded: {list(runs)}"
    recovered = any(line.endswith("recovered") for line in answer["lines"])
    if ("guard" in gone) == recovered:
        yield f"recovered: {recovered}"
    if ("rerun" in gone) == any("can run again" in line for line in answer["lines"]):
        yield f"a rerun is offered: {answer['lines']}"
