"""How much RAM is left: on the machine, and below the limit of the process's group."""

import os
from types import SimpleNamespace

import pytest
from support.cgroups import group

from headroom.base import ram
from headroom.base.ram import ram_room_bytes, swap_room_bytes

GIB = 2**30
FULL = {"memory_max": 8 * GIB, "memory_current": 7 * GIB}


def test_the_tighter_of_machine_and_group_counts(tmp_path, monkeypatch):
    class Machine:
        available = 3 * GIB

    monkeypatch.setattr("headroom.base.ram.psutil.virtual_memory", lambda: Machine)
    assert ram_room_bytes(tmp_path) == 3 * GIB
    assert ram_room_bytes(group(tmp_path, **FULL)) == GIB


def test_swap_that_a_group_may_not_take_is_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(ram, "swap_bytes", lambda: (GIB, 9 * GIB))
    monkeypatch.setattr(ram, "sys", SimpleNamespace(platform="linux"))
    top = group(tmp_path, **FULL) / "sys/fs/cgroup"
    assert swap_room_bytes(tmp_path) == 8 * GIB
    (top / "memory.swap.current").write_text(f"{GIB}\n")
    for limit, left in (("max", 8 * GIB), (3 * GIB, 2 * GIB), (0, 0)):
        (top / "memory.swap.max").write_text(f"{limit}\n")
        assert swap_room_bytes(tmp_path) == left


@pytest.mark.parametrize("figures, left_gib", [
    ("3000 900 1000 0 1000 0 0 0", 4 + 4),  # a third of the bytes that are stored
    ("0 0 4096 0 4096 0 0 0", 4), ("3000 3000 3100 0 3100", 4), (None, 4),
])
def test_swap_that_is_compressed_into_ram_is_room_only_for_what_it_saves(
    tmp_path, monkeypatch, figures, left_gib
):
    """Fedora, Pop!_OS, SteamOS and others have such swap (zram), mostly no other."""
    monkeypatch.setattr(ram, "swap_bytes", lambda: (2 * GIB, 12 * GIB))
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/swaps").write_text(
        "Filename\tType\tSize\tUsed\tPriority\n"
        f"/swap.img file {4 * 2**20} 0 -2\n/dev/zram1 partition {8 * 2**20} {2 * 2**20} 100\n")
    if figures is not None:
        (tmp_path / "sys/block/zram1").mkdir(parents=True)
        (tmp_path / "sys/block/zram1/mm_stat").write_text(f"{figures}\n")
    assert swap_room_bytes(tmp_path) == left_gib * GIB


def test_below_a_limit_of_version_1_no_swap_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(ram, "swap_bytes", lambda: (GIB, 9 * GIB))
    group(tmp_path, "9:memory:/\n", "memory", memory_limit_in_bytes=4 * GIB,
          memory_usage_in_bytes=GIB)
    assert swap_room_bytes(tmp_path) == 0


def test_a_mac_has_swap_while_its_disk_has_room_and_a_system_that_does_not_tell_has_none(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(ram, "swap_bytes", lambda: (None, None))
    monkeypatch.setattr(ram, "sys", SimpleNamespace(platform="win32"))
    assert swap_room_bytes(tmp_path) == 0
    monkeypatch.setattr(ram, "sys", SimpleNamespace(platform="darwin"))
    monkeypatch.setattr(ram.shutil, "disk_usage", lambda _: SimpleNamespace(free=5 * GIB))
    assert swap_room_bytes(tmp_path) == 5 * GIB


def test_a_folder_in_ram_is_known_by_the_type_of_its_mount(tmp_path):
    device = tmp_path.stat().st_dev
    number, other = f"{os.major(device)}:{os.minor(device)}", "0:99999"
    (tmp_path / "proc/self").mkdir(parents=True)
    for one, kind, answer in ((number, "tmpfs", True), (number, "ext4", False),
                              (other, "tmpfs", False)):
        (tmp_path / "proc/self/mountinfo").write_text(
            f"22 1 {other} / / rw - overlay overlay rw\n"
            f"36 22 {one} /sub /a\\040folder rw,nosuid shared:15 - {kind} none rw,size=9k\n")
        assert ram.is_ram_disk(tmp_path, tmp_path) == answer
    assert not ram.is_ram_disk(tmp_path, tmp_path / "nowhere")
    assert not ram.is_ram_disk(tmp_path / "gone")
