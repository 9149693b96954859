"""The tightest memory limit on this process, as a container or service sets it."""

import pytest
from support.cgroups import group

from headroom.base.cgroup import GroupMemory, cgroup_memory, cgroup_room

GIB = 2**30


def test_the_limit_of_a_container_is_at_the_top_of_its_own_tree(tmp_path):
    root = group(tmp_path, memory_max=8 * GIB, memory_current=GIB)
    assert cgroup_memory(root) == GroupMemory(8 * GIB, GIB)


def test_a_limit_further_up_counts_when_less_is_left_there(tmp_path):
    groups = "0::/system/comfyui.service\n"
    group(tmp_path, groups, "system", memory_max=4 * GIB, memory_current=3 * GIB)
    root = group(tmp_path, groups, "system/comfyui.service", memory_max=16 * GIB,
                 memory_current=GIB)
    assert cgroup_memory(root) == GroupMemory(4 * GIB, 3 * GIB)


def test_version_1_has_other_names_and_a_huge_number_for_no_limit(tmp_path):
    groups = "11:cpu,cpuacct:/docker\n9:memory:/docker\n"
    group(tmp_path, groups, "memory/docker", memory_limit_in_bytes=2 * GIB,
          memory_usage_in_bytes=GIB)
    root = group(tmp_path, groups, "memory", memory_limit_in_bytes=2**63 - 4096,
                 memory_usage_in_bytes=7 * GIB)
    assert cgroup_memory(root) == GroupMemory(2 * GIB, GIB)


def test_the_path_of_a_group_outside_of_the_container_is_not_there(tmp_path):
    root = group(tmp_path, "0::/kubepods/pod7/abc\n", memory_max=GIB, memory_current=5)
    assert cgroup_memory(root) == GroupMemory(GIB, 5)


@pytest.mark.parametrize(("limit", "used"), [("max", 5), ("", 5), ("many", 5), (5, "x")])
def test_no_limit_and_unreadable_ones_are_none(tmp_path, limit, used):
    root = group(tmp_path, memory_max=limit, memory_current=used)
    assert cgroup_memory(root) is None


def test_a_system_without_groups_has_no_limit(tmp_path):
    assert cgroup_memory(tmp_path) is None


# ---------------------------------------------------------------- the room in it


FULL = {"memory_max": 8 * GIB, "memory_current": 7 * GIB}


def test_pages_of_files_that_the_kernel_can_drop_are_room_in_a_group(tmp_path):
    stat = f"anon {GIB}\ninactive_file {4 * GIB}\nactive_file {GIB}\nfile {6 * GIB}\n"
    assert cgroup_room(group(tmp_path, **FULL, memory_stat=stat)) == 6 * GIB


@pytest.mark.parametrize("stat", [None, "", "inactive_file many\n", "no figures here\n"])
def test_a_group_that_tells_nothing_of_its_pages_has_what_its_limit_leaves(tmp_path, stat):
    files = FULL if stat is None else {**FULL, "memory_stat": stat}
    assert cgroup_room(group(tmp_path, **files)) == GIB


def test_version_1_tells_of_the_whole_tree_below(tmp_path):
    stat = f"inactive_file 1\ntotal_inactive_file {GIB}"
    group(tmp_path, "9:memory:/\n", "memory", memory_limit_in_bytes=4 * GIB,
          memory_usage_in_bytes=3 * GIB, memory_stat=stat)
    assert cgroup_room(tmp_path) == 2 * GIB
