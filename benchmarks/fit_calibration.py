"""The fake driver's figures against published ones of real GPUs: the same calls, the same count.

    python benchmarks/fit_calibration.py [--cases NAME ...]

Each case runs with one layout copy of what a convolution reads and writes, as `dev.py fit` has it
(fit_cases.py, lab/fakecuda/README.md); some also run without, to show what the copies are. A
figure is kept where it is within 10 % of the published one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import on_path  # noqa: F401

from tools.bench_run import alone
from tools.dry_server import COPY_AT_MOST_KIB
from tools.errors import NotHere
from tools.fake_cuda import fake_cuda
from tools.results import FAKE

NAME = "fit_calibration"
DEVICE = FAKE
CASES = Path(__file__).with_name("fit_cases.py")
CAPACITY_MIB = 131072
LIMIT = 0.10
ALSO_WITHOUT = ("sdxl_fp16", "sd3", "flux_pipeline")  # layout copies
LIMIT_S = 900
HF = "https://huggingface.co/"
BENCHMARKS = f"{HF}datasets/diffusers/benchmarks"
SDXL = f"{HF}blog/simple_sdxl_optimizations"
QUANTIZED = f"{HF}datasets/derekl35/diffusers-quantization-benchmarks"
Json = dict[str, Any]


class Published(NamedTuple):
    """One published figure: the case that repeats it, what it is of, GiB, and who published it."""

    case: str
    what: str
    chinese: str
    gib: float
    whole: bool  # a whole run from the text encoder to the picture, not one model
    source: str


PUBLISHED = (
    Published("unet_plain", "SDXL UNet, bfloat16",
              "SDXL UNet，bfloat16", 5.05, False, BENCHMARKS),
    Published("unet_upcasting", "SDXL UNet, float8 weights",
              "SDXL UNet，float8 权重", 4.89, False, BENCHMARKS),
    Published("flux_plain", "Flux.1 transformer, bfloat16",
              "Flux.1 Transformer，bfloat16", 22.61, False, BENCHMARKS),
    Published("flux_upcasting", "Flux.1 transformer, float8 weights",
              "Flux.1 Transformer，float8 权重", 22.18, False, BENCHMARKS),
    Published("flux_group_offload", "Flux.1 transformer, streamed by leaves",
              "Flux.1 Transformer，逐层流式传输", 0.53, False, BENCHMARKS),
    Published("ltx_plain", "LTX-Video 0.9.7 transformer, bfloat16",
              "LTX-Video 0.9.7 Transformer，bfloat16", 25.21, False, BENCHMARKS),
    Published("ltx_upcasting", "LTX-Video 0.9.7 transformer, float8 weights",
              "LTX-Video 0.9.7 Transformer，float8 权重", 24.38, False, BENCHMARKS),
    Published("ltx_group_offload", "LTX-Video 0.9.7 transformer, streamed by leaves",
              "LTX-Video 0.9.7 Transformer，逐层流式传输", 1.04, False, BENCHMARKS),
    Published("flux_pipeline", "Flux.1, whole, bfloat16, 1024 px",
              "Flux.1，完整运行，bfloat16，1024 像素", 36.166, True, QUANTIZED),
    Published("flux_pipeline_offload", "Flux.1, whole, model offload, 1024 px",
              "Flux.1，完整运行，按模型卸载，1024 像素", 23.271, True, QUANTIZED),
    Published("sd3", "SD3 medium, whole, float16, 1024 px, on an H100",
              "SD3 medium，完整运行，float16，1024 像素，H100 上",
              16.403, True, f"{HF}blog/quanto-diffusers"),
    Published("sd3", "SD3 medium, whole, float16, 1024 px, on an A100",
              "SD3 medium，完整运行，float16，1024 像素，A100 上",
              18.765, True, f"{HF}blog/sd3"),
    Published("pixart", "PixArt-Sigma, whole, float16, 1024 px",
              "PixArt-Sigma，完整运行，float16，1024 像素", 12.086, True,
              f"{HF}blog/quanto-diffusers"),
    Published("sdxl_fp16", "SDXL, whole, float16, 4 pictures, VAE in float32",
              "SDXL，完整运行，float16，4 张图，VAE 为 float32", 21.72, True, SDXL),
    Published("sdxl_fp32", "SDXL, whole, float32, 4 pictures",
              "SDXL，完整运行，float32，4 张图", 28.09, True, SDXL),
    Published("sdxl_slicing", "SDXL, whole, float16, 4 pictures, VAE one by one",
              "SDXL，完整运行，float16，4 张图，VAE 逐张解码", 15.4, True, SDXL),
    Published("sdxl_tiny", "SDXL, whole, float16, 4 pictures, tiny VAE",
              "SDXL，完整运行，float16，4 张图，微型 VAE", 15.48, True, SDXL),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = list(dict.fromkeys(one.case for one in PUBLISHED))
    parser.add_argument("--cases", nargs="+", choices=names, default=names)


def run(args: argparse.Namespace) -> Json:
    """Return for each published figure ours with and without layout copies, and the error."""
    if reason := fake_cuda().why_not():
        raise NotHere(reason)
    ours: dict[str, dict[int, Json]] = {}
    for name in args.cases:
        wanted = (1, 0) if name in ALSO_WITHOUT else (1,)
        ours[name] = {copies: measured(name, copies) for copies in wanted}
        print(f"{name}: {ours[name]}", file=sys.stderr, flush=True)
    rows = [row_of(one, ours[one.case]) for one in PUBLISHED if one.case in ours]
    return {"limit": LIMIT, "rows": rows, **summary(rows)}


def measured(name: str, layout_copies: int) -> Json:
    """The figures of one case, in a process of its own."""
    package = fake_cuda()
    devices = package.FakeCuda(
        capacity_mib=CAPACITY_MIB, allocator="native", capability="8.0",
        copy_at_most_kib=COPY_AT_MOST_KIB, cudnn_layout_copies=layout_copies)
    with tempfile.TemporaryDirectory() as cwd:
        done = subprocess.run(package.command(devices, CASES, name), capture_output=True,
                              text=True, timeout=LIMIT_S, cwd=cwd)
    if done.returncode:
        print(f"{name} stopped:\n{done.stderr[-2000:]}", file=sys.stderr)
        return {"gib": None}
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def row_of(published: Published, ours: dict[int, Json]) -> Json:
    """One line of the table; a case that stopped has no figure and is missed."""
    gib = ours[1]["gib"]
    error = None if gib is None else round(gib / published.gib - 1, 4)
    return {**published._asdict(), "published_gib": published.gib, "gib": gib,
            "without_layout_copies_gib": ours.get(0, {}).get("gib"), "error": error,
            "kept": error is not None and abs(error) <= LIMIT}


def summary(rows: list[Json]) -> Json:
    """How many were kept, and the largest error of each sort."""
    parts = {"models": [row for row in rows if not row["whole"]],
             "whole": [row for row in rows if row["whole"]]}
    return {sort: {"count": len(found), "kept": sum(row["kept"] for row in found),
                   "lowest_error": min(errors_of(found), default=None),
                   "highest_error": max(errors_of(found), default=None)}
            for sort, found in parts.items()}


def errors_of(rows: list[Json]) -> list[float]:
    return [row["error"] for row in rows if row["error"] is not None]


if __name__ == "__main__":
    alone()
