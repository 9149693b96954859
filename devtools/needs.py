"""Which packages some installed packages still need, printed one a line.

Run inside an environment that has the `packaging` package: `python needs.py NAME ...`. Follows
the requirements of what is installed, extras and markers included.
"""

import importlib.metadata
import sys
from collections.abc import Iterable


def still_needed(names: Iterable[str]) -> list[str]:
    """The names reachable from `names` that are not installed, in the order they are met."""
    from packaging.requirements import Requirement

    missing: dict[str, None] = {}
    waiting = [Requirement(name) for name in names]
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop(0)
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            lines = importlib.metadata.requires(requirement.name) or []
        except importlib.metadata.PackageNotFoundError:
            missing[requirement.name] = None
            continue
        found = [Requirement(line) for line in lines]
        extras = requirement.extras or {""}
        waiting += [
            need
            for need in found
            if need.marker is None or any(need.marker.evaluate({"extra": x}) for x in extras)
        ]
    return list(missing)


if __name__ == "__main__":
    print("\n".join(still_needed(sys.argv[1:])))
