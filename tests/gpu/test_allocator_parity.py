"""The allocator model against PyTorch's own allocator on a real GPU, figure by figure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simgpu import Ledger
from simgpu.sequences import SEQUENCES, LedgerDevice, replay
from tools.rehearsal import rehearsed_mib, simulated

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "lab" / "simgpu" / "replay_on_gpu.py"
RESULTS = ROOT / "benchmarks" / "results"
ROOMY = 64 << 30


def real_figures() -> dict:
    mib = rehearsed_mib()
    command = [*simulated(mib), str(SCRIPT), "--"] if mib else [str(SCRIPT)]
    torch = pytest.importorskip("torch", reason="a real GPU is read through torch")
    if not mib and (not torch.cuda.is_available() or torch.version.hip):
        pytest.skip("needs a real NVIDIA GPU: this machine has none that torch can use")
    setting = "expandable_segments:False"
    env = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": setting, "PYTORCH_ALLOC_CONF": setting}
    done = subprocess.run(
        [sys.executable, *command], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compared(name: str, real: list[list[int]]) -> dict:
    """Both sides of one sequence: final and highest figures, and the steps that differ."""
    model = replay(SEQUENCES[name], LedgerDevice(Ledger(ROOMY)))
    differences = [
        {"step": list(step), "real": list(there), "model": list(here)}
        for step, there, here in zip(SEQUENCES[name], real, model, strict=True)
        if tuple(there) != here
    ]
    highest = {"real": max(r for _, r in real), "model": max(r for _, r in model)}
    return {"steps": len(model), "highest_reserved": highest, "differences": differences}


def test_the_model_reports_what_a_real_gpu_reports(tmp_path):
    measured = real_figures()
    figures = measured.pop("figures")
    found = {name: compared(name, figures[name]) for name in SEQUENCES}
    folder = tmp_path if rehearsed_mib() else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    record = {**measured, "sequences": found}
    text = json.dumps(record, indent=1) + "\n"
    (folder / "allocator_parity_native.json").write_text(text, encoding="utf-8")
    differing = {name: seen["differences"][:3] for name, seen in found.items()}
    assert not any(differing.values()), differing
