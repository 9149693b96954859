"""Memory is measured where it matters, and measuring never costs more than its share."""

import pytest

from headroom.record import probe as record_probe
from headroom.record.probe import CREDIT_SECONDS, SHORT_SECONDS, Probe


def is_measured(told):
    at, memory = told
    return memory.at >= at


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
    events = []
    tell = probe.teller(events.append, "starts")

    def tell_of_a_node():
        tell("1", None, "p")
        assert events[-1][:3] == ("starts", "1", "p")
        return events[-1][3:]

    probe.glance = tell_of_a_node
    return probe


def pass_time(clock, seconds):
    clock.now += seconds


def test_a_few_short_nodes_are_all_measured(probe, clock):
    for _ in range(3):
        pass_time(clock, 0.0001)
        assert is_measured(probe.glance())


def test_for_many_trivial_nodes_measuring_costs_a_two_thousandth_of_the_time(probe, clock):
    began = clock.now
    for _ in range(4000):
        pass_time(clock, 0.0008)
        probe.glance()
    spent = probe.count * probe.cost
    assert spent < CREDIT_SECONDS + 0.00055 * (clock.now - began)
    assert probe.count > 25


def test_the_credit_for_measuring_is_earned_again_while_long_nodes_run(probe, clock):
    for _ in range(100):
        pass_time(clock, 0.0001)
        probe.glance()
    assert not is_measured(probe.glance())
    pass_time(clock, 1.0)
    for _ in range(10):
        pass_time(clock, 0.0001)
        assert is_measured(probe.glance())


def test_whatever_takes_longer_than_five_milliseconds_is_measured_as_it_ends(probe, clock):
    probe.cost = 0.002
    for _ in range(50):
        pass_time(clock, 0.0001)
        probe.glance()
        pass_time(clock, SHORT_SECONDS * 1.1)
        assert is_measured(probe.glance())


def test_the_end_of_a_long_node_is_measured_even_right_after_the_thread_has_looked(probe, clock):
    probe.cost = 0.002
    probe.glance()
    for _ in range(10):
        pass_time(clock, 0.01)
        probe.measured()
    pass_time(clock, 0.0001)
    assert is_measured(probe.glance())
    pass_time(clock, 0.0001)
    assert not is_measured(probe.glance())


def test_memory_that_has_just_been_moved_is_measured(probe, clock):
    probe.cost = 0.002
    probe.glance()
    pass_time(clock, 0.0001)
    assert not is_measured(probe.glance())
    probe.expire()
    assert is_measured(probe.glance())


def test_the_time_of_a_reading_is_exact_even_when_its_figures_are_used_again(probe, clock):
    probe.cost = 0.002
    probe.glance()
    _, first = probe.glance()
    pass_time(clock, 0.0001)
    at, memory = probe.glance()
    assert at == clock.now and memory is first


def test_a_cpu_server_has_no_vram_and_says_so(probe):
    assert probe.begin_run().device == "cpu"
    assert probe.measured().vram_bytes is None


def test_rss_is_what_the_system_says():
    import psutil

    told = psutil.Process().memory_info().rss
    assert abs(record_probe.rss_reader()() - told) < 0.2 * told


def test_memory_that_cannot_be_read_does_not_end_the_prompt(probe, clock, caplog):
    _, last = probe.glance()

    def fails():
        probe.count += 1
        raise OSError("no /proc here")

    probe._read_rss = fails
    probe.count = 0
    pass_time(clock, 1.0)
    for _ in range(100):
        pass_time(clock, 0.001)
        at, memory = probe.glance()
    assert at == clock.now and memory is last
    assert probe.count == 1 and "the prompt goes on" in caplog.text
