"""The English words of the nodes, as `locales/en/nodeDefs.json` has them.

They are the nodes' own: run `python -m tools.locale_files URL` against a running server after a
name or a tooltip has changed.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .client import Client

PREFIX = "Headroom"
FILE = Path(__file__).resolve().parent.parent / "locales" / "en" / "nodeDefs.json"


def english_nodes(object_info: Mapping[str, Any]) -> dict[str, Any]:
    """The names, descriptions and tooltips of our nodes, in the shape of a locale file."""
    return {
        name: _node(info) for name, info in object_info.items() if name.startswith(PREFIX)
    }


def _node(info: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {**info["input"].get("required", {}), **info["input"].get("optional", {})}
    tooltips = info.get("output_tooltips") or [None] * len(info["output"])
    return {
        "display_name": info["display_name"],
        "description": info["description"],
        "inputs": {name: _words(name, _options(given)) for name, given in inputs.items()},
        "outputs": {
            str(index): _words(name, {"tooltip": tooltip})
            for index, (name, tooltip) in enumerate(
                zip(info["output_name"], tooltips, strict=True)
            )
        },
    }


def _options(given: list[Any]) -> Mapping[str, Any]:
    return given[1] if len(given) > 1 else {}


def _words(name: str, options: Mapping[str, Any]) -> dict[str, str]:
    tooltip = options.get("tooltip")
    return {"name": name, **({"tooltip": tooltip} if tooltip else {})}


def as_text(words: Mapping[str, Any]) -> str:
    return json.dumps(words, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    nodes = english_nodes(Client(sys.argv[1]).get_json("/object_info"))
    FILE.write_text(as_text(nodes), encoding="utf-8")
    print(f"{len(nodes)} nodes written to {FILE}.")
