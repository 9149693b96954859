"""A ComfyUI that has moved something costs the feature that needs it, and no prompt."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support import releases

from headroom.host import contract
from tools.server import ComfyServer

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(__file__).with_name("moved_host.py"))
NEWER = Path(__file__).parent / "newer"  # the shape of files newer than both trees
ASK = """
import json, sys
sys.path[:0] = sys.argv[1:]
import contract, symbols
print(json.dumps([one for table in contract.CONTRACT.values() for found in symbols.broken(table)
                  for one in found]))
"""
# What is lost with each feature: itself, and what needs it.
WITHOUT_NODES = ("sorter", "reserve")  # these do not need "nodes"
WITH_NODES = ("devices", "buffers", "spare", "clip", "cast", "outputs")
RERUN = {"rerun", "outputs"}
WITH = {
    **{feature: {feature} for feature in (*WITHOUT_NODES, *WITH_NODES)}, "rerun": RERUN,
    "server": {"server", "record", *RERUN}, "record": {"record", *RERUN},
    "guard": {"guard", "clip", *RERUN}, "files": {"files", *RERUN},
    "nodes": {"nodes", "guard", "files", "server", "record", *RERUN, *WITH_NODES},
}


@pytest.fixture(scope="module")
def run(servers, tmp_path_factory):
    """A function that gives what became of the prompts on a ComfyUI: see `moved_host.py`."""

    def run(comfyui, *only):
        folder = tmp_path_factory.mktemp("moved")
        with (folder / "log").open("wb") as log:
            process = servers.start_process(
                [sys.executable, PROGRAM, str(comfyui), str(ROOT), str(folder), *only], cwd=folder,
                env=ComfyServer(comfyui, folder).environment(), output=log)
        assert process.wait() == 0, (folder / "log").read_text()[-2000:]
        lines = (folder / "answers.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]

    return run


@pytest.fixture(scope="module")
def oldest(run, comfyui):
    """What this ComfyUI lacks, and what became of the prompts without each symbol that it has."""
    return run(comfyui)


@pytest.fixture(scope="module")
def newest(run, oldest, newest_comfyui):
    """The same of the newest one, for what the oldest does not have."""
    return run(newest_comfyui, *sorted({name.partition("(")[0] for name in oldest[0][1]}))


def test_each_symbol_that_is_gone_costs_its_feature_and_one_line_and_no_prompt(oldest):
    assert len(oldest) > 200
    assert not wrong(oldest)


def test_each_symbol_that_only_newer_comfyuis_have_costs_no_more_when_it_is_gone(newest):
    assert len(newest) > 30
    assert not wrong(newest)


def test_the_oldest_and_the_newest_comfyui_have_what_the_table_says(oldest, newest):
    words = [sys.executable, "-c", ASK, NEWER, Path(contract.__file__).parent]
    of_newer = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    assert [each[0][0] for each in (oldest, newest)] == [[], []]
    nowhere = set(of_newer).intersection(
        oldest[0][1], newest[0][1], *(releases.lacks(one)[1] for one in releases.versions()))
    assert not nowhere, "a typing mistake? If no release has it: write it into newer/"


def test_a_real_comfyui_is_asked_for_its_flags_and_may_not_know_what_is_free(oldest, newest):
    asked = [["--reserve-vram", "--fast"], True, None]  # --cpu is given already
    assert [oldest[0][2], newest[0][2]] == [asked, asked]


def wrong(answers):
    return {f"{one['symbol']} {one['is_otherwise']}": found
            for one in answers[1:] if (found := list(what_is_wrong(one)))}


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
