"""CONTRIBUTING's table leads from each promise to a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = re.findall(r"`((?:unit|host|browser|gpu|worlds)/[\w/]*test_\w+\.py)(?:::(test_\w+))?`",
                  (ROOT / "CONTRIBUTING.md").read_text("utf-8"))


def test_every_test_that_holds_a_promise_is_there():
    assert len(ROWS) > 20
    wanted = [(file, f"def {name}(" if name else "def test_") for file, name in ROWS]
    gone = [(file, words) for file, words in wanted
            if words not in (ROOT / "tests" / file).read_text("utf-8")]
    assert gone == []
