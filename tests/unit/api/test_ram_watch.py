"""When models go to disk because RAM is short, what is logged, which ones the queue needs."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from headroom.actions.make_room import VARIABLE, Step, wanted_bytes
from headroom.api import ram_watch as watch_module
from headroom.api.gate import Gate
from headroom.api.ram_watch import RamWatch
from headroom.base.device import MIB
from headroom.measure.journal import listen

GIB = 2**30


def watch(value="1000", gate=None, prompts=()):
    gate = gate or Gate(lambda: False, lambda: True)
    return RamWatch(gate, None, lambda: list(prompts), wanted_bytes({VARIABLE: value}, {}))


def look(found):
    asyncio.run(found.look())


def test_turned_off_it_reads_nothing(monkeypatch, spared):
    monkeypatch.setattr(watch_module, "ram_room_bytes", lambda: pytest.fail("it looked"))
    found = watch("0")
    found.start()
    found.before_prompt()
    found.before_node("p", "1")
    look(found)
    assert spared["calls"] == 0


@pytest.fixture
def noted():
    """The notes that the record gets."""
    entries = []
    listen(entries.append)
    return entries


def test_amid_a_node_the_heap_is_trimmed_once_and_the_rest_waits_for_the_next(
    monkeypatch, spared, noted
):
    trims = []
    monkeypatch.setattr(watch_module, "trim", lambda: trims.append(1) or Step("ram heap", "3 MiB"))
    monkeypatch.setattr(watch_module, "make_room", lambda wanted: iter([
        Step("ram cache", "given up")]))
    found = watch()
    spared["room"] = GIB
    found.before_node("p", "1")
    found.look_amid()
    assert (trims, spared["calls"], noted) == ([], 0, [])
    spared["room"] = 200 * MIB
    found.look_amid()
    found.look_amid()
    assert len(trims) == 1 and spared["calls"] == 0
    found.before_node("p", "2")
    assert spared["calls"] == 1
    assert [(one.prompt_id, one.node_id, one.action) for one in noted] == [
        ("p", "1", "ram heap"), ("p", "2", "ram cache"), ("p", "2", "ram models")]
    assert noted[0].text == "3 MiB"
    found.before_node("p", "3")
    assert spared["calls"] == 1  # nobody found it short since


@pytest.mark.parametrize("room_mib, calls", [(5000, 0), (3000, 1)])
def test_before_a_load_idle_models_make_room_for_it_and_nothing_else_changes(
    monkeypatch, spared, caplog, room_mib, calls
):
    """1,000 MiB are to stay free, and the file takes 2,600."""
    monkeypatch.setattr(watch_module, "loading_nodes", lambda prompt: {"1"} & prompt.keys())
    monkeypatch.setattr(watch_module, "load_bytes", lambda prompt, node_id: 2600 * MIB)
    found = watch(prompts=[{"1": "Load", "2": "Text"}, {}])
    monkeypatch.setattr(watch_module, "used_by", lambda prompts: lambda patcher: False)
    spared["room"] = room_mib * MIB
    found.before_prompt()
    found.before_node("p", "2")
    assert spared["calls"] == 0
    found.before_node("p", "1")
    assert spared["calls"] == calls
    assert ("beside 2,600.0 MiB for what the next node loads" in caplog.text) == bool(calls)
    spared["count"] = 0  # nothing is idle any more: that is not said, the load may fit yet
    caplog.clear()
    found.before_node("p", "1")
    assert caplog.text == "" and not found._tried
    assert watch("0", prompts=[{"1": "Load"}]).before_node("p", "1") is None


def test_where_a_first_step_freed_enough_no_model_goes_to_disk(monkeypatch, spared):
    def enough(wanted):
        spared["room"] = GIB
        yield Step("ram cache", "given up")

    monkeypatch.setattr(watch_module, "make_room", enough)
    watch().before_prompt()
    assert spared["calls"] == 0


def test_models_go_when_ram_is_short_and_one_line_says_so(caplog, spared):
    caplog.set_level(logging.INFO)
    found = watch()
    spared["room"] = 1001 * MIB
    look(found)
    assert spared["calls"] == 0
    spared["room"] = 200 * MIB
    look(found)
    [record] = caplog.records
    assert record.getMessage() == (
        "[Headroom] 200.0 MiB of RAM were left, 1,000.0 MiB are to stay free "
        "(HEADROOM_RAM_FREE_MIB): "
        "512.0 MiB of 1 idle model went to disk, 200.0 MiB are left now"
    )


def test_a_prompt_that_begins_reads_no_ram_where_there_was_plenty_a_moment_ago(monkeypatch, spared):
    seconds, looks = [0.0], []
    monkeypatch.setattr(watch_module.time, "monotonic", lambda: seconds[0])
    monkeypatch.setattr(watch_module, "ram_total_bytes", lambda: 16 * GIB)
    monkeypatch.setattr(watch_module, "ram_room_bytes",
                        lambda: looks.append(1) or spared["room"])
    found, spared["room"] = watch(), 9 * GIB
    for later, expected in ((0.0, 1), (0.9, 1), (0.2, 2)):
        seconds[0] += later
        found.before_prompt()
        assert len(looks) == expected
    spared["room"] = 7 * GIB  # little RAM: each prompt reads it
    found.look_amid()
    found.before_prompt()
    assert len(looks) == 4 and spared["calls"] == 0


def test_without_a_model_to_move_it_is_tried_once_a_prompt_and_logged_once(caplog, spared):
    caplog.set_level(logging.INFO)
    spared["count"] = 0
    found = watch()
    for _ in range(3):
        look(found)
    assert spared["calls"] == 1 and len(caplog.records) == 1
    assert "no idle model is left to go" in caplog.text
    found.before_prompt()
    found.prompt_is_over()
    look(found)
    assert spared["calls"] == 3 and len(caplog.records) == 1
    spared["room"] = GIB
    look(found)
    spared["room"] = 0
    found.before_prompt()
    assert len(caplog.records) == 2  # there was enough in between


@pytest.mark.parametrize("gate", [
    Gate(lambda: True, lambda: True), Gate(lambda: False, lambda: False),
])
def test_models_go_to_disk_before_a_prompt_begins_and_not_in_the_middle_of_one(spared, gate):
    look(watch(gate=gate))
    assert spared["calls"] == 0
    watch(gate=gate).before_prompt()
    assert spared["calls"] == 1


def test_an_error_while_room_is_made_never_costs_the_prompt(monkeypatch, caplog, spared):
    def fails(*_):
        raise RuntimeError("unexpected")

    monkeypatch.setattr(watch_module, "spare_ram", fails)
    watch().before_prompt()
    assert "room could not be made" in caplog.text


def test_an_error_before_a_node_that_loads_never_costs_the_prompt(monkeypatch, caplog):
    monkeypatch.setattr(watch_module, "loading_nodes", lambda prompt: frozenset(prompt))
    monkeypatch.setattr(watch_module, "load_bytes", lambda *_: 1 / 0)
    found = watch(prompts=[{"1": "Load"}])
    found.before_prompt()
    found.before_node("p", "1")
    assert "no room in RAM is made before a node" in caplog.text


class Amid:
    """Whether a prompt runs, at each look; notes how long the thread would wait."""

    def __init__(self, *runs):
        self.runs, self.waited = list(runs), []

    def wait(self, seconds):
        self.waited.append(seconds)
        if not self.runs:
            raise EOFError
        return self.runs.pop(0)


@pytest.mark.parametrize("room_gib, fell_gib, seconds", [
    (5, 0, 0.25), (5, 1, 0.25), (5, 3, 0.05), (12, 3, 1.0), (20, 11, 0.05),
])
def test_while_a_prompt_runs_ram_is_read_more_often_once_its_end_is_foreseen(
    monkeypatch, spared, room_gib, fell_gib, seconds
):
    waited, now = [], [0.0]
    monkeypatch.setattr(watch_module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(watch_module, "ram_total_bytes", lambda: 24 * GIB)
    event = SimpleNamespace(wait=waited.append, set=lambda: None)
    monkeypatch.setattr(watch_module, "threading", SimpleNamespace(Event=lambda: event))
    found = watch()
    for now[0], left_gib in ((0.0, room_gib), (1.0, room_gib - fell_gib)):
        spared["room"] = left_gib * GIB
        found.look_amid()
    found._amid = Amid(True)
    with pytest.raises(EOFError):  # there is no third look
        found._wait()
    assert waited == [seconds]


@pytest.mark.parametrize("is_amid", [True, False])
def test_an_error_while_ram_is_read_is_logged_once_and_the_next_reading_comes(
    monkeypatch, spared, caplog, is_amid
):
    """For instance while this process has too many open files."""
    looks = []

    def read():
        looks.append(1)
        if len(looks) < 3:
            raise OSError("too many open files")
        return GIB

    monkeypatch.setattr(watch_module, "AMID_SECONDS", 0.0)
    monkeypatch.setattr(watch_module, "NEAR_SECONDS", 0.0)
    monkeypatch.setattr(watch_module, "ram_room_bytes", read)
    found = watch()
    found._amid = Amid(*[is_amid] * 3)
    with pytest.raises(EOFError):
        found._wait()
    assert len(looks) == 3 and len(caplog.records) == 1


def test_an_idle_server_is_looked_at_seldom_and_before_its_first_prompt_never(monkeypatch, spared):
    monkeypatch.setattr(watch_module, "AMID_SECONDS", 0.0)
    found, spared["room"] = watch(), GIB
    found._amid = amid = Amid(True, True, False, False)
    with pytest.raises(EOFError):
        found._wait()
    assert amid.waited == [None, 0.0, 0.0, 10.0, 10.0]
