"""What the recorder reads: every device in use; figures that cannot be read stay unknown."""


import psutil
import pytest
import torch

from headroom.base import device as devices
from headroom.host.types import Held, ModelFacts
from headroom.record import probe as record_probe
from headroom.record.memory import Use
from headroom.record.probe import IN_A_ROW, Probe

MIB = 1024 * 1024
FIRST, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)


class Cuda:
    """Stands for `torch.cuda` with two devices; the second is not in use unless said."""

    def __init__(self):
        self.in_use = {FIRST}
        self.resets = []
        self.stats = dict(current=300 * MIB, peak=900 * MIB, allocated=1000 * MIB, freed=700 * MIB)

    def empty_cache(self): ...

    def mem_get_info(self, device):
        return (8000 - 1000 * (1 + device.index)) * MIB, 8000 * MIB

    def memory_stats_as_nested_dict(self, device):
        return {"reserved_bytes": {"all": self.stats}}

    def reset_peak_memory_stats(self, device):
        self.resets.append(device)

    def memory_allocated(self, device):
        return 100 * MIB

    def memory_reserved(self, device):
        return self.stats["current"]

    def get_device_name(self, device):
        return "A card"


@pytest.fixture
def cuda(monkeypatch):
    cuda = Cuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr(devices, "is_in_use", lambda device: device in cuda.in_use)
    monkeypatch.setattr(record_probe, "used_devices", lambda: [FIRST, SECOND])
    return cuda


def begun():
    probe = Probe()
    return probe, probe.begin_run()


def test_every_device_is_read_and_one_not_in_use_is_unknown(cuda):
    probe, names = begun()
    assert names == ("cuda:0", "cuda:1")
    assert probe.measured().devices == (
        Use(1000 * MIB, 300 * MIB, 900 * MIB, 8000 * MIB), Use()
    )
    cuda.in_use.add(SECOND)
    assert probe.measured().devices[1].used_bytes == 2000 * MIB


def test_what_is_loaded_is_read_at_nodes_and_equal_answers_are_one_object(cuda):
    facts = ModelFacts("m1", "VAE", "Net", None, 9)
    probe = Probe(held=lambda: [Held(facts, "cuda:0", 7), Held(facts, "cuda:1", 0)])
    probe.begin_run()
    first, second = probe.at_node()[1].models, probe.at_node()[1].models
    assert first == (Held(facts, "cuda:0", 7),) and second is first


def test_at_a_node_torchs_peaks_begin_again_and_amid_one_they_do_not(cuda):
    probe, _ = begun()
    assert probe.measured().devices[0].counter_bytes == 900 * MIB and cuda.resets == []
    assert probe.at_node()[1].devices[0].counter_bytes == 300 * MIB and cuda.resets == [FIRST]


@pytest.mark.parametrize("change", [-4 * MIB, 4 * MIB])
def test_amid_a_node_what_torch_takes_or_gives_back_between_two_questions_is_its_own(
    cuda, monkeypatch, change
):
    changes = iter([change])

    def mem_get_info(self, device):
        told = (7700 * MIB - self.stats["current"], 8000 * MIB)
        self.stats["current"] += next(changes, 0)
        return told

    monkeypatch.setattr(Cuda, "mem_get_info", mem_get_info)
    probe, _ = begun()
    use = probe.measured().devices[0]
    assert (use.reserved_bytes, use.other_bytes) == (300 * MIB + change, 300 * MIB)


def test_a_node_that_always_takes_memory_and_gives_it_back_keeps_no_reading_waiting(
    cuda, monkeypatch
):
    asked = []

    def mem_get_info(self, device):
        asked.append(device)
        self.stats["current"] += MIB
        return 1000 * MIB, 8000 * MIB

    monkeypatch.setattr(Cuda, "mem_get_info", mem_get_info)
    probe, _ = begun()
    assert probe.measured().devices[0].used_bytes == 7000 * MIB and len(asked) < 10


