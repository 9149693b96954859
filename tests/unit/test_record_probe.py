"""Memory is measured where it matters, and measuring never costs more than its share."""

import pytest

from headroom import record_probe
from headroom.record_probe import STALE_SECONDS, Probe


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def probe(clock, monkeypatch):
    """A probe whose every measurement takes `cost` seconds and is counted."""
    monkeypatch.setattr(record_probe, "used_devices", list)

    def read():
        probe.count += 1
        clock.now += probe.cost
        return probe.count

    probe = Probe(clock)
    probe._read_rss = read
    probe.count, probe.cost = 0, 0.00003
    probe.begin_run()
    probe.count = 0
    return probe


def pass_time(clock, seconds):
    clock.now += seconds


def test_a_few_short_nodes_are_all_measured(probe, clock):
    for _ in range(8):
        pass_time(clock, 0.0001)
        assert probe.reading().measured


def test_many_trivial_nodes_cost_less_than_one_percent(probe, clock):
    began = clock.now
    for _ in range(400):
        pass_time(clock, 0.0008)
        probe.reading()
    assert probe.count * probe.cost < 0.01 * (clock.now - began)
    assert probe.count > 10


def test_figures_are_never_older_than_five_milliseconds(probe, clock):
    probe.cost = 0.002
    last_measured = clock.now
    for _ in range(500):
        pass_time(clock, 0.0007)
        at = clock.now
        if probe.reading().measured:
            last_measured = at
        assert at - last_measured <= STALE_SECONDS


def test_the_end_of_a_long_node_is_measured_even_right_after_the_thread_has_looked(probe, clock):
    probe.cost = 0.002
    probe.reading()
    for _ in range(10):
        pass_time(clock, 0.01)
        probe.measured()
    pass_time(clock, 0.0001)
    assert probe.reading().measured
    pass_time(clock, 0.0001)
    assert not probe.reading().measured


def test_memory_that_has_just_been_moved_is_measured(probe, clock):
    probe.cost = 0.002
    probe.reading()
    pass_time(clock, 0.0001)
    assert not probe.reading().measured
    probe.expire()
    assert probe.reading().measured


def test_the_time_of_a_reading_is_exact_even_when_its_figures_are_used_again(probe, clock):
    probe.cost = 0.002
    first = probe.reading()
    pass_time(clock, 0.0001)
    again = probe.reading()
    assert again.at == clock.now and again.rss_bytes == first.rss_bytes


def test_a_cpu_server_has_no_vram_and_says_so(probe):
    assert probe.begin_run().device == "cpu"
    assert probe.measured().vram_bytes is None


def test_rss_is_what_the_system_says():
    import psutil

    told = psutil.Process().memory_info().rss
    assert abs(record_probe.rss_reader()() - told) < 0.2 * told
