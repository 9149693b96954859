"""The record as text: every node's figures, and nothing that was not measured."""

from headroom.record.text import MAX_LINES, record_text


def node(node_id="1", **changes):
    values = {
        "node_id": node_id, "title": "KSampler", "status": "done", "cached": False,
        "seconds": 1.5, "rss_before_mib": 1000.0, "rss_after_mib": 1100.0,
        "devices": [vram("cuda:0", 100.0, 200.0, 900.0)],
    }
    return {**values, **changes}


def vram(device, before, after, peak, at_most=None):
    return {"device": device, "vram_before_mib": before, "vram_after_mib": after,
            "peak_vram_mib": peak, "peak_vram_at_most_mib": at_most or peak}


def card(device="cuda:0", peak=900.0, **changes):
    values = {"device": device, "peak_vram_mib": peak, "peak_vram_at_most_mib": peak,
              "vram_total_mib": 8192.0, "vram_source": "driver"}
    return {**values, **changes}


def run(*nodes, **changes):
    values = {
        "status": "success", "seconds": 12.0, "device": "cuda:0", "devices": [card()],
        "peak_rss_mib": 1200.0, "nodes": list(nodes), "oom": [], "actions": [],
    }
    return {**values, **changes}


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_is_markdown_with_a_line_a_node_and_figures_to_the_right_that_line_up():
    wide = node("2", title="a|b", seconds=1234.5, rss_before_mib=23456.7)
    lines = record_text(run(node(), wide)).splitlines()[-4:]
    assert cells(lines[0]) == ["node", "seconds", "VRAM before", "after", "peak", "RAM before",
                               "after"]
    assert all(set(cell) == {"-", ":"} and cell.endswith("-:") for cell in cells(lines[1])[1:])
    assert cells(lines[2]) == ["KSampler (#1)", "1.500", "100.0", "200.0", "900.0", "1,000.0",
                               "1,100.0"]
    assert lines[3].startswith("| a\\|b (#2) ")
    bars = [[i for i, letter in enumerate(line) if letter == "|"] for line in lines]
    assert bars[0] == bars[1] == bars[2] == [i for i in bars[3] if i != bars[3][1]]


def test_a_cached_node_has_no_figures():
    cached = node("2", cached=True, status="cached", rss_before_mib=None, rss_after_mib=None,
                  devices=[vram("cuda:0", None, None, None)])
    line = record_text(run(node(), cached)).splitlines()[-1]
    assert cells(line)[1:] == ["cached", "-", "-", "-", "-", "-"]


def test_a_server_without_a_gpu_shows_no_vram_columns():
    text = record_text(run(node(devices=[]), device="cpu", devices=[]))
    assert "VRAM" not in text and "RAM before" in text


def test_whose_vram_was_measured_is_said():
    assert "every process on the card" in record_text(run(node()))
    by_torch = run(node(), devices=[card(vram_source="torch")])
    assert "this process on the card" in record_text(by_torch)


def test_every_device_in_use_has_its_columns_and_its_line():
    figures = [vram("cuda:0", 1.0, 2.0, 3.0), vram("cuda:1", 4.0, 5.0, 6.0),
               vram("cuda:2", None, None, None)]
    text = record_text(run(node(devices=figures), devices=[
        card("cuda:0", 3.0), card("cuda:1", 6.0), card("cuda:2", None)]))
    assert "peak VRAM on cuda:0 3.0 of" in text and "peak VRAM on cuda:1 6.0 of" in text
    assert "cuda:2" not in text
    title, _, row = text.splitlines()[-3:]
    assert cells(title)[2:8] == ["VRAM cuda:0 before", "after", "peak", "VRAM cuda:1 before",
                                 "after", "peak"]
    assert cells(row)[2:8] == ["1.0", "2.0", "3.0", "4.0", "5.0", "6.0"]


def test_a_peak_that_torch_cannot_tell_exactly_is_said_to_be_at_least():
    unsure = node(devices=[vram("cuda:0", 100.0, 200.0, 160.0, at_most=608.0)])
    unknown = node("2", devices=[vram("cuda:0", 100.0, 200.0, 160.0) |
                                 {"peak_vram_at_most_mib": None}])
    found = run(unsure, unknown, node("3"), devices=[card(peak_vram_at_most_mib=None)])
    text = record_text(found)
    rows = {cells(line)[0]: cells(line)[4] for line in text.splitlines() if line.startswith("| K")}
    assert rows == {"KSampler (#1)": "≥ 160.0", "KSampler (#2)": "≥ 160.0",
                    "KSampler (#3)": "900.0"}
    assert "peak VRAM at least 900.0 of" in text
    assert "≥ at least: quick nodes between two readings" in text
    assert "at least" not in record_text(run(node()))


def test_attempts_and_actions_follow_the_table():
    text = record_text(run(
        node(),
        oom=[{"node_id": "3", "attempt": 2, "action": "unloaded every other model",
              "freed_mib": 3200.0, "recovered": True, "at_seconds": 4.4}],
        actions=[{"node_id": "9", "action": "purge", "text": "8.0 MiB of VRAM freed",
                  "at_seconds": 11.4}],
    ))
    assert "out of memory at 4.4 s in #3, attempt 2: unloaded every other model" in text
    assert "purge at 11.4 s in #9: 8.0 MiB of VRAM freed" in text


def test_a_node_that_failed_is_marked():
    assert "[failed]" in record_text(run(node(status="failed"), status="error"))


def test_a_run_of_thousands_of_nodes_stays_readable():
    text = record_text(run(*(node(str(index)) for index in range(1000))))
    assert len(text.splitlines()) < MAX_LINES + 10 and "800 more nodes" in text
