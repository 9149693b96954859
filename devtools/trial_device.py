"""A server on a simulated GPU on which prompts are tried, each on an empty device of some size."""

from __future__ import annotations

from typing import Any

from .client import Client, PromptFailed
from .graph import forget_everything

ROOM_MIB = 16384
TIMEOUT_S = 1800.0
Json = dict[str, Any]


class TrialDevice:
    """Prompts on a device whose capacity can be set; the server's routes are `tests/simgpu/`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def attempt(self, prompt: Json, capacity_mib: float) -> str | None:
        """Run on an empty device of that capacity: None, or the out-of-memory error's words."""
        self.empty()
        self._post("capacity", {"mib": capacity_mib})
        self._post("reset_peaks")
        try:
            self.client.run(prompt, timeout=TIMEOUT_S)
        except PromptFailed as error:
            if not error.out_of_memory:
                raise
            kind = error.exception_type.rpartition(".")[2]
            words = error.exception_message.strip().splitlines()[0]
            return f"{error.node_type}: {kind}: {words}"
        return None

    def words(self, prompt: Json, capacity_mib: float) -> str:
        """What came of it: "completed", or the error's words."""
        return self.attempt(prompt, capacity_mib) or "completed"

    def collect(self) -> Json:
        """Collect garbage and tell the device's figures, in bytes, the peaks since the attempt."""
        return self._post("collect")

    def empty(self) -> None:
        """Take everything off the device and give it room."""
        self._post("capacity", {"mib": ROOM_MIB})
        forget_everything(self.client)
        self._post("collect")

    def _post(self, what: str, body: Json | None = None) -> Json:
        status, answer = self.client.post_json(f"/simgpu/{what}", body or {})
        if status != 200:
            raise RuntimeError(f"The simulated GPU answered {status} to {what}: {answer}")
        return dict(answer)
