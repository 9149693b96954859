"""Another process that holds memory of the same GPU."""

import os
import subprocess
import sys

# For each line that it reads, it takes everything that is free except that many bytes, and prints
# how many are free then. cudaMalloc counts in pages of 2 MiB.
HOLD = """
import sys, torch
torch.cuda.init()
for line in sys.stdin:
    held = None
    torch.cuda.empty_cache()
    spare = max(torch.cuda.mem_get_info()[0] - int(line), 0) >> 21 << 21
    held = torch.empty(spare, dtype=torch.uint8, device="cuda")
    print(torch.cuda.mem_get_info()[0], flush=True)
"""
NATIVE = "backend:native,expandable_segments:False"


class OtherProcess:
    """A process that starts when first needed and ends with this one."""

    def __init__(self):
        self._process = None

    def leave_free(self, nbytes):
        """Have it take all but `nbytes` of the device; None ends it."""
        if nbytes is None:
            self._end()
            return
        if self._process is None:
            env = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": NATIVE, "PYTORCH_ALLOC_CONF": NATIVE}
            self._process = subprocess.Popen(
                [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True, env=env,
            )
        self._process.stdin.write(f"{nbytes}\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline().strip().isdigit():
            self._end()
            raise ValueError("the process that should hold memory could not take it")

    def _end(self):
        process, self._process = self._process, None
        if process is not None:
            process.communicate()  # it ends when its input is closed


class SimulatedOtherProcess:
    """The same where the GPU is simulated: a number in its ledger."""

    def __init__(self, simgpu):
        self._device = simgpu.current

    def leave_free(self, nbytes):
        """Have it take all but `nbytes` of the device; None ends it."""
        with self._device().locked() as ledger:
            ledger.other_process_bytes = 0
            if nbytes is not None:
                ledger.other_process_bytes = max(ledger.mem_get_info()[0] - nbytes, 0)


def other_process():
    """The one that fits the GPU of this server."""
    simgpu = sys.modules.get("simgpu")
    return OtherProcess() if simgpu is None else SimulatedOtherProcess(simgpu)
