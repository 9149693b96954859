"""When models go to disk for want of RAM, what is said of it, and which the queue still uses."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from headroom.actions.spare_ram import Spared
from headroom.api import ram_watch as watch_module
from headroom.api.gate import Gate
from headroom.api.ram_watch import VARIABLE, RamWatch
from headroom.base import environment
from headroom.base.device import MIB

GIB = 2**30


@pytest.fixture
def spared(monkeypatch):
    """Calls of spare_ram, with how much RAM there is."""
    state = {"room": 0, "calls": 0, "count": 1}
    environment._told.clear()

    def spare(wanted_bytes, is_used):
        state["calls"] += 1
        return Spared(state["count"], 512 * MIB, "")

    monkeypatch.setattr(watch_module, "spare_ram", spare)
    monkeypatch.setattr(watch_module, "ram_room_bytes", lambda: state["room"])
    return state


def watch(value="1000", gate=None, prompts=()):
    gate = gate or Gate(lambda: False, lambda: True)
    return RamWatch(gate, None, lambda: list(prompts), {VARIABLE: value})


def look(found):
    asyncio.run(found.look())


def test_it_is_off_unless_asked_for_and_then_reads_nothing(monkeypatch, spared):
    monkeypatch.setattr(watch_module, "ram_room_bytes", lambda: pytest.fail("it looked"))
    for value in ("", "0", "many"):
        found = watch(value)
        found.start()
        found.before_prompt()
        look(found)
    assert spared["calls"] == 0


def test_a_wrong_word_is_told_once(caplog, spared):
    watch("many")
    watch("many")
    [record] = caplog.records
    assert "HEADROOM_RAM_FREE_MIB to be a whole number of MiB" in record.getMessage()


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
        "[Headroom] 200.0 MiB of RAM were left, HEADROOM_RAM_FREE_MIB asks for 1,000.0 MiB: "
        "512.0 MiB of 1 idle model went to disk, 200.0 MiB are left now"
    )


def test_where_nothing_can_go_it_is_tried_once_a_prompt_and_said_once(caplog, spared):
    caplog.set_level(logging.INFO)
    spared["count"] = 0
    found = watch()
    for _ in range(3):
        look(found)
    assert spared["calls"] == 1 and len(caplog.records) == 1
    assert "no idle model is left to go" in caplog.text
    found.before_prompt()
    found.something_happens()
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
def test_nothing_goes_in_the_middle_of_a_prompt(spared, gate):
    look(watch(gate=gate))
    assert spared["calls"] == 0


def test_before_a_prompt_begins_there_is_a_moment_for_it(spared):
    watch(gate=Gate(lambda: True, lambda: False)).before_prompt()
    assert spared["calls"] == 1


def test_an_error_in_it_never_costs_the_prompt(monkeypatch, caplog, spared):
    def fails(*_):
        raise RuntimeError("unexpected")

    monkeypatch.setattr(watch_module, "spare_ram", fails)
    watch().before_prompt()
    assert "models could not go to disk" in caplog.text


class Files:
    def __init__(self, **files):
        self.files = files

    def source_files(self, patcher):
        return self.files.get(patcher, [])


def test_a_model_is_used_when_a_prompt_of_the_queue_names_its_file(monkeypatch, tmp_path):
    named, other = tmp_path / "named.safetensors", tmp_path / "other.safetensors"
    monkeypatch.setattr(watch_module, "current_host", lambda: Files(one=[named], two=[other]))
    files = {"named.safetensors": [named]}
    monkeypatch.setattr(watch_module, "host_registry", lambda: SimpleNamespace(
        files_named=lambda name: files.get(name, [])))
    is_used = watch_module.used_by([
        {"1": {"class_type": "Load", "inputs": {"name": "named.safetensors"}}}])
    assert [is_used(name) for name in ("one", "two", "unknown")] == [True, False, None]
    assert not watch_module.used_by([])("unknown")
