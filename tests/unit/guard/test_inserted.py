"""A guard that we put into a prompt, not the user: it never ends a prompt that had run without."""

import pytest

from headroom.base.guards import is_inserted
from headroom.guard import guard as guard_node
from headroom.guard.call import GuardOptions

# As written by a rerun; under the prefixes that loops and other expansions give their clones.
OURS = ["headroom-guard-4-0", "11.0.0.headroom-guard-4-0", "11.0.0.11.0.1.headroom-guard-4-0",
        "9:headroom-guard-4-0", "loop_3_headroom-copy-7"]
THEIRS = ["4", "11.0.0.4", "9:12", "guard", "HeadroomOOMGuard"]


@pytest.mark.parametrize("node_id", OURS)
@pytest.mark.parametrize("value", [None, "a text", object(), [1, 2]])
def test_an_inserted_guard_passes_what_it_cannot_guard_in_any_expansion(
    node_id, value, monkeypatch
):
    monkeypatch.setattr(guard_node, "executing_node", lambda: ("prompt", node_id))
    assert guard_node.guard(value, GuardOptions()) is value


@pytest.mark.parametrize("node_id", [*THEIRS, None])
def test_a_guard_of_the_user_says_what_it_expected(node_id, monkeypatch):
    monkeypatch.setattr(guard_node, "executing_node", lambda: ("prompt", node_id))
    with pytest.raises(ValueError, match="OOM Guard expects a MODEL, VAE, CLIP"):
        guard_node.guard(None, GuardOptions())


def test_a_guard_without_an_id_is_not_an_inserted_one():
    assert not is_inserted(None)
