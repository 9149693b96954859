"""Where OOM Guard is advised after a prompt that ran out of memory."""

import pytest
from support.advice import case, step

from headroom.advise.advise import advise, advise_into


@pytest.mark.parametrize(("failed", "advised"), [("4", False), ("3", True), ("8", True)])
def test_no_guard_is_advised_for_a_node_that_stands_before_all_guards(failed, advised):
    """With --gpu-only a loader puts its model on the GPU; a guard can only stand behind it."""
    found = case([step(failed, 1900, {}, status="failed")],
                 failure={"node_id": failed, "asked_mib": 512.0})
    assert ("oom_guard" in {one.kind for one in advise(found)}) is advised
    told = {one.kind for one, _ in advise_into(found, 1024 << 20, 32 << 20)}
    assert ("oom_guard" in told) is advised


def test_no_guard_is_advised_for_a_node_where_a_guard_gave_up():
    """Others of its prompt have none, but they did not fail."""
    found = case([step("3", 1900, {}, status="failed")], failure={
        "node_id": "3", "asked_mib": None, "error": "OomGuardError: OOM Guard could not finish"})
    assert "oom_guard" not in {one.kind for one in advise(found)}
