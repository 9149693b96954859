"""What a prompt costs the head of a farm of a thousand servers; without Ray, without servers."""

import itertools
import tempfile
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from on_path import ROOT, loaded

SERVERS, PROMPTS, KINDS = 1000, 3000, 20
RESULTS_A_TURN = 5
SIZES_MIB = (8192, 16384, 24576, 49152)
PARTS = ("driver", "ledger", "prompts", "words")


def head() -> dict[str, Any]:
    """CPU and wall time of the driver's loop a prompt, where some results come at once."""
    package = loaded("headroom_farm", ROOT / "farm")
    farm = SimpleNamespace(**{part: import_module(f"{package.__name__}.{part}") for part in PARTS})
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(scratch)
        with farm.ledger.Ledger(results) as ledger:
            names = [f"s{number}" for number in range(SERVERS)]
            driver = farm.driver.Driver(_Ends(farm, results), ledger, results, names, _Silent())
            asked = [_asked(farm.prompts, number) for number in range(PROMPTS)]
            began = time.perf_counter(), time.process_time()
            driver.run(iter(asked))
            spent = time.perf_counter() - began[0], time.process_time() - began[1]
        size = (results / "ledger.jsonl").stat().st_size
    assert driver.counts.finished == PROMPTS
    wall, cpu = (round(1000 * seconds / PROMPTS, 3) for seconds in spent)
    return {"servers": SERVERS, "prompts": PROMPTS, "kinds": KINDS, "ms": wall, "cpu_ms": cpu,
            "ledger_bytes_a_prompt": round(size / PROMPTS)}


def _asked(prompts: ModuleType, number: int) -> Any:
    inputs = {"kind": number % KINDS, "seed": number}
    return prompts.asked_for(f"p{number}", {"1": {"class_type": "A", "inputs": inputs}})


class _Ends:
    """Servers that finish every prompt at once; some results a look, as in a farm that is busy."""

    def __init__(self, farm: SimpleNamespace, results: Path) -> None:
        self._farm, self._results = farm, results
        self._calls: list[tuple[str, Any]] = []
        self._sizes: dict[str, int] = {}
        self._next_size = itertools.cycle(SIZES_MIB)

    def start(self, server: str) -> None:
        self._sizes[server] = next(self._next_size)
        self._calls.append((server, self._facts(server)))

    def run(self, server: str, order: Any) -> None:
        folder = self._results / ".partial" / order.asked.key
        folder.mkdir(parents=True)
        needed = 2000.0 * (1 + order.asked.prompt["1"]["inputs"]["kind"] % 4)
        outcome = self._farm.words.Outcome(
            "done", "", self._facts(server), needed, False, 1.0, str(folder)
        )
        self._calls.append((server, outcome))

    def wait(self, seconds: float) -> list[tuple[str, Any]]:
        ended, self._calls = self._calls[:RESULTS_A_TURN], self._calls[RESULTS_A_TURN:]
        return ended

    def _facts(self, server: str) -> Any:
        size = self._sizes[server]
        return self._farm.words.Facts(size, size, True)


class _Silent:
    def changes(self, farm: Any) -> None:
        """Nobody looks."""

    def says(self, text: str) -> None:
        """Nobody listens."""
