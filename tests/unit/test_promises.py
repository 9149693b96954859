"""What CONTRIBUTING's tables name is there, and tests are found by the name of their module."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
ROWS = re.findall(r"`((?:unit|host|browser|gpu|worlds)/[\w/]*test_\w+\.py)(?:::(test_\w+))?`", TEXT)


def test_every_test_that_holds_a_promise_is_there():
    assert len(ROWS) > 20
    wanted = [(file, f"def {name}(" if name else "def test_") for file, name in ROWS]
    gone = [(file, words) for file, words in wanted
            if words not in (ROOT / "tests" / file).read_text("utf-8")]
    assert gone == []


def test_each_unit_test_is_named_after_a_module_of_its_folder():
    lost = []
    for file in (ROOT / "tests/unit").glob("*/test_*.py"):
        name = file.parent.name
        folder = next(one for one in (ROOT / "headroom" / name, ROOT / name) if one.is_dir())
        own = {path.stem for path in folder.glob("*.py")}
        parts = file.stem.split("_")
        if name != "lab" and not own & {"_".join(parts[1:end]) for end in range(2, len(parts) + 1)}:
            lost.append(f"{name}/{file.name}")
    assert lost == []


def test_every_file_to_open_for_a_change_is_there():
    named = set(re.findall(r"`([\w./-]+\.(?:py|js|json|css|toml))`", TEXT))
    there = [f"/{path.relative_to(ROOT).as_posix()}" for folder in ROOT.iterdir()
             if folder.name[0] != "." for path in (folder, *folder.rglob("*"))]
    assert len(named) > 100
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in there)] == []
