"""Which results the benchmark over all templates counts as a verdict."""

from tools.bench_run import load

FIT_TEMPLATES = load("fit_templates")
TRIED = {"cpu_s": 40.0, "ram_gib": 1.5, "verdicts": "resident | resident | resident"}
ROWS = {
    "ran": TRIED,
    "slow": {**TRIED, "cpu_s": 90.0},
    "stopped": {**TRIED, "why": "needs real values"},
    "killed": {"cpu_s": 3.0, "ram_gib": 1.0, "why": "Error: no RAM"},
    "not yet": {},
    "a file": {"gate": "unknown file", "why": "x.safetensors"},
    "newer": {"gate": "no such node", "why": "NodeOfTomorrow"},
}


def test_a_run_that_stopped_gives_no_verdict_and_a_slow_one_is_outside_the_limits():
    found = FIT_TEMPLATES.summary(ROWS)
    assert (found["templates"], found["loadable"], found["files_known"]) == (7, 6, 5)
    assert (found["tried"], found["verdicts"], found["within_limits"]) == (4, 2, 1)
    assert found["median_cpu_s"] == 40.0 and "newer" not in found["rows"]


def test_a_template_is_run_by_fit_itself(tmp_path):
    row = FIT_TEMPLATES._tried(str(tmp_path / "none"), tmp_path, "no workflow", {})
    assert row["cpu_s"] > 0 and "cli_args.py" in row["why"]
