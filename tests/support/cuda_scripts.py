"""Scripts that use PyTorch on a fake CUDA driver, each in a process of its own."""

import json
import os
import tempfile
from pathlib import Path

import pytest

import fakecuda
from fakecuda import FakeCuda

from .warm import WarmPythons

ROOT = Path(__file__).resolve().parents[2]
NEEDS_FAKE_CUDA = [  # the marks of a test file
    pytest.mark.fakecuda,
    pytest.mark.skipif(bool(fakecuda.why_not()), reason=fakecuda.why_not() or ""),
]
START = f"""
import json, sys, torch
from pathlib import Path
sys.path.insert(0, {str(ROOT / "lab" / "fakecuda")!r})
from ledger import Ledger
MIB = 1 << 20
def opened():
    torch.cuda.mem_get_info()
    return Ledger(Path(sys.argv[1]))
def take(mib, device=0):
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device=f"cuda:{{device}}")
def fails(mib, device=0):
    try:
        return take(mib, device) is None
    except torch.OutOfMemoryError:
        return True
def show(**found):
    print(json.dumps(found))
"""


_warm = WarmPythons(modules=["torch"])  # they end with this process


def ask(script, *arguments, **settings):
    """The JSON in the last line that a script prints."""
    command = fakecuda.command(FakeCuda(**settings), script, *arguments)
    with tempfile.TemporaryFile() as output:
        code = _warm.start(command, cwd=Path.cwd(), env=os.environ, output=output).wait()
        output.seek(0)
        said = output.read().decode()
    assert code == 0, said
    return json.loads(said.splitlines()[-1])


def script_runner(folder):
    """A function that gives what a script prints as JSON, on devices with such settings."""

    def run(body, **settings):
        script = folder / "script.py"
        script.write_text(START + body, encoding="utf-8")
        ledger = str(folder / "ledger")
        return ask(script, ledger, ledger=ledger, **settings)

    return run
