"""Models go to disk before RAM ends: when it is short, which models, and what it meets."""

import asyncio
import logging

import pytest
import torch

from headroom.actions import spare_ram as spare_module
from headroom.actions.mapping import DiskRefused
from headroom.actions.spare_ram import spare_ram
from headroom.api import ram_watch as watch_module
from headroom.api.gate import Gate
from headroom.api.ram_watch import VARIABLE, RamWatch
from headroom.base import environment
from headroom.base.device import MIB

GIB = 2**30


# ---------------------------------------------------- which models go


class Patcher:
    load_device = offload_device = torch.device("cpu")

    def __init__(self, mib, name, dynamic=False):
        self.model = torch.nn.Module()
        self.model.weight = torch.nn.Parameter(torch.zeros(int(mib * MIB), dtype=torch.uint8),
                                               requires_grad=False)
        self.name, self.dynamic = name, dynamic

    def is_clone(self, other):
        return self is other


class Entry:
    def __init__(self, patcher, mib_on_gpu):
        self.model, self.mib = patcher, mib_on_gpu


class Host:
    def __init__(self, patchers):
        self.patchers, self.entries = patchers, []

    def living_patchers(self):
        return self.patchers

    def loaded_entries(self):
        return self.entries

    def same_weights(self, one, other):
        return one.model is other.model

    def is_dynamic(self, patcher):
        return patcher.dynamic


class Report:
    headline = "moved"


@pytest.fixture
def ram(monkeypatch):
    """RAM of 100 MiB beside the models; each that is offloaded gives back what it took."""
    state = {"room": 0, "moved": [], "refuses": {}}

    def offload(patcher, scope, to):
        assert (scope, to) == ("this model", "disk")
        if patcher.name in state["refuses"]:
            raise state["refuses"][patcher.name]
        state["moved"].append(patcher.name)
        state["room"] += patcher.model.weight.nbytes
        return Report()

    monkeypatch.setattr(spare_module, "offload", offload)
    monkeypatch.setattr(spare_module, "room_bytes", lambda: state["room"])
    return state


def with_host(monkeypatch, *patchers):
    host = Host(list(patchers))
    monkeypatch.setattr(spare_module, "current_host", lambda: host)
    monkeypatch.setattr(spare_module, "loaded_bytes", lambda entry: entry.mib)
    return host


def test_the_largest_go_first_and_no_more_than_needed(monkeypatch, ram):
    with_host(monkeypatch, Patcher(1, "a"), Patcher(3, "b"), Patcher(2, "c"))
    spared = spare_ram(4 * MIB, lambda patcher: False)
    assert ram["moved"] == ["b", "c"] and spared.count == 2
    assert spared.moved_bytes == 5 * MIB


def test_what_the_queue_uses_stays_and_so_does_what_is_on_the_gpu_or_mapped_by_the_host(
    monkeypatch, ram
):
    used, loaded, mapped = Patcher(1, "used"), Patcher(1, "loaded"), Patcher(1, "mapped", True)
    host = with_host(monkeypatch, used, loaded, mapped, Patcher(1, "idle"))
    host.entries = [Entry(loaded, 1)]
    spare_ram(GIB, lambda patcher: patcher is used)
    assert ram["moved"] == ["idle"]


def test_a_model_of_several_patchers_goes_once_and_stays_when_one_of_them_is_used(monkeypatch, ram):
    one, two = Patcher(1, "one"), Patcher(1, "two")
    two.model = one.model
    with_host(monkeypatch, one, two)
    spare_ram(GIB, lambda patcher: patcher is two)
    assert ram["moved"] == []
    spare_ram(GIB, lambda patcher: False)
    assert len(ram["moved"]) == 1


def test_models_of_which_it_is_not_known_go_last_and_the_one_loaded_last_at_the_end(
    monkeypatch, ram
):
    models = [Patcher(9, "now"), Patcher(5, "before"), Patcher(1, "known"), Patcher(1, "long ago")]
    host = with_host(monkeypatch, *models)
    host.entries = [Entry(model, 0) for model in models[:2]]
    spare_ram(ram["room"] + 4 * MIB, lambda patcher: None if patcher.name != "known" else False)
    assert ram["moved"] == ["known", "long ago", "before"]
    spare_ram(GIB, lambda patcher: None)
    assert ram["moved"][-1] == "now"


def test_a_model_that_cannot_be_mapped_is_passed_over_and_a_full_disk_ends_it(monkeypatch, ram):
    with_host(monkeypatch, Patcher(3, "odd"), Patcher(2, "full"), Patcher(1, "last"))
    ram["refuses"] = {"odd": ValueError("odd weights"), "full": DiskRefused("no room on disk")}
    spared = spare_ram(GIB, lambda patcher: False)
    assert ram["moved"] == [] and spared.refusal == "no room on disk"


# ---------------------------------------------------- when


@pytest.fixture
def spared(monkeypatch):
    """Calls of spare_ram, with how much RAM there is."""
    state = {"room": 0, "calls": 0, "count": 1}
    environment._told.clear()

    def spare(wanted_bytes, is_used):
        state["calls"] += 1
        return spare_module.Spared(state["count"], 512 * MIB, "")

    monkeypatch.setattr(watch_module, "spare_ram", spare)
    monkeypatch.setattr(watch_module, "room_bytes", lambda: state["room"])
    return state


def watch(value="1000", gate=None, prompts=()):
    gate = gate or Gate(lambda: False, lambda: True)
    return RamWatch(gate, None, lambda: list(prompts), {VARIABLE: value})


def look(found):
    asyncio.run(found.look())


def test_it_is_off_unless_asked_for_and_then_reads_nothing(monkeypatch, spared):
    monkeypatch.setattr(watch_module, "room_bytes", lambda: pytest.fail("it looked"))
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


# ---------------------------------------------------- what the queue uses


class Files:
    def __init__(self, **files):
        self.files = files

    def source_files(self, patcher):
        return self.files.get(patcher, [])


def test_a_model_is_used_when_a_prompt_of_the_queue_names_its_file(monkeypatch, tmp_path):
    named, other = tmp_path / "named.safetensors", tmp_path / "other.safetensors"
    monkeypatch.setattr(watch_module, "current_host", lambda: Files(one=[named], two=[other]))
    monkeypatch.setattr(watch_module, "files_of_values", lambda lookup, values: [named])
    monkeypatch.setattr(watch_module, "host_lookup", lambda: None)
    is_used = watch_module.used_by([{"1": {"inputs": {"name": "named.safetensors"}}}])
    assert [is_used(name) for name in ("one", "two", "unknown")] == [True, False, None]
    assert not watch_module.used_by([])("unknown")
