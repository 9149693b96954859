"""One fixture for three devices: the simulated GPU, PyTorch's own allocator on the fake CUDA
driver, and this machine's own GPU where there is one.

With HEADROOM_REHEARSE_GPU=16384 a simulated GPU of so many MiB stands for this machine's own, and
all that is done on a real one is done on it.
"""

import os
import sys

import pytest
from support.gpus import FAKE, REAL, SIMULATED

from simgpu import SimServer
from tools import bench_device
from tools.bench_device import NATIVE_ALLOCATOR, REAL_PACK, plain_flags
from tools.rehearsal import rehearsed_mib

# What the simulated GPU does not have either: with them, figures would not be the allocator's.
PLAIN = (*bench_device.PLAIN, "--disable-async-offload", "--disable-pinned-memory",
         "--disable-cuda-graphs")
# A library may keep a workspace on a real GPU as long as the process lives (cuBLAS: 8 to 32 MiB).
WORKSPACE_BYTES = 64 << 20


class RealServer(SimServer):
    """A ComfyUI on the real GPU, asked and limited as the simulated one is."""

    prefix = "/realgpu"
    workspace_bytes = WORKSPACE_BYTES

    def is_empty(self, figures):
        """Whether no more is on the device than what libraries keep as long as they live."""
        return figures.allocated_bytes <= WORKSPACE_BYTES

    def disarm(self):
        """Nothing to do: no allocation can be chosen to fail."""


def real_capacity_mib() -> int:
    """The size of this machine's GPU, or a skip that says why it cannot be used."""
    if rehearsed := rehearsed_mib():
        return rehearsed
    torch = pytest.importorskip("torch", reason="a real GPU is used through torch")
    if not torch.cuda.is_available() or torch.version.hip:
        pytest.skip("needs a real NVIDIA GPU: this machine has none that torch can use")
    return int(torch.cuda.get_device_properties(0).total_memory) >> 20


@pytest.fixture(params=[SIMULATED, FAKE, REAL])
def gpu(request, comfyui, serve, sim):
    """A factory of servers: `gpu(capacity_mib, *comfy_args, **options)`, empty, on each device.

    `dynamic_vram=True` leaves ComfyUI's dynamic VRAM on, which the simulated GPU does not have.

    On the real GPU the capacity is a limit on the server's memory, and another process takes the
    rest, so that the driver tells what it would tell on a smaller card.
    """
    # The server starts a Python of its own; this process must leave the GPU alone.
    total_mib = real_capacity_mib() if request.param == "real" else 0
    started = []

    def start(capacity_mib, *args, dynamic_vram=False, **options):
        tree = options.get("comfyui") or comfyui
        flags = plain_flags(tree, [NATIVE_ALLOCATOR] if dynamic_vram else PLAIN)
        if request.param == "simulated":
            server = sim(capacity_mib, *args, **options)
        elif request.param == "fake":
            start_fake = request.getfixturevalue("fake")
            server = start_fake(capacity_mib, *flags, *args, allocator="native", **options)
        else:
            packs = [*options.pop("packs", ()), REAL_PACK]
            setting = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}
            env = {**setting, **options.pop("env", {})}
            running = serve(*flags, *args, gpu=True, packs=packs, env=env, **options)
            server = RealServer(running, min(capacity_mib, total_mib))
        started.append(server)
        server.set_capacity(1 << 20)
        server.unload()
        server.reset_peaks()
        return server.restore()

    yield start
    for server in started:
        server.set_other_process(0)
        server.set_capacity(1 << 20)


def pytest_report_header():
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"GPU tests: Python {sys.version.split()[0]}, CUDA_VISIBLE_DEVICES={shown}"
