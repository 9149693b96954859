"""Workflows without our nodes, before and after all advice on them was applied.

    python benchmarks/advice.py --comfyui PATH [--only NAME ...] [--templates NAME ...] [--write]

Each runs in a real ComfyUI on the simulated GPU, whose memory figures are exact, with small
random-weight models, on an empty device. What the server then advises is put into its prompt by
the pack's own `apply_edit`, and it runs again, until nothing new is advised (at most `--rounds`).

- The six bundled workflows in the variant without our nodes (see `devtools/stock.py`), set against
  the bundled ones, which were made by hand: the most that was reserved, what stays reserved after
  the run, and whether both complete at a tenth more than the smallest capacity that was recorded
  for the bundled one (`benchmarks/workflows.py`).
- Six workflows of ComfyUI's template package, which nobody here wrote (see
  `devtools/templates.py`): the same, before and after, at the capacities `--tight`.
- For each, the peak that was predicted with all advice on models, and the one that was measured;
  with `--each` also what every piece of advice was to save on its own, and what it saved.
- The pictures of a run with all advice that leaves pictures alone, against those without any.

Problems: what needs more than a tenth more than by hand, a template that needs more than before,
fewer than four that need less, a changed picture that was to stay the same.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import on_path  # noqa: F401

from devtools import advice, figures, results
from devtools.bench_device import MIB, Device, served
from devtools.bench_run import alone
from devtools.client import Client
from devtools.node_info import node_infos
from devtools.templates import TEMPLATES, template_prompt
from devtools.workflow_models import make_workflow_models
from devtools.workflow_trials import (
    CASES,
    ENVIRONMENT,
    both_prompts,
    write_example_picture,
)
from devtools.workflows import WORKFLOWS

NAME = "advice"
# Room for everything, and less than the RAM that is free: else ComfyUI makes models on the device.
ROOM_MIB = 6144
CLOSE = 1.1  # of the hand-made workflow
SLACK_MIB = 4.0  # two pieces of the allocator
SMALLEST = "smallest_capacity_mib"
LESS = 4  # templates that need less
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--comfyui", default=os.environ.get("COMFYUI_PATH"), help="ComfyUI tree")
    parser.add_argument("--only", nargs="*", choices=list(WORKFLOWS), default=list(WORKFLOWS))
    parser.add_argument("--templates", nargs="*", choices=list(TEMPLATES), default=list(TEMPLATES))
    parser.add_argument("--tight", nargs="*", type=int, default=[48, 24], metavar="MIB")
    parser.add_argument("--each", action="store_true", help="each piece of advice alone, too")
    parser.add_argument("--rounds", type=int, default=3)


def run(args: argparse.Namespace) -> Json:
    """Return the figures of each workflow; those that are not asked for stay as recorded."""
    found = recorded(results.comfyui_version(Path(args.comfyui)))
    for name in args.only:
        found["workflows"][name] = bundled(name, args)
    found["templates"].update(templates(args) if args.templates else {})
    return {**found, **summary(found), "problems": problems(found)}


def recorded(comfyui: str) -> Json:
    parts = [part.result for part in results.newest()
             if part.name == NAME and part.simulated and part.comfyui == comfyui]
    last = parts[-1] if parts else {}
    return {"workflows": dict(last.get("workflows", {})),
            "templates": dict(last.get("templates", {}))}


def bundled(name: str, args: argparse.Namespace) -> Json:
    case = CASES[name]
    with started(args, case.flags) as device:
        trials = Trials(device, args)
        prompts = both_prompts(name)
        known = figures.recorded().get(name, {}).get("headroom", {})
        tight = [round(CLOSE * known[SMALLEST])] if SMALLEST in known else []
        result = trials.compared(prompts["stock"], tight)
        result["by_hand"], _ = trials.needs(prompts["headroom"], tight)
        return result


def templates(args: argparse.Namespace) -> Json:
    with started(args, ()) as device:
        trials = Trials(device, args)
        infos = node_infos(device.client.get_json("/object_info"))
        return {name: trials.compared(template_prompt(name, infos), args.tight)
                for name in args.templates}


def started(args: argparse.Namespace, flags: tuple[str, ...]) -> Any:
    return served(
        args, ROOM_MIB, flags=flags, packs=["headroom_small_encoders"],
        models_dir=make_workflow_models(args.comfyui), env={"OMP_NUM_THREADS": "2", **ENVIRONMENT},
        prepare=lambda base: write_example_picture(base / "input"),
    )


class Trials:
    """What is measured on one device."""

    def __init__(self, device: Device, args: argparse.Namespace) -> None:
        self.device, self.client, self.args = device, device.client, args

    def compared(self, stock: Json, tight: Sequence[int] = ()) -> Json:
        """The prompt as it is, and after all advice; with `--each` each piece of advice alone."""
        before, wanted = self.needs(stock, tight)
        found = self.advice()
        result = {"stock": before, "predicted_peak_mib": self.predicted()}
        if self.args.each:
            result["each"] = [self.alone(stock, one, before) for one in found if _counts(one)]
        unchanged = {"advised": before, "first_peak_mib": before["peak_reserved_mib"],
                     "pictures": {"advice": [], "count": len(wanted), "same": True}}
        return {**result, **unchanged, **self.followed(stock, found, tight, wanted)}

    def followed(
        self, prompt: Json, found: list[Json], tight: Sequence[int], wanted: list[bytes]
    ) -> Json:
        """The prompt with what is advised, and with what is advised then."""
        result: Json = {"advice": []}
        for number in range(self.args.rounds):
            edits = [one for one in found if one["edit"] is not None]
            if not edits:
                break
            changed = advice.applied(prompt, edits)
            result["advised"], made = self.needs(changed, tight)
            result["advice"].append([one["id"] for one in edits])
            if number == 0:
                result["first_peak_mib"] = result["advised"]["peak_reserved_mib"]
                result["pictures"] = self.pictures(prompt, edits, made, wanted)
            prompt, found = changed, self.advice()
        return result

    def predicted(self) -> list[float] | None:
        """The peak to expect with all advice about models, of the run that was just made."""
        newest = self.client.get_json("/headroom/runs?limit=1")["runs"][0]
        steps = [one for one in advice.of(self.client, newest["prompt_id"], into_gib=0.001)
                 if one["kind"] != "oom_guard"]
        return steps[-1]["expected_mib"] if steps else None

    def pictures(
        self, prompt: Json, edits: list[Json], made: list[bytes], wanted: list[bytes]
    ) -> Json:
        """Whether the pictures are the same with all advice that says so, and OOM Guard unused."""
        same = [one for one in edits if not one["changes_picture"] or one["kind"] == "oom_guard"]
        if len(same) < len(edits):
            _, made = self.needs(advice.applied(prompt, same))
        return {"advice": [one["id"] for one in same], "count": len(wanted),
                "same": made == wanted}

    def alone(self, prompt: Json, one: Json, before: Json) -> Json:
        """What one piece of advice was to save, and what it saved, of the most in use."""
        after, _ = self.needs(advice.apply_edit(prompt, one["edit"]))
        saved = before["peak_reserved_mib"] - after["peak_reserved_mib"]
        return {"id": one["id"], "predicted_mib": one["saves_mib"], "measured_mib": round(saved, 1)}

    def advice(self) -> list[Json]:
        """The advice on the run that was just made."""
        newest = self.client.get_json("/headroom/runs?limit=1")["runs"][0]
        return advice.of(self.client, newest["prompt_id"])

    def needs(self, prompt: Json, tight: Sequence[int] = ()) -> tuple[Json, list[bytes]]:
        """At which of these capacities it completes; with room its peak, what stays, pictures."""
        result: Json = {}
        if tight:
            result["completes_at_mib"] = [
                mib for mib in tight if self.device.attempt(prompt, mib) is None
            ]
        self.device.empty()
        self.device.reset_peaks()
        entry = self.client.run(prompt, timeout=7200.0)
        measured = self.device.collect()
        for name, figure in (("peak_reserved", "peak_reserved"), ("left_reserved", "reserved"),
                             ("left_allocated", "allocated")):
            result[f"{name}_mib"] = round(measured[f"{figure}_bytes"] / MIB, 1)
        print(f"  {result}", file=sys.stderr, flush=True)
        return result, pictures_of(self.client, entry)


def _counts(one: Json) -> bool:
    """Whether advice is about the peak and can be applied: a guard lowers the need only."""
    return (one["edit"] is not None and one["kind"] != "oom_guard"
            and not one["values"].get("after"))


def pictures_of(client: Client, entry: Json) -> list[bytes]:
    """The pixels of all pictures that a run made."""
    from io import BytesIO
    from urllib.parse import urlencode

    from PIL import Image

    outputs = entry["outputs"]
    images = [image for _, output in sorted(outputs.items()) for image in output.get("images", [])]
    files = [client.get_bytes("/view?" + urlencode(image)) for image in images]
    return [Image.open(BytesIO(data)).convert("RGB").tobytes() for data in files]


def summary(found: Json) -> Json:
    """How many templates need less, how many predictions held, and the error of the others."""
    parts = [*found["workflows"].values(), *found["templates"].values()]
    pairs = [(part["predicted_peak_mib"], part["first_peak_mib"]) for part in parts
             if part["predicted_peak_mib"]]
    pairs += [(one["predicted_mib"], one["measured_mib"])
              for part in parts for one in part.get("each", ())]
    errors = [max(low - measured, measured - high, 0.0) for (low, high), measured in pairs]
    less = [name for name, part in found["templates"].items() if _less(part)]
    return {"predictions": len(errors), "held": sum(error <= SLACK_MIB for error in errors),
            "largest_error_mib": round(max(errors, default=0.0), 1), "templates_with_less": less}


def _less(part: Json) -> bool:
    return bool(part["advised"]["peak_reserved_mib"] < part["stock"]["peak_reserved_mib"])


def problems(found: Json) -> list[str]:
    """What did not come out as it should."""
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
    lost = set(other.get("completes_at_mib", ())) - set(ours.get("completes_at_mib", ()))
    if lost:
        yield f"it fails at {sorted(lost)} MiB, which is worse"


if __name__ == "__main__":
    alone()
