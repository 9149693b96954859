"""What a prompt costs the head of a farm of a thousand servers; without Ray, without servers."""

import asyncio
import itertools
import tempfile
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from on_path import ROOT

from tools.load_file import load_file

SERVERS, PROMPTS, KINDS = 1000, 3000, 20
SIZES_MIB = (8192, 16384, 24576, 49152)
PARTS = ("door", "seat", "store", "words")


def head() -> dict[str, Any]:
    """CPU and wall time of a door a prompt, from its acceptance to its result on disk."""
    package = load_file("headroom_farm", ROOT / "farm" / "__init__.py")
    farm = SimpleNamespace(**{part: import_module(f"{package.__name__}.{part}") for part in PARTS})
    farm.seat.HEARD_SECONDS = 0.01  # nobody listens to servers that are not there
    with tempfile.TemporaryDirectory() as scratch:
        store = farm.store.Store(Path(scratch))
        wall, cpu = asyncio.run(_spent(farm, store))
        assert len(list(store.entries())) == PROMPTS
        store.close()
        size = (Path(scratch) / farm.store.FILE).stat().st_size
    return {"servers": SERVERS, "prompts": PROMPTS, "kinds": KINDS,
            "ms": round(1000 * wall / PROMPTS, 3), "cpu_ms": round(1000 * cpu / PROMPTS, 3),
            "store_bytes_a_prompt": round(size / PROMPTS)}


async def _spent(farm: SimpleNamespace, store: Any) -> tuple[float, float]:
    words = farm.words
    works = {f"s{number}": _Ends(words, words.Facts(size, size, True))
             for number, size in zip(range(SERVERS), itertools.cycle(SIZES_MIB), strict=False)}
    door = farm.door.Door(store, works, lambda _: None)
    door.open()
    while len(door.there()) < SERVERS:
        await asyncio.sleep(0.05)
    began = time.perf_counter(), time.process_time()
    for number in range(PROMPTS):
        await door.accept({"prompt": {"1": {"class_type": "A", "inputs": {
            "kind": number % KINDS, "seed": number}}}})
    while door.remaining:
        await asyncio.sleep(0.01)
    spent = time.perf_counter() - began[0], time.process_time() - began[1]
    await door.close()
    return spent


class _Ends:
    """A server that finishes every prompt at once."""

    def __init__(self, words: ModuleType, facts: Any) -> None:
        self._words, self._facts = words, facts

    async def start(self) -> Any:
        return self._facts

    async def run(self, order: Any) -> Any:
        needed = 2000.0 * (1 + order.asked.prompt["1"]["inputs"]["kind"] % 4)
        return self._words.Outcome("done", "", self._facts, needed, entry={"outputs": {}})

    def wake(self) -> None:
        """Do nothing: this server does not sleep."""

    async def close(self) -> None:
        """Do nothing: this server has no process."""
