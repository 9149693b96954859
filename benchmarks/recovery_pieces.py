"""`recovery_cost` measured a class and a share at a time, and recorded as one."""

import argparse
from typing import Any

Json = dict[str, Any]


def merged(recorded: Json, found: Json) -> Json:
    """`found`, and those recorded shares of its classes and others that were not measured again.

    A class keeps its shares while need, batch and picture are the same.
    """
    classes = dict(recorded["classes"])
    for name, new in found["classes"].items():
        old = classes.get(name, {})
        alike = all(old.get(key) == new[key] for key in ("need_mib", "batch", "picture"))
        shares = {**old["shares"], **new["shares"]} if alike else new["shares"]
        classes[name] = {**new, "shares": dict(
            sorted(shares.items(), key=lambda share: -int(share[1]["mib"])))}
    return {**found, "classes": classes}


def command(benchmark: str, args: argparse.Namespace, name: str, percent: int) -> str:
    """What measures this class and share alone."""
    words = [f"python benchmarks/{benchmark}.py --comfyui PATH"]
    for key, value in {**vars(args), "classes": name, "percent": percent}.items():
        if key == "comfyui" or value in (None, False) or (key, value) == ("divide", 1):
            continue
        words += [f"--{key.replace('_', '-')}", *([] if value is True else [str(value)])]
    return " ".join(words)
