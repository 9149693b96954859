"""A simulated GPU: a real, unmodified ComfyUI runs on it, and every tensor's bytes are counted.

To PyTorch and to ComfyUI it is `cuda:0`, an NVIDIA card; the data lies in CPU memory and is
computed there, so results are real and the same in every run. What is freed stays reserved, as a
caching allocator keeps it, but in no pieces: which blocks PyTorch makes, and which of them is too
small for a request, is asked of its own allocator on the fake CUDA driver (lab/fakecuda).

In a host test:

    def test_peak(sim):
        gpu = sim(1024)                       # MiB; one server per module and settings
        gpu.client.run(prompt)                # tools.client.Client
        gpu.ledger().peak_allocated_bytes     # all figures: Figures in device.py
        gpu.arm_fault(at=3, kind="cublas")    # fail the third allocation from now; see faults.py
        gpu.set_capacity(300)                 # MiB, while it runs; gpu.restore() undoes
        gpu.set_other_process(200)            # MiB that another process holds
        gpu.unload()                          # POST /free, and wait until the device is empty

By hand:  python lab/simgpu/main.py --capacity-mib 1024 COMFYUI_DIR -- --port 8188
In a process of your own:  device = simgpu.switch_on(1 << 30) ... simgpu.switch_off()
The counts alone, without torch:  simgpu.Ledger(1 << 30)
Only the bytes, for models that would take hours and all RAM:  with simgpu.shapes.shapes_only(): ...

Not simulated: gradients (refused with a clear error), recurrent layers, streams, pinned memory,
cudaMallocAsync, dynamic VRAM, the CUDA context and library workspaces. Real minimums are some
hundred MiB higher; compare ratios and differences.
"""

from .device import Figures, SimDevice, current
from .faults import KINDS, Fault
from .ledger import Ledger, LedgerFull
from .switch import switch_off, switch_on

__all__ = [
    "KINDS",
    "Fault",
    "Figures",
    "Ledger",
    "LedgerFull",
    "SimDevice",
    "current",
    "switch_off",
    "switch_on",
]
