"""The half of the demo that runs inside the environment: models, server, prompt, table."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from . import models
from .cache import cache_home
from .client import Client, PromptFailed, PromptInvalid, node_texts
from .commands import as_dev_error
from .errors import DevError
from .locks import process_lock
from .processes import end_like_ctrl_c
from .progress import ProgressBar
from .server import PACK_ROOT, ComfyServer, ServerError
from .table import run_table

PROMPT = Path(__file__).resolve().parent / "demo_prompt.json"
SIMULATED_MIB = 1024
# ComfyUI keeps 0.8 GiB for inference and 0.4 GiB for other programs, which a simulated GPU does
# not have: without the latter there is room on 1 GiB for the demo's weights.
SIMULATED_ARGS = ("--reserve-vram", "0")
PROMPT_SECONDS = 900


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("comfyui", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    return parser.parse_args()


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


def run_prompt(client: Client, prompt: dict[str, Any]) -> dict[str, Any]:
    """Run the prompt with a progress bar and return its history entry."""
    titles = node_titles(prompt)
    with client.events() as stream:
        prompt_id = client.queue(prompt, client_id=stream.client_id)
        bar = ProgressBar(titles)
        for event in stream.until_finished(prompt_id, PROMPT_SECONDS):
            bar.handle(event)
    entry = client.wait(prompt_id, PROMPT_SECONDS)
    entry["prompt_id"] = prompt_id
    if entry.get("status", {}).get("status_str") == "error":
        raise PromptFailed(entry)
    return entry


def node_titles(prompt: dict[str, Any]) -> dict[str, str]:
    return {
        key: node.get("_meta", {}).get("title", node["class_type"]) for key, node in prompt.items()
    }


def print_result(client: Client, entry: dict[str, Any], prompt: dict[str, Any]) -> None:
    titles = node_titles(prompt)
    status, run = client.get(f"/headroom/runs/{entry['prompt_id']}")
    if status == 200:
        print(f"\n{run_table(run, titles)}")
    else:
        print(f"\nNo table: GET /headroom/runs answered {status}: {run}")
    for node_id, text in node_texts(entry).items():
        print(f"\n{titles.get(node_id, node_id)} ({node_id}):\n{text}")
    print(flush=True)


def print_pictures(entry: dict[str, Any], base: Path) -> None:
    for output in entry.get("outputs", {}).values():
        for image in output.get("images", []):
            print(f"Picture: {base / 'output' / image['subfolder'] / image['filename']}")


def keep_open(server: ComfyServer) -> None:
    """Wait until Ctrl-C or until the server ends."""
    print(f"ComfyUI is at {server.url} (Ctrl-C stops it)", flush=True)
    while server.process is not None and server.process.poll() is None:
        time.sleep(0.5)


def demo(args: argparse.Namespace) -> None:
    options, device = device_options(args.cpu)
    base = base_folder()
    server = ComfyServer(
        args.comfyui, base, models_dir=make_demo_models(args.comfyui), port=args.port, **options
    )
    prompt = json.loads(PROMPT.read_text(encoding="utf-8"))
    print(f"Starting ComfyUI on {device}", flush=True)
    with server:
        entry = run_prompt(server.client(), prompt)
        print_result(server.client(), entry, prompt)
        print_pictures(entry, base)
        print(f"Device: {device}\nServer log: {server.log_path}", flush=True)
        if args.open:
            keep_open(server)


def main() -> int:
    end_like_ctrl_c()
    try:
        demo(parse())
    except (DevError, ServerError, PromptFailed, PromptInvalid, TimeoutError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped.")
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
