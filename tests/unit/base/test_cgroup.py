"""The tightest memory limit on this process, as a container or service sets it."""

import pytest

from headroom.base.cgroup import GroupMemory, cgroup_memory

GIB = 2**30


def tree(root, groups, **files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def test_the_limit_of_a_container_is_at_the_top_of_its_own_tree(tmp_path):
    root = tree(tmp_path, "0::/\n", memory_dot_max=8 * GIB, memory_dot_current=GIB)
    assert cgroup_memory(root) == GroupMemory(8 * GIB, GIB)


def test_a_limit_further_up_counts_when_less_is_left_there(tmp_path):
    root = tree(tmp_path, "0::/system/comfyui.service\n",
                system__memory_dot_max=4 * GIB, system__memory_dot_current=3 * GIB,
                **{"system__comfyui.service__memory_dot_max": 16 * GIB,
                   "system__comfyui.service__memory_dot_current": GIB})
    assert cgroup_memory(root) == GroupMemory(4 * GIB, 3 * GIB)


def test_version_1_has_other_names_and_a_huge_number_for_no_limit(tmp_path):
    names = dict(memory__docker__memory_dot_limit_in_bytes=2 * GIB,
                 memory__docker__memory_dot_usage_in_bytes=GIB,
                 memory__memory_dot_limit_in_bytes=2**63 - 4096,
                 memory__memory_dot_usage_in_bytes=7 * GIB)
    root = tree(tmp_path, "11:cpu,cpuacct:/docker\n9:memory:/docker\n", **names)
    assert cgroup_memory(root) == GroupMemory(2 * GIB, GIB)


def test_the_path_of_a_group_outside_of_the_container_is_not_there(tmp_path):
    root = tree(tmp_path, "0::/kubepods/pod7/abc\n", memory_dot_max=GIB, memory_dot_current=5)
    assert cgroup_memory(root) == GroupMemory(GIB, 5)


@pytest.mark.parametrize(("limit", "used"), [("max", 5), ("", 5), ("many", 5), (5, "x")])
def test_no_limit_and_unreadable_ones_are_none(tmp_path, limit, used):
    root = tree(tmp_path, "0::/\n", memory_dot_max=limit, memory_dot_current=used)
    assert cgroup_memory(root) is None


def test_a_system_without_groups_has_no_limit(tmp_path):
    assert cgroup_memory(tmp_path) is None
