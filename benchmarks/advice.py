"""Workflows without our nodes, before and after all advice on them was applied.

    python benchmarks/advice.py --comfyui PATH [--only NAME ...] [--templates NAME ...] [--write]

Each runs in a real ComfyUI on the simulated GPU, whose memory figures are exact, with small
random-weight models, on an empty device. What the server then advises is put into its prompt by
the pack's own `apply_edit`, and it runs again, until nothing new is advised (ROUNDS at most).

- The six bundled workflows in the variant without our nodes (see `tools/stock.py`), set against
  the bundled ones, which were made by hand: the most that was reserved, and what stays reserved
  after the run.
- Six workflows of ComfyUI's template package, which nobody here wrote (see
  `tools/templates.py`): the same, before and after.
- For each, the peak that was predicted with all advice on models, and the one that was measured.
- The pictures of a run with all advice that leaves pictures alone, against those without any.

Problems are: a workflow that needs over a tenth more than the hand-made one, a template that needs
more than before, fewer than four templates that need less, and a picture that should not have
changed.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import on_path  # noqa: F401
from advice_trials import Trials

from tools import results
from tools.bench_device import served
from tools.bench_run import alone
from tools.node_info import node_infos
from tools.templates import CHECKPOINT, TEMPLATES, template_prompt
from tools.workflow_models import make_workflow_models
from tools.workflow_trials import (
    CASES,
    ENVIRONMENT,
    both_prompts,
    write_example_picture,
)
from tools.workflows import WORKFLOWS

NAME = "advice"
# Room for everything, and less than the RAM that is free: else ComfyUI makes models on the device.
ROOM_MIB = 6144
CLOSE = 1.1  # of the hand-made workflow
SLACK_MIB = 4.0  # two pieces of the allocator
SECOND = "second.safetensors"  # the same weights under another name: another model for ComfyUI
LESS = 4  # templates that need less
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", nargs="*", choices=list(WORKFLOWS), default=list(WORKFLOWS))
    parser.add_argument("--templates", nargs="*", choices=list(TEMPLATES), default=list(TEMPLATES))


def run(args: argparse.Namespace) -> Json:
    """Return the figures of each workflow; those that are not asked for stay as recorded."""
    workflows = {name: bundled(name, args) for name in args.only}
    measured = templates(args) if args.templates else {}
    before = results.of(NAME, Path(args.comfyui))
    found = {"workflows": {**before.get("workflows", {}), **workflows},
             "templates": {**before.get("templates", {}), **measured}}
    return {**found, **summary(found), "problems": problems(found)}


def bundled(name: str, args: argparse.Namespace) -> Json:
    with started(args, CASES[name].flags) as device:
        trials, prompts = Trials(device), both_prompts(name)
        result = trials.compared(prompts["stock"])
        return {**result, "by_hand": trials.needs(prompts["headroom"])[0]}


def templates(args: argparse.Namespace) -> Json:
    with started(args, ()) as device:
        infos = node_infos(device.client.get_json("/object_info"))
        return {name: Trials(device).compared(template_prompt(name, infos, (CHECKPOINT, SECOND)))
                for name in args.templates}


def started(args: argparse.Namespace, flags: tuple[str, ...]) -> Any:
    models = make_workflow_models(args.comfyui)

    def prepare(base: Path) -> None:
        write_example_picture(base / "input")
        own = base / "models" / "checkpoints"
        own.mkdir(parents=True)
        (own / SECOND).symlink_to((models / "checkpoints" / CHECKPOINT).resolve())

    return served(
        args, ROOM_MIB, flags=flags, packs=["headroom_small_encoders"], models_dir=models,
        env={"OMP_NUM_THREADS": "2", **ENVIRONMENT}, prepare=prepare,
    )


def summary(found: Json) -> Json:
    """How many templates need less, how many predictions came true, and the error of the others."""
    parts = [*found["workflows"].values(), *found["templates"].values()]
    pairs = [(part["predicted_peak_mib"], part["first_peak_mib"]) for part in parts
             if part["predicted_peak_mib"]]
    errors = [max(low - measured, measured - high, 0.0) for (low, high), measured in pairs]
    less = [name for name, part in found["templates"].items() if _less(part)]
    return {"predictions": len(errors), "held": sum(error <= SLACK_MIB for error in errors),
            "largest_error_mib": round(max(errors, default=0.0), 1), "templates_with_less": less}


def _less(part: Json) -> bool:
    return bool(part["advised"]["peak_reserved_mib"] < part["stock"]["peak_reserved_mib"])


def problems(found: Json) -> list[str]:
    """Return the problems."""
    said = [f"{name}: {what} than by hand" for name, part in found["workflows"].items()
            for what in _worse(part["advised"], part["by_hand"], CLOSE)]
    said += [f"{name}: {what} than before" for name, part in found["templates"].items()
             for what in _worse(part["advised"], part["stock"], 1.0)]
    less = summary(found)["templates_with_less"]
    if len(found["templates"]) == len(TEMPLATES) and len(less) < LESS:
        said.append("fewer than four templates need less")
    return said + [f"{name}: the picture changed"
                   for name, part in {**found["workflows"], **found["templates"]}.items()
                   if not part["pictures"]["same"]]


def _worse(ours: Json, other: Json, close: float) -> Iterator[str]:
    for figure in ("peak_reserved_mib", "left_reserved_mib"):
        if ours[figure] > close * other[figure] + SLACK_MIB:
            yield f"{figure} is {ours[figure]}, more ({other[figure]})"


if __name__ == "__main__":
    alone()
