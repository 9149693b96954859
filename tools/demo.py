"""`python dev.py demo`: a real ComfyUI with this pack, one prompt, and what the nodes freed.

`main` runs in whatever Python started it and prepares everything; the rest runs inside the
environment, as `python -m tools.demo COMFYUI`.
"""

import argparse
import hashlib
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError

from . import models
from .cache import cache_home, process_lock
from .client import PromptFailed, PromptInvalid, failed
from .comfyui import locate_comfyui
from .commands import as_dev_error
from .environment import ensure_environment, warn_of_other_packages
from .errors import DevError
from .processes import end_like_ctrl_c, run_in_foreground
from .run import follow, record_of, show
from .server import PACK_ROOT, ComfyServer, ServerError

PROMPT = Path(__file__).resolve().parent / "demo_prompt.json"
SIMULATED_MIB = 1024
# ComfyUI keeps 0.8 GiB for inference and 0.4 GiB for other programs, which a simulated GPU does
# not have: without the latter there is room on 1 GiB for the demo's weights.
SIMULATED_ARGS = ("--reserve-vram", "0")
PROMPT_SECONDS = 900


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--comfyui", type=Path, metavar="PATH", help="an existing ComfyUI folder")
    parser.add_argument("--port", type=port_number, default=0, help="default: any free one")
    parser.add_argument("--open", action="store_true", help="keep the server up afterwards")
    parser.add_argument("--cpu", action="store_true", help="use no GPU, not even a simulated one")


def port_number(word: str) -> int:
    if not word.isdigit() or not 1 <= int(word) <= 65535:
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to 65535, not {word!r}")
    return int(word)


def main(args: argparse.Namespace) -> int:
    python = ensure_environment()
    tree = locate_comfyui(args.comfyui, python=python)
    warn_of_other_packages(python, tree)
    words: list[str | Path] = [python, "-m", "tools.demo", "--comfyui", tree]
    words += ["--port", str(args.port)] if args.port else []
    words += [f"--{name}" for name in ("open", "cpu") if getattr(args, name)]
    return run_in_foreground(words, cwd=PACK_ROOT)


# -- inside the environment -------------------------------------------------------------------


def device_options(cpu: bool) -> tuple[dict[str, Any], str]:
    """How to start the server, and the words for the device it will run on."""
    if cpu:
        return {}, "the CPU (as asked with --cpu); it has no VRAM to measure"
    name = real_gpu()
    if name is not None:
        return {"gpu": True}, name
    simulated = f"a simulated GPU of {SIMULATED_MIB} MiB (there is no real one here)"
    return {"simulate_mib": SIMULATED_MIB, "args": SIMULATED_ARGS}, simulated


def real_gpu() -> str | None:
    """The name of the GPU that torch would use, or None."""
    if sys.platform != "darwin" and not has_nvidia_driver():
        return None  # spares the seconds that importing torch takes
    import torch

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    if torch.backends.mps.is_available():
        return "the GPU of this Mac (MPS)"
    return None


def has_nvidia_driver() -> bool:
    """Whether an NVIDIA driver answers; the environment's torch can use no other GPU there."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    pynvml.nvmlShutdown()
    return True


def base_folder() -> Path:
    """The demo's ComfyUI folder: pictures, settings, log; one for each copy of the repository."""
    return cache_home() / f"demo-{hashlib.sha256(str(PACK_ROOT).encode()).hexdigest()[:8]}"


def make_demo_models(comfyui: Path) -> Path:
    folder = models.models_folder()
    if not all((folder / name).exists() for name in models.DEMO_MODELS):
        print("Making small random-weight models (once)", flush=True)
        with process_lock(cache_home() / "locks" / f"{folder.name}.lock"):
            try:
                models.make_models(folder, models.DEMO_MODELS, comfyui=comfyui)
            except OSError as error:
                raise as_dev_error(error, "making of the models") from error
    return folder


def keep_open(server: ComfyServer) -> None:
    """Wait until Ctrl-C or until the server ends."""
    print(f"ComfyUI is at {server.url} (Ctrl-C stops it)", flush=True)
    with suppress(KeyboardInterrupt):
        while server.process is not None and server.process.poll() is None:
            time.sleep(0.5)
    print("Stopped.")


def demo(args: argparse.Namespace) -> None:
    options, device = device_options(args.cpu)
    base = base_folder()
    server = ComfyServer(
        args.comfyui, base, models_dir=make_demo_models(args.comfyui), port=args.port, **options
    )
    prompt = json.loads(PROMPT.read_text(encoding="utf-8"))
    print(f"Starting ComfyUI on {device}", flush=True)
    with server:
        entry = follow(server.client(), prompt, PROMPT_SECONDS)
        if failed(entry):
            raise PromptFailed(entry)
        show(entry, prompt, record_of(server.client(), entry))
        print(f"\nPictures: {base / 'output'}\nDevice: {device}\nServer log: {server.log_path}",
              flush=True)
        if args.open:
            keep_open(server)


def inside() -> int:
    end_like_ctrl_c()
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    try:
        demo(parser.parse_args())
    except (DevError, ServerError, PromptFailed, PromptInvalid, TimeoutError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except (ConnectionError, URLError) as error:
        print(f"Error: ComfyUI ended in the middle of the prompt ({error}); the end of its log in "
              f"{base_folder()} says why, unless the system ended it.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(inside())
