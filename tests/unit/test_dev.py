"""What the development commands print."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import demo, progress, table

ROOT = Path(demo.__file__).resolve().parent.parent
COMMANDS = ("demo", "test", "run", "advise", "fit", "compare", "bench")
NODE = {
    "node_id": "6",
    "class_type": "KSampler",
    "title": "KSampler",
    "seconds": 2.5,
    "cached": False,
    "vram_before_mib": 1234.5,
    "vram_after_mib": 0,
    "peak_vram_mib": None,
}


def test_a_row_shows_zero_as_zero_and_the_unknown_as_a_dash():
    row = table.node_row(NODE, {"6": "Sample"})
    assert row == ["6", "Sample", "2.50", "1,234.5", "0.0", "-"]


def test_a_cached_node_says_so_and_a_missing_title_falls_back():
    row = table.node_row({"node_id": "1", "class_type": "Load", "cached": True}, {})
    assert row == ["1", "Load", "cached", "-", "-", "-"]


def test_the_table_is_aligned_and_ends_with_the_whole_prompt():
    run = {"nodes": [NODE, {**NODE, "node_id": "10"}], "seconds": 5, "peak_vram_mib": 2048.25}
    lines = table.run_table(run, {}).splitlines()
    assert len(lines) == 5 and lines[-1].endswith("2,048.2")
    assert lines[2].index("KSampler") == lines[3].index("KSampler")
    assert len({len(line) for line in lines}) == 1


def bar(*events):
    stream = io.StringIO()
    drawn = progress.ProgressBar({"1": "Load", "2": "Sample", "3": "Save"}, stream)
    for kind, data in events:
        drawn.handle({"type": kind, "data": data})
    return drawn, stream.getvalue()


def test_the_bar_counts_cached_and_finished_nodes_and_shows_the_step():
    drawn, _ = bar(
        ("execution_cached", {"nodes": ["1"]}),
        ("executing", {"node": "2"}),
        ("progress", {"value": 3, "max": 20}),
    )
    assert drawn.line().endswith("1/3 Sample step 3/20")


def test_without_a_terminal_the_bar_is_a_line_a_node():
    _, text = bar(
        ("executing", {"node": "1"}),
        ("executing", {"node": "1"}),
        ("progress", {"value": 1, "max": 2}),
        ("executing", {"node": "2"}),
        ("execution_success", {}),
    )
    assert [line.split("] ")[1] for line in text.splitlines()] == [
        "0/3 Load",
        "1/3 Sample",
        "3/3 done",
    ]


def run_dev(*words, **env):
    command = [sys.executable, str(ROOT / "dev.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60,
                          env={**os.environ, **env})


def test_an_unknown_command_is_named_with_the_known_ones():
    done = run_dev("dmeo")
    assert done.returncode == 2
    assert "no command 'dmeo'" in done.stderr and "demo" in done.stderr


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_starts_with_nothing_but_python(command):
    words = [sys.executable, "-S", str(ROOT / "dev.py"), *command.split(), "--help"]  # no packages
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("usage: python dev.py"), done.stderr


def test_letters_that_the_output_cannot_have_are_replaced():
    done = run_dev("compare", "--help", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "TREE[,FLAG?]" in done.stdout


def test_a_wrong_port_is_refused():
    done = run_dev("demo", "--port", "99999")
    assert done.returncode == 2 and "a port is a number from 1 to 65535" in done.stderr