def test_a_backend_without_statistics_tells_the_reserve_and_no_peak(cuda, monkeypatch):
    monkeypatch.delattr(Cuda, "memory_stats_as_nested_dict")
    probe, _ = begun()
    assert probe.measured().devices[0] == Use(1000 * MIB, 300 * MIB, None, 8000 * MIB)


def test_a_driver_that_does_not_tell_leaves_what_this_process_holds(cuda, monkeypatch):
    monkeypatch.delattr(Cuda, "mem_get_info")
    probe, _ = begun()
    use = probe.measured().devices[0]
    assert (use.used_bytes, use.total_bytes) == (300 * MIB, None)


def test_a_cpu_server_has_no_devices(monkeypatch):
    monkeypatch.setattr(record_probe, "used_devices", list)
    probe, names = begun()
    assert names == () and probe.measured().devices == ()


class Clock:
    """Shows the seconds that it is set to."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clocked(cuda):
    clock = Clock()
    probe = Probe(clock)
    probe.begin_run()
    return probe, clock


def test_a_node_begins_with_what_the_one_before_ended_with_while_that_is_young(cuda, clocked):
    probe, clock = clocked
    _, first = probe.at_node()
    cuda.stats["current"] = 555 * MIB
    clock.now = 100.03
    assert probe.at_node(begins=True) == (100.03, first)
    clock.now = 100.06
    assert probe.at_node(begins=True)[1].devices[0].reserved_bytes == 555 * MIB


def test_amid_a_node_the_reading_at_its_beginning_serves_while_it_is_young(clocked):
    probe, clock = clocked
    assert probe.beside_node() is not probe.beside_node()
    _, first = probe.at_node()
    clock.now += 0.04
    assert probe.beside_node() is first and probe.measured() is not first
    clock.now += 0.02
    assert probe.beside_node().at == clock.now


def test_beside_a_crowd_of_quick_nodes_memory_is_read_as_seldom_as_at_them(clocked):
    probe, clock = clocked
    readings_of(probe, clock, 10, 0.0001)
    last = probe.at_node()[1]
    assert readings_of(probe, clock, 3, 0.03) == 1
    assert probe.beside_node() is last
    clock.now += 0.045  # the last of them takes its time
    assert probe.beside_node().at == clock.now


def readings_of(probe, clock, nodes, seconds):
    """How many of `nodes` nodes that each take `seconds` are measured."""
    seen = set()
    for _ in range(nodes):
        clock.now += seconds
        seen.add(probe.at_node()[1].at)
    return len(seen)


def test_every_node_is_measured_that_takes_its_time_and_of_a_crowd_that_takes_none_a_few(clocked):
    probe, clock = clocked
    assert readings_of(probe, clock, 100, 0.041) == 100
    assert readings_of(probe, clock, IN_A_ROW, 0.0001) == IN_A_ROW
    assert 2 <= readings_of(probe, clock, 1000, 0.0001) <= 4
    assert readings_of(probe, clock, 2, 0.041) == 2
    clock.now += 1
    assert readings_of(probe, clock, IN_A_ROW, 0.0001) == IN_A_ROW


def test_quick_prompts_one_after_the_other_are_no_crowd(clocked):
    probe, clock = clocked
    for _ in range(20):
        probe.begin_run()
        assert readings_of(probe, clock, 2, 0.001) == 2


def test_a_clock_that_jumps_back_stops_no_reading(clocked):
    probe, clock = clocked
    assert readings_of(probe, clock, 20, 0.0001) < 20
    clock.now -= 500
    assert readings_of(probe, clock, 100, 0.06) >= 90


def test_rss_is_what_the_system_says():
    told = psutil.Process().memory_info().rss
    assert abs(Probe().measured().rss_bytes - told) < 0.2 * told


def test_memory_that_cannot_be_read_does_not_end_the_prompt(cuda, caplog, monkeypatch):
    probe, _ = begun()
    monkeypatch.setattr(Cuda, "mem_get_info", lambda self, device: 1 / 0)
    for _ in range(100):
        reading = probe.measured()
    assert reading.rss_bytes is None and reading.devices == (Use(), Use())
    assert caplog.text.count("the prompt goes on") == 1
