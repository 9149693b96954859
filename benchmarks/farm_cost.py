"""What it costs the head of a farm to decide, without Ray and without any server."""

import time
from typing import Any

from on_path import ROOT, loaded

SERVERS, PROMPTS, KINDS, TAKES = 1000, 10_000, 20, 2000
SIZES_MIB = (8192, 16384, 24576, 49152)


def decisions() -> dict[str, Any]:
    """Microseconds to choose a prompt for a server, in a farm of a thousand."""
    package = loaded("headroom_farm", ROOT / "farm")
    from importlib import import_module

    placement, needs, prompts, words = (
        import_module(f"{package.__name__}.{name}")
        for name in ("placement", "needs", "prompts", "words")
    )
    servers = [
        placement.Server(f"s{n}", words.Facts(size, size, True))
        for n in range(SERVERS) for size in [SIZES_MIB[n % len(SIZES_MIB)]]
    ]
    known = needs.Needs()
    queue = placement.Queue(known)
    for number in range(PROMPTS):
        inputs = {"kind": number % KINDS, "seed": number}
        asked = prompts.asked_for("p", {"1": {"class_type": "A", "inputs": inputs}})
        known.learn(asked.kind, "done", 2000.0 * (number % KINDS), 49152.0)
        queue.add(placement.Waiting(asked))
    began = time.perf_counter()
    for number in range(TAKES):
        queue.take(servers[number % SERVERS], servers)
    spent = time.perf_counter() - began
    return {"servers": SERVERS, "kinds": KINDS, "us": round(1e6 * spent / TAKES, 1)}
