"""The node OOM Guard: one that we put in never ends a prompt; a ControlNet passes through."""

import pytest
import torch
from support.hosts import GuardHost

from headroom.guard import guard as guard_node
from headroom.guard.call import GuardOptions

# As written by a rerun; under the prefixes that loops and other expansions give their clones.
OURS = ["headroom-guard-4-0", "11.0.0.headroom-guard-4-0", "11.0.0.11.0.1.headroom-guard-4-0",
        "9:headroom-guard-4-0", "loop_3_headroom-copy-7"]
THEIRS = ["4", "11.0.0.4", "9:12", "guard", "HeadroomOOMGuard", "my.headroom.4"]


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


def test_a_model_that_its_own_pack_samples_is_refused_by_the_name_of_its_class(monkeypatch):
    class ModelPatcher:
        model, load_device = torch.nn.Linear(1, 1), torch.device("cpu")

        def is_clone(self, other):
            return False

    monkeypatch.setattr(guard_node, "executing_node", lambda: ("prompt", "4"))
    with pytest.raises(ValueError, match="but got a Linear: connect one of these there"):
        guard_node.guard(ModelPatcher(), GuardOptions())


def test_a_controlnet_comes_out_as_the_very_object_and_the_record_says_where_it_is_guarded(
    monkeypatch
):
    noted = []
    host = GuardHost(wire_type_of=lambda value: "CONTROL_NET")
    monkeypatch.setattr(guard_node, "guard_host", lambda: host)
    monkeypatch.setattr(guard_node, "note_action", lambda *entry: noted.append(entry))
    control = object()
    assert guard_node.guard(control, GuardOptions()) is control
    [(name, freed, text)] = noted
    assert (name, freed) == ("guard", 0.0)
    assert "OOM Guard on the MODEL" in text
