"""Casting takes RAM for the copy and hardly more: measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LAYERS, SIDE = 48, 1024
HEAP_SLACK = 24 * 2**20  # RSS counts free heap too; a whole second copy would be 192 MiB

CHILD = """
import gc, json, sys
sys.path.insert(0, sys.argv[1])
import torch
import headroom

def status(field):
    for line in open("/proc/self/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024

layers, side = int(sys.argv[2]), int(sys.argv[3])
make = lambda n: torch.nn.Sequential(*[torch.nn.Linear(side, side, bias=False) for _ in range(n)])
headroom.cast(make(4), "float16")  # what is loaded at the first use counts for nobody
module = make(layers)
gc.collect()
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
done = headroom.cast(module, "float16")
after, peak = status("VmRSS"), status("VmHWM")
print(json.dumps({"after": after - before, "peak": peak - before, "saved": done.saved_bytes}))
"""


def can_reset_the_peak():
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


@pytest.mark.skipif(not can_reset_the_peak(), reason="needs Linux's /proc to reset the peak of RSS")
def test_peak_ram_is_the_original_the_copy_and_at_most_one_tensor():
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(ROOT), str(LAYERS), str(SIDE)],
        capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    copy, one_tensor = LAYERS * SIDE * SIDE * 2, SIDE * SIDE * 4
    assert figures["saved"] == copy
    assert figures["peak"] <= copy + one_tensor + HEAP_SLACK
