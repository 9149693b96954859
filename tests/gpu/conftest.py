"""Fixtures for all kinds of GPU: the simulated one, PyTorch's own allocators on the fake CUDA
driver, and this machine's own GPU where there is one.

With HEADROOM_REHEARSE_GPU=16384 a simulated GPU of so many MiB stands for this machine's own, and
all that is done on a real one is done on it.
"""

import os
import sys
from types import SimpleNamespace

import pytest
from support.gpus import EVERY_GPU, emptied, pages_mib, taken_bytes
from support.worlds import CAPACITY_MIB, WORLDS, begun

from tools import bench_device
from tools.bench_device import NATIVE_ALLOCATOR, plain_flags
from tools.device import GpuServer
from tools.graph import Graph, add_checkpoint, add_purge, add_sampler, forget_everything
from tools.lab import REAL_GPU_PACK, rehearsed_mib
from tools.models import TEST_CHECKPOINT

# The simulated GPU lacks them too; with them, figures would not be the allocator's.
PLAIN = (*bench_device.PLAIN, "--disable-async-offload", "--disable-pinned-memory",
         "--disable-cuda-graphs")

REAL_MIB = 8192


def real_capacity_mib() -> int:
    """The size of this machine's GPU, or a skip that says why it cannot be used."""
    if rehearsed := rehearsed_mib():
        return rehearsed
    torch = pytest.importorskip("torch", reason="a real GPU is used through torch")
    if not torch.cuda.is_available() or torch.version.hip:
        pytest.skip("needs a real NVIDIA GPU: this machine has none that torch can use")
    return int(torch.cuda.get_device_properties(0).total_memory) >> 20


def on_simulated(serve, *args):
    """A simulated GPU of the size that the tests here ask for."""
    return GpuServer(serve(*args, simulate_mib=CAPACITY_MIB), CAPACITY_MIB)


def on_real(serve, comfyui, *args, wanted=PLAIN):
    """This machine's own GPU, with the flags that are wanted and known there.

    The capacity is a limit on the server's memory, and another process takes the rest, so that the
    driver tells what it would tell on a smaller card.
    """
    # The server starts a Python of its own; this process must leave the GPU alone.
    capacity_mib = min(REAL_MIB, real_capacity_mib())
    server = serve(*plain_flags(comfyui, wanted), *args, gpu=True, packs=[REAL_GPU_PACK],
                   env={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}, comfyui=comfyui)
    return GpuServer(server, capacity_mib)


def has_sampled(device):
    """The device, after a prompt: on a real GPU kernels are loaded at their first use."""
    graph = Graph()
    checkpoint = add_checkpoint(graph, TEST_CHECKPOINT)
    add_purge(graph, value=add_sampler(graph, checkpoint[0], checkpoint[1]))
    device.client.run(graph.prompt)
    return device


@pytest.fixture(scope="module", params=EVERY_GPU)
def started(request, comfyui, serve, models_dir, tmp_path_factory):
    """A server on one kind of GPU at a time; `world` is its name."""
    if request.param in WORLDS:
        base = tmp_path_factory.mktemp("comfyui")
        with begun(request, request.param, comfyui, models_dir, base) as server:
            yield server
        return
    if request.param == "simulated":
        server = on_simulated(serve)
    elif request.param == "real":
        server = has_sampled(on_real(serve, comfyui))
    else:
        newest = request.getfixturevalue("newest_comfyui")
        server = has_sampled(on_real(serve, newest, wanted=[NATIVE_ALLOCATOR]))
        if pages_mib(server) is None:
            pytest.skip("ComfyUI runs without dynamic VRAM on this GPU")
    server.world = request.param
    yield server


@pytest.fixture
def device(started):
    """That server with nothing loaded; `fresh_bytes` are those in use before it did anything."""
    emptied(started)
    if started.driver is None:
        started.fresh_bytes = taken_bytes(started) if started.server.gpu else 0
    yield started
    started.set_other_process(0)
    started.set_capacity(1 << 20)


@pytest.fixture
def computing(request, comfyui, serve):
    """A factory of servers that compute, by ComfyUI's flags; which of them, a test says."""
    if request.param == "cpu":
        client = serve().client()
        forget_everything(client)
        yield lambda *args: SimpleNamespace(client=client)
        return
    servers = []

    def start(*args):
        server = (on_simulated(serve, *args) if request.param == "simulated"
                  else on_real(serve, comfyui, *args))
        servers.append(server)
        return emptied(server)

    yield start
    for server in servers:
        server.set_other_process(0)
        server.set_capacity(1 << 20)


def pytest_report_header():
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    return f"GPU tests: Python {sys.version.split()[0]}, CUDA_VISIBLE_DEVICES={shown}"
