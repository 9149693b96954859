"""Every device is measured, and the one with the least room is found."""

from types import SimpleNamespace

from headroom.api.memory_now import memory_answer
from headroom.base import ram
from headroom.base.cgroup import GroupMemory
from headroom.base.device import MIB, mib_text
from headroom.measure.report import Report, difference_table
from headroom.measure.snapshot import DeviceMemory, Snapshot, freed_mib, snapshot


def device(name, free, **changes):
    figures = dict(device=name, name="A card", total_bytes=8000 * MIB, driver_free_bytes=free * MIB,
                   allocated_bytes=1000 * MIB, reserved_bytes=1000 * MIB, dynamic_bytes=None)
    return DeviceMemory(**{**figures, **changes})


def least(*devices):
    return Snapshot(devices, 0, 0).least_room_bytes


def test_the_fullest_device_decides_wherever_it_stands():
    first, second = device("cuda:0", 7000), device("cuda:1", 356)
    assert least(first, second) == least(second, first) == 356 * MIB


def test_memory_that_torch_or_dynamic_vram_would_give_up_is_room():
    cached = device("cuda:0", 100, allocated_bytes=0)
    pages = device("cuda:1", 200, dynamic_bytes=3000 * MIB)
    assert (cached.room_bytes, pages.room_bytes) == (1100 * MIB, 3200 * MIB)
    assert least(cached, pages, device("cuda:2", 1000)) == 1000 * MIB


def test_a_device_that_this_process_does_not_use_decides_nothing():
    others = device("cuda:1", 10, in_use=False, allocated_bytes=0, reserved_bytes=0)
    assert least(device("cuda:0", 7000), others) == 7000 * MIB


def test_without_a_figure_there_is_no_such_device():
    assert least() is None and least(device("cuda:0", 0, driver_free_bytes=None)) is None


def test_changes_of_others_on_an_unused_device_are_not_reported_as_freed():
    own = device("cuda:0", 1000, reserved_bytes=3000 * MIB), device("cuda:0", 3000)
    before, after = (
        Snapshot((mine, device("cuda:1", free, in_use=False)), 0, 0)
        for mine, free in zip(own, (100, 7000), strict=True)
    )
    assert freed_mib(before, after) == 2000
    text = Report("headline", (), before, after).text
    assert "cuda:1 (A card), not in use by this process" in text
    assert text.count("driver free") == 2 and text.count("torch reserved") == 1


def test_a_little_less_is_written_as_nothing_and_never_as_minus_nothing():
    before, after = Snapshot((), 5 * MIB, 0), Snapshot((), 5 * MIB - 20_000, 0)
    assert "(+0.0)" in difference_table(before, after)[-1] and mib_text(-20_000) == "0.0 MiB"
    assert "(-1.0)" in difference_table(before, Snapshot((), 4 * MIB, 0))[-1]


def test_in_a_container_ram_is_what_its_limit_leaves(monkeypatch):
    """Not the machine's 64 GiB, of which most are free."""
    machine = SimpleNamespace(total=64 * 2**30, available=50 * 2**30)
    monkeypatch.setattr(ram.psutil, "virtual_memory", lambda: machine)
    monkeypatch.setattr(ram, "cgroup_room", lambda _: 2 * 2**30)
    monkeypatch.setattr(ram, "cgroup_memory", lambda: GroupMemory(8 * 2**30, 6 * 2**30))
    told = memory_answer(snapshot(), [], busy=False)["ram"]
    assert (told["available_mib"], told["total_mib"]) == (2048, 8192)
