"""`dev.py fit` and `headroom-fit`: on which cards a workflow fits, with no card and no weights.

ComfyUI runs the workflow on a fake CUDA driver: PyTorch's own allocator and ComfyUI's own loading
take every byte that they would take, and nothing is computed. docs/fit.md says what is in it.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .client import PromptInvalid
from .comfyui import VARIABLE, locate_comfyui
from .environment import IS_CLONE, python_for
from .errors import DevError
from .jobs import read_file
from .lab import fake_cuda
from .processes import end_like_ctrl_c, run_in_foreground

ROOT = Path(__file__).resolve().parent.parent
CARDS_GIB = "6,8,12,16,24"
CONTEXT_MIB = 400.0
RAM_GIB = 32.0
MOST_GIB = 1024
# Not `-m tools.fit`: the folder that a user is in may have a `tools` of its own.
INSIDE = ("import sys; sys.path[0] = sys.argv.pop(1); from tools.fit import inside; "
          "sys.exit(inside())")
Json = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workflow", type=Path, metavar="WORKFLOW.json",
                        help="a workflow of the canvas, or an API prompt")
    parser.add_argument("--comfyui", metavar="PATH",
                        help="your ComfyUI; default in a clone: 0.3.75")
    parser.add_argument("--python", metavar="PATH",
                        help="the Python that it runs with; default: our environment's in a clone, "
                             "else this one")
    parser.add_argument("--models", type=Path, action="append", default=[], metavar="FOLDER",
                        help="a models folder; default: that of --comfyui. May be repeated")
    parser.add_argument("--cards", type=cards, default=CARDS_GIB, metavar="GIB,GIB",
                        help=f"default: {CARDS_GIB}")
    parser.add_argument("--guard", action="store_true",
                        help="also with OOM Guards, and with all advice that keeps the picture")
    parser.add_argument("--capability", type=capability, default="8.9", metavar="N.M",
                        help="compute capability, which decides on kernels; default: 8.9")
    parser.add_argument("--context-mib", type=amount, default=CONTEXT_MIB, metavar="MIB",
                        help=f"what the CUDA context takes; default: {CONTEXT_MIB:g}")
    parser.add_argument("--other-mib", type=amount, default=0.0, metavar="MIB",
                        help="what a desktop or another program takes; default: 0")
    parser.add_argument("--layout-copies", type=amount, default=1.0, metavar="N",
                        help="channels-last copies of what a convolution reads and writes; "
                             "default: 1")
    parser.add_argument("--ram", type=amount, default=RAM_GIB, metavar="GIB",
                        help=f"free RAM that ComfyUI is to count with; default: {RAM_GIB:g}")
    parser.add_argument("--all-steps", action="store_true",
                        help="take as many steps as the workflow says, not 3")
    parser.add_argument("--flags", default="", metavar="WORDS",
                        help="ComfyUI's own flags, in one word: --flags='--lowvram'")
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def cards(text: str) -> list[float]:
    try:
        sizes = [float(word) for word in str(text).split(",")]
    except ValueError:
        sizes = []
    if not sizes or not all(0 < size <= MOST_GIB for size in sizes):
        raise argparse.ArgumentTypeError(
            f"expected GiB with commas, such as 8,12, each up to {MOST_GIB}, not {text!r}")
    return sizes


def capability(text: str) -> str:
    if not re.fullmatch(r"\d{1,2}\.\d", text):
        raise argparse.ArgumentTypeError(f"expected a number such as 8.9, not {text!r}")
    return text


def amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    most = MOST_GIB * 1024
    if not 0 <= number < most:
        raise argparse.ArgumentTypeError(
            f"expected a number from 0 to below {most}, not {text!r}")
    return number


def main(args: argparse.Namespace) -> int:
    if not args.workflow.is_file():
        raise DevError(f"{args.workflow} is no file; give the workflow that is to be looked at.")
    read_file(args.workflow)  # its errors are told before anything is fetched
    if reason := fake_cuda().why_not(any_python=True):
        raise DevError(f"A dry run is not possible here: {reason}.")
    if not IS_CLONE and not args.comfyui and VARIABLE not in os.environ:
        raise DevError("Expected --comfyui FOLDER with your ComfyUI: only a clone of the "
                       "repository fetches one.")
    python = python_for(args.python)
    tree = locate_comfyui(args.comfyui, python=python)
    words = sys.argv[sys.argv.index("fit") + 1:]
    env = {**os.environ, VARIABLE: str(tree)}
    return run_in_foreground([python, "-c", INSIDE, ROOT, *words], cwd=Path.cwd(), env=env)


# -- inside the environment -------------------------------------------------------------------


def inside() -> int:
    end_like_ctrl_c()
    _without_torch()
    parser = argparse.ArgumentParser(prog="fit")
    add_arguments(parser)
    args = parser.parse_args()
    from urllib.error import URLError

    from .refusals import refusal
    from .server import ServerError

    try:
        return fit(args, Path(os.environ[VARIABLE]))
    except PromptInvalid as error:
        print(f"Error: {refusal(error)}{_newer(error)}", file=sys.stderr)
    except (ConnectionError, URLError) as error:
        print(f"Error: ComfyUI ended in the middle of the dry run ({error}); the kernel may have "
              "ended it when RAM ran out.", file=sys.stderr)
    except (DevError, ServerError, TimeoutError) as error:
        print(f"Error: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    return 1


def _without_torch() -> None:
    """Let what reads prompts be imported without Headroom's `__init__`, which imports torch.

    That takes seconds, and this process computes nothing.
    """
    package = ModuleType("headroom")
    package.__path__ = [str(ROOT / "headroom")]
    sys.modules.setdefault(package.__name__, package)


def _newer(error: PromptInvalid) -> str:
    """Return what helps if a ComfyUI does not know a choice, which a newer one may have."""
    return (". This ComfyUI may be older than the workflow: name a newer one with --comfyui"
            if "value_not_in_list" in json.dumps(error.details) else "")


def fit(args: argparse.Namespace, tree: Path) -> int:
    from .fit_files import index
    from .fit_inputs import SIDE, add_inputs
    from .fit_range import limit_of

    data = read_file(args.workflow)
    own = Path(args.comfyui).expanduser() if args.comfyui else None
    folders = args.models or ([own / "models"] if own else [])
    there = index(folders)
    with tempfile.TemporaryDirectory(prefix="headroom-fit-") as base:
        made = add_inputs(data, own / "input" if own else None, Path(base) / "input")
        facts: Json = {
            "workflow": args.workflow.name, "capability": args.capability,
            "context_mib": args.context_mib, "other_mib": args.other_mib,
            "layout_copies": args.layout_copies, "limit": limit_of(os.environ),
            "made_pictures": made, "side": SIDE,
        }
        trials = _tried(args, tree, own, Path(base), data, there, facts)
    if args.json:
        print(json.dumps({**facts, "trials": [trial.as_json() for trial in trials]}, indent=1))
    else:
        from .fit_report import report

        print(f"\n{report(trials, facts)}")
    return 0


def _tried(
    args: argparse.Namespace, tree: Path, own: Path | None, base: Path, data: Json,
    there: Mapping[str, Path], facts: Json,
) -> Any:
    """Start the server and run every way on every card."""
    from .dry_server import DryServer
    from .fit_files import check_named
    from .fit_packs import with_packs
    from .fit_prompt import ObjectInfo, without_noise_trees
    from .fit_range import Unmodelled, largest_layer_mib
    from .fit_ready import ready
    from .fit_run import Fit
    from .fit_steps import fewer_steps
    from .progress import ProgressBar

    out = sys.stderr if args.json else sys.stdout
    settings = {"capability": args.capability, "context_mib": args.context_mib,
                "other_mib": args.other_mib, "cudnn_layout_copies": args.layout_copies}
    options = {"settings": settings, "flags": args.flags.split(),
               "env": {"HEADROOM_DRY_RAM_MIB": str(args.ram * 1024)}}
    print("Starting ComfyUI on the fake driver", file=out, flush=True)
    with with_packs(lambda packs: DryServer(tree, base, packs=packs, **options),
                    args.workflow, own) as dry:
        info = dry.client.get_json("/object_info")
        prompt, found, facts["left_out"] = ready(
            args.workflow, data, there, dry.client, ObjectInfo(info), dry.shapes)
        check_named(prompt, found)
        dry.add_models(found.files)
        facts["files"] = {
            place: {"mib": round(content.nbytes / 2**20, 1), "from": found.origin[place]}
            for place, content in found.files.items()}
        facts["comfyui"] = dry.client.get_json("/system_stats")["system"]["comfyui_version"]
        prompt = without_noise_trees(prompt if args.all_steps else fewer_steps(prompt))
        work = Fit(dry, prompt, info, guard=args.guard, context_mib=args.context_mib,
                   unmodelled=Unmodelled(args.layout_copies, largest_layer_mib(found.files)),
                   limit=facts["limit"])
        runs = [len(each) for each in work.prompts().values()]
        work.bar = ProgressBar({}, out, total=sum(runs) * len(args.cards) + len(prompt))
        trials = work.cards(args.cards)
        facts["room_copied_mib"] = work.room_mib
        return trials


if __name__ == "__main__":  # the benchmarks, from their own clone
    sys.exit(inside())
