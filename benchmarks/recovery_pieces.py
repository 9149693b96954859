"""`recovery_cost` measured a class and a share at a time, and recorded as one."""

import argparse
from typing import Any

Json = dict[str, Any]
DEFAULTS = {"steps": 2, "prompts": 2, "divide": 1, "prefer": ["same bits"]}


def merged(recorded: Json, found: Json) -> Json:
    """`found`, and those recorded shares of its classes and others that were not measured again.

    A class keeps its shares while need, batch and picture are the same; all go with other steps.
    """
    if any(recorded[key] != found[key] for key in ("steps", "dynamic_vram")):
        return found
    classes = {name: {**one, "shares": _known(one["shares"])}
               for name, one in recorded["classes"].items()}
    for name, new in found["classes"].items():
        old = classes.get(name, {})
        alike = all(old.get(key) == new[key] for key in ("need_mib", "batch", "picture"))
        shares = {**old["shares"], **new["shares"]} if alike else new["shares"]
        classes[name] = {**new, "shares": dict(sorted(shares.items(), key=_smallness))}
    return {**found, "classes": {name: one for name, one in classes.items() if one["shares"]}}


def _known(shares: Json) -> Json:
    """Return those that have a record of where they were measured."""
    return {name: share for name, share in shares.items() if "commit" in share}


def _smallness(share: tuple[str, Json]) -> int:
    return -int(share[1]["mib"])


def command(benchmark: str, args: argparse.Namespace, name: str, percent: int) -> str:
    """What measures this class and share alone."""
    words = [f"python benchmarks/{benchmark}.py --comfyui PATH"]
    for key, value in {**vars(args), "classes": name, "percent": percent}.items():
        if key == "comfyui" or value in (None, False, DEFAULTS.get(key)):
            continue
        values = [] if value is True else value if isinstance(value, list) else [value]
        words += [f"--{key.replace('_', '-')}",
                  *(f'"{one}"' if " " in str(one) else str(one) for one in values)]
    return " ".join(words)
