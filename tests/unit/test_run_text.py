"""The record as text: every node's figures, and nothing that was not measured."""

from headroom.record.text import MAX_LINES, run_text


def node(node_id="1", **changes):
    values = {
        "node_id": node_id, "title": "KSampler", "status": "done", "cached": False,
        "seconds": 1.5, "vram_before_mib": 100.0, "vram_after_mib": 200.0, "peak_vram_mib": 900.0,
        "rss_before_mib": 1000.0, "rss_after_mib": 1100.0,
    }
    return {**values, **changes}


def run(*nodes, **changes):
    values = {
        "status": "success", "seconds": 12.0, "device": "cuda:0", "peak_vram_mib": 900.0,
        "vram_total_mib": 8192.0, "vram_source": "driver", "peak_rss_mib": 1200.0,
        "nodes": list(nodes), "oom": [], "actions": [],
    }
    return {**values, **changes}


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_node_is_one_line_with_its_figures():
    line = run_text(run(node())).splitlines()[-1]
    assert cells(line) == ["KSampler (#1)", "1.500", "100.0", "200.0", "900.0", "1,000.0",
                           "1,100.0"]


def test_the_table_is_markdown_with_figures_to_the_right():
    title, rule, row = run_text(run(node(title="a|b"))).splitlines()[-3:]
    assert cells(title) == ["node", "seconds", "VRAM before", "after", "peak", "RAM before",
                            "after"]
    assert all(set(cell) == {"-", ":"} and cell.endswith("-:") for cell in cells(rule)[1:])
    assert row.startswith("| a\\|b (#1) |")


def test_columns_line_up():
    wide = node("2", seconds=1234.5, vram_before_mib=23456.7)
    lines = run_text(run(node("1"), wide)).splitlines()
    bars = [[i for i, letter in enumerate(line) if letter == "|"] for line in lines[-4:]]
    assert bars[0] == bars[1] == bars[2] == bars[3]


def test_a_cached_node_has_no_figures():
    nothing = dict.fromkeys(
        ["vram_before_mib", "vram_after_mib", "peak_vram_mib", "rss_before_mib", "rss_after_mib"]
    )
    cached = node("2", cached=True, status="cached", **nothing)
    line = run_text(run(node(), cached)).splitlines()[-1]
    assert cells(line)[1:] == ["cached", "-", "-", "-", "-", "-"]


def test_a_server_without_a_gpu_shows_no_vram_columns():
    figures = {"vram_before_mib": None, "vram_after_mib": None, "peak_vram_mib": None}
    text = run_text(run(node(**figures), peak_vram_mib=None, device="cpu", vram_source=None))
    assert "VRAM" not in text and "RAM before" in text


def test_whose_vram_was_measured_is_said():
    assert "every process on the card" in run_text(run(node()))
    assert "this process on the card" in run_text(run(node(), vram_source="torch"))


def test_attempts_and_actions_follow_the_table():
    text = run_text(run(
        node(),
        oom=[{"node_id": "3", "attempt": 2, "action": "unloaded every other model",
              "freed_mib": 3200.0, "recovered": True, "at_seconds": 4.4}],
        actions=[{"node_id": "9", "action": "purge", "text": "8.0 MiB of VRAM freed",
                  "at_seconds": 11.4}],
    ))
    assert "out of memory at 4.4 s in #3, attempt 2: unloaded every other model" in text
    assert "purge at 11.4 s in #9: 8.0 MiB of VRAM freed" in text


def test_a_node_that_failed_is_marked():
    assert "[failed]" in run_text(run(node(status="failed"), status="error"))


def test_a_run_of_thousands_of_nodes_stays_readable():
    text = run_text(run(*(node(str(index)) for index in range(1000))))
    assert len(text.splitlines()) < MAX_LINES + 10 and "800 more nodes" in text
