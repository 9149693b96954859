"""CONTRIBUTING's table leads from each promise to a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(r"`((?:unit|host|browser|gpu|worlds)/[\w/]*test_\w+\.py)(?:::(test_\w+))?`",
                  (ROOT / "CONTRIBUTING.md").read_text("utf-8"))


def test_every_test_that_holds_a_promise_is_there():
    assert len(ROWS) > 20
    gone = [f"{file}::{name}" for file, name in ROWS
            if f"def {name or 'test_'}" not in (ROOT / "tests" / file).read_text("utf-8")]
    assert gone == []
