"""ComfyUI's own execution tests, without this pack and with it: every outcome must be the same.

    python benchmarks/comfyui_tests.py --comfyui PATH

The tests start `main.py` of the tree they lie in, so each run gets a scratch copy of the tree with
an empty `custom_nodes` folder, or with one that leads to this pack. Their packs of test nodes come
along in the copy. Needs what those tests need: pytest and websocket-client.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

from on_path import ROOT

from tools.links import link_folder
from tools.ports import free_port
from tools.processes import end_process, start_process
from tools.server import PACK_NAME

NAME = "comfyui_tests"
SUITE = "tests/execution"
PATIENCE = ROOT / "benchmarks" / "patience" / "comfyui_tests_patience.py"
LEFT_OUT = (".git", "models", "output", "input", "temp", "user", "custom_nodes", "__pycache__")
TAIL_LINES = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--comfyui", default=os.environ.get("COMFYUI_PATH"), help="ComfyUI tree")
    parser.add_argument("--tests", default=SUITE, help="path inside the tree, as pytest takes it")
    parser.add_argument("--log", type=Path, help="folder that keeps the output of both runs")


def run(args: argparse.Namespace) -> dict[str, object]:
    """Return how many tests had which outcome in both runs, and each that differs."""
    outcomes = {}
    with tempfile.TemporaryDirectory() as scratch:
        logs = args.log or Path(scratch)
        logs.mkdir(parents=True, exist_ok=True)
        for name, pack in (("without", None), ("with", ROOT)):
            tree = copy_tree(Path(args.comfyui), Path(scratch) / name, pack)
            log = logs / f"comfyui_tests_{name}.log"
            outcomes[name] = run_suite(tree, args.tests, log)
            check_loaded(log, pack is not None)
    without, with_pack = outcomes["without"], outcomes["with"]
    differing = {
        test: [without.get(test, "not run"), with_pack.get(test, "not run")]
        for test in sorted({*without, *with_pack})
        if without.get(test) != with_pack.get(test)
    }
    return {
        "tests": args.tests, "ran_on": "CPU: the tests start ComfyUI with --cpu",
        "count": len(without), "without": counts(without), "with": counts(with_pack),
        "differing": differing,
        "failed_in_both": sorted(
            test for test, outcome in without.items()
            if outcome in ("failed", "error") and test not in differing
        ),
    }


def copy_tree(comfyui: Path, target: Path, pack: Path | None) -> Path:
    """A copy of the ComfyUI tree that may be written to, with `pack` as its only custom node."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        top = Path(folder) == comfyui
        return {name for name in names if name == "__pycache__" or (top and name in LEFT_OUT)}

    shutil.copytree(comfyui, target, ignore=left_out, symlinks=True)
    for name in ("custom_nodes", "models/checkpoints", "input", "output"):
        (target / name).mkdir(parents=True)
    (target / "extra_model_paths.yaml").unlink(missing_ok=True)  # it may name other custom nodes
    if pack is not None:
        link_folder(target / "custom_nodes" / PACK_NAME, pack)
    return target


def run_suite(tree: Path, tests: str, log: Path) -> dict[str, str]:
    """The outcome of every test by its full name."""
    report = tree / "outcomes.xml"
    command = [
        sys.executable, "-m", "pytest", tests, "--skip-timing-checks", "-p", "no:cacheprovider",
        "-q", "-p", PATIENCE.stem, f"--junitxml={report}", "--port", str(free_port()),
    ]
    # The tests start `python`, which must be this one, and wait 20 seconds, which is too short on a
    # busy machine: the plugin waits until the server listens.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    env = {
        **os.environ, "PATH": path, "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONPATH": str(PATIENCE.parent), "PYTHONPYCACHEPREFIX": str(tree.parent / "bytecode"),
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # the tests start the server many times
    with log.open("wb") as output:
        process = start_process(command, cwd=tree, env=env, output=output)
        try:
            process.wait()
        finally:
            end_process(process)  # with the servers of the tests, should this one be ended
    if not report.exists():
        ending = "\n".join(log.read_text("utf-8", "replace").splitlines()[-TAIL_LINES:])
        raise RuntimeError(f"ComfyUI's tests did not run; the output ends with:\n{ending}")
    return outcomes_of(report)


def check_loaded(log: Path, wanted: bool) -> None:
    """Make sure that ComfyUI loaded the pack where it should, and only there."""
    place = str(Path("custom_nodes") / PACK_NAME)
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if place in line]
    failed = [line for line in lines if "IMPORT FAILED" in line]
    if bool(lines) != wanted or failed:
        raise RuntimeError(f"Expected this pack to be loaded: {wanted}; ComfyUI said: {lines}")


def outcomes_of(report: Path) -> dict[str, str]:
    """passed, failed, error or skipped for every test in a JUnit file."""
    found = {}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        tags = {child.tag for child in case}
        bad = next((tag for tag in ("error", "failure", "skipped") if tag in tags), "passed")
        name = f"{case.get('classname')}::{case.get('name')}"
        found[name] = {"failure": "failed"}.get(bad, bad)
    return found


def counts(outcomes: dict[str, str]) -> dict[str, int]:
    """How many tests had each outcome."""
    return {kind: list(outcomes.values()).count(kind) for kind in sorted(set(outcomes.values()))}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    print(json.dumps(run(parser.parse_args()), indent=1))
