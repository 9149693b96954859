"""The GPU under a server: simulated, on the fake CUDA driver, or the machine's own.

Tests and benchmarks read and limit each of them in the same way, over HTTP.
"""

import json
from types import SimpleNamespace
from typing import Any

from .client import Client, PromptFailed, node_texts
from .graph import Graph, Node, forget_everything
from .lab import driver_ledger
from .server import ComfyServer
from .waiting import wait_until

MIB = 2**20
ROOM_MIB = 16384
TIMEOUT_S = 7200.0
# PyTorch keeps cuBLAS's workspaces, 8.125 and 1 MiB, as long as the process lives; a real library
# up to 32 MiB.
FAKE_WORKSPACE_BYTES, REAL_WORKSPACE_BYTES = 16 * MIB, 64 * MIB
Json = dict[str, Any]


class Device:
    """The device behind a client: its figures and limits, and prompts that are tried on it.

    `driver` is the ledger of the fake CUDA driver, where that is the device.
    """

    def __init__(
        self, client: Client, gpu: bool = False, room_mib: int = ROOM_MIB, driver: Any = None
    ) -> None:
        self.client = client
        self.room_mib = room_mib
        self.driver = driver
        self.may_stay_bytes = 0  # of tensors, where the device counts as empty
        self._prefix = "/realgpu" if gpu or driver else "/simgpu"

    # -- figures and limits -------------------------------------------------------------------

    def ledger(self) -> Any:
        """All figures as they are: those of `Figures` in lab/simgpu/device.py."""
        return SimpleNamespace(**self.client.get_json(f"{self._prefix}/ledger"))

    def collect(self) -> Any:
        """All figures after a run of the server's garbage collector."""
        return SimpleNamespace(**self.post("collect"))

    def reset_peaks(self) -> Any:
        """Reset the peaks to the current figures, and return these."""
        if self.driver:
            self.driver.reset_peaks()
        return SimpleNamespace(**self.post("reset_peaks"))

    def set_capacity(self, mib: float) -> None:
        """Give the device this size; what is on it stays."""
        if self.driver:
            self.driver.set(capacity_bytes=int(mib * MIB))
        else:
            self.post("capacity", {"mib": mib})

    def set_other_process(self, mib: float) -> None:
        """Let another process hold so much of the device."""
        if self.driver:
            self.driver.set(other_process_bytes=int(mib * MIB))
        else:
            self.post("other", {"mib": mib})

    def total_mib(self) -> float:
        """The size of the GPU itself, without a limit."""
        return float(self.post("capacity", {"mib": 1 << 30})["capacity_bytes"]) / MIB

    def arm_fault(self, **settings: Any) -> Json:
        """Fail allocations of the simulated GPU from now on; settings as in `Fault`."""
        return self.post("fault", settings)

    def fault(self) -> Any:
        """The armed fault with how many allocations it has `seen` and `failed`; None without."""
        return self.client.get_json(f"{self._prefix}/fault")

    def disarm(self) -> None:
        """Let allocations succeed again; on a real GPU none can be chosen to fail."""
        if self.driver:
            self.driver.set(fail_in=0)
        elif self._prefix == "/simgpu":
            self.post("fault")

    def post(self, what: str, body: Json | None = None) -> Json:
        """The answer to such a request; ValueError where it is refused."""
        status, answer = self.client.post_json(f"{self._prefix}/{what}", body or {})
        if status != 200:
            raise ValueError(f"{self._prefix}/{what} answered {status}: {answer}")
        return dict(answer or {})  # a fault that is taken away answers nothing

    # -- emptying -----------------------------------------------------------------------------

    def free_is_pending(self) -> bool:
        """Whether ComfyUI has yet to act on a `POST /free`."""
        return bool(self.client.get_json(f"{self._prefix}/pending")["free"])

    def unload(self, timeout: float = 60.0) -> Any:
        """`POST /free` for models and cache; the figures once nothing is left on the device.

        TimeoutError where something stays.
        """
        # ComfyUI takes the second request when it has done the first. Until then no garbage may be
        # collected: its list of models, over which it goes, would lose those that nothing holds.
        for _ in range(2):
            wait_until(self._free_is_taken, timeout)
        return wait_until(self._figures_if_empty, timeout)

    def _free_is_taken(self) -> bool:
        """Ask for it; a request that comes while ComfyUI is busy does not wake it."""
        self.client.free(unload_models=False, free_memory=True)  # the latter implies the former
        return not self.free_is_pending()

    def _figures_if_empty(self) -> Any:
        figures = self.collect()
        return figures if figures.allocated_bytes <= self.may_stay_bytes else None

    def empty(self) -> None:
        """Take everything off the device and give it room."""
        self.set_capacity(self.room_mib)
        forget_everything(self.client)
        self.collect()

    # -- prompts ------------------------------------------------------------------------------

    def run(self, graph: Graph) -> Json:
        """The history entry of the graph's run."""
        return self.client.run(graph.prompt, timeout=TIMEOUT_S)

    def told(self, graph: Graph, node: Node) -> Any:
        """What a node of the graph says in JSON."""
        return json.loads(node_texts(self.run(graph))[node.id])

    def attempt(self, prompt: Json, capacity_mib: float) -> str | None:
        """Run on an empty device of that capacity: None, or the out-of-memory error's words."""
        self.empty()
        return self.attempt_as_it_is(prompt, capacity_mib)

    def attempt_as_it_is(self, prompt: Json, capacity_mib: float) -> str | None:
        """The same without emptying the device first."""
        self.set_capacity(capacity_mib)
        self.reset_peaks()
        try:
            self.client.run(prompt, timeout=TIMEOUT_S)
        except PromptFailed as error:
            if not (error.out_of_memory or _ended_in_tiles(error)):
                raise
            kind = error.exception_type.rpartition(".")[2]
            words = error.exception_message.strip().splitlines()[0]
            return f"{error.node_type}: {kind}: {words}"
        return None

    def words(self, prompt: Json, capacity_mib: float) -> str:
        """What came of an attempt: "completed", or the error's words."""
        return self.attempt(prompt, capacity_mib) or "completed"


def _ended_in_tiles(error: PromptFailed) -> bool:
    """Whether ComfyUI's decode was out of memory, went on in tiles, and these failed in any way."""
    return error.node_type == "VAEDecode" and "in decode_tiled" in error.traceback


class GpuServer(Device):
    """A running server with its device, whichever that is."""

    def __init__(self, server: ComfyServer, room_mib: int) -> None:
        driver = driver_ledger(server.fake_ledger) if server.fake_cuda is not None else None
        super().__init__(server.client(), server.gpu, room_mib, driver)
        self.server = server
        self.computes = driver is None  # else equal pictures would prove nothing
        self.may_stay_bytes = (FAKE_WORKSPACE_BYTES if driver else
                               REAL_WORKSPACE_BYTES if server.gpu else 0)

    @property
    def url(self) -> str:
        return self.server.url

    def log_text(self) -> str:
        return self.server.log_text()

    def restore(self) -> "GpuServer":
        """The device as it was started: own capacity, no other process, no fault."""
        self.disarm()
        self.set_other_process(0)
        self.set_capacity(self.room_mib)
        return self
