"""Move to CPU on structures that break a walk: very deep, in circles, and hostile."""

import dataclasses
from collections import OrderedDict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.properties import steady

from headroom.actions.to_cpu import to_cpu


@dataclasses.dataclass(eq=False)
class Box:
    item: object = None


@dataclasses.dataclass(frozen=True, eq=False)
class FrozenBox:
    item: object = None


class Raises:
    def __getattr__(self, name):
        raise RuntimeError(f"nobody may ask for {name}")


class RaisesAlways:
    def __getattribute__(self, name):
        raise RuntimeError(f"nobody may ask for {name}")


class Uncopyable(list):
    def __reduce_ex__(self, protocol):
        raise TypeError("cannot be copied")


def test_a_value_that_contains_itself_is_refused_in_one_sentence():
    box = {"tensor": torch.ones(2)}
    box["self"] = [box]
    with pytest.raises(ValueError, match="^Move to CPU cannot follow .* contain themselves"):
        to_cpu(box)
    assert box["self"] == [box] and list(box) == ["tensor", "self"]


def test_values_without_tensors_and_lists_stay_as_they_are():
    box = Box((FrozenBox(1), OrderedDict(a=Box("text"))))
    assert to_cpu(box).value is box


def test_a_value_too_deep_to_follow_is_refused_in_one_sentence():
    value = torch.ones(2)
    for _ in range(100):
        value = [value]
    assert to_cpu(value).tensors == 1
    for _ in range(20_000):
        value = [value]
    with pytest.raises(ValueError, match="^Move to CPU cannot follow .* levels deep") as refused:
        to_cpu(value)
    assert refused.value.__suppress_context__


@pytest.mark.parametrize("raises", [Raises, RaisesAlways])
def test_objects_that_raise_for_every_attribute_pass_through(raises):
    hostile = raises()
    done = to_cpu({"hostile": hostile, "tensor": torch.ones(2)})
    assert done.value["hostile"] is hostile and done.tensors == 1
    assert done.left == [f"{raises.__name__}, passed on unchanged"]


def test_a_container_that_cannot_be_copied_passes_through_and_is_named():
    original = [Uncopyable([torch.ones(2)])]
    done = to_cpu(original)
    assert done.value[0] is original[0]
    assert done.left == ["Uncopyable, passed on unchanged"]
    assert done.tensors == 0  # nothing in it was moved


# ---------------------------------------------------------------- any structure at all

links = st.lists(st.integers(0, 100), max_size=4)
graphs = st.lists(
    st.tuples(st.sampled_from(["list", "dict", "tuple", "box", "frozen", "tensor", "text"]), links),
    min_size=1, max_size=12,
)


def build(graph):
    """Objects from a drawn graph, each of what was made before it."""
    made = []
    for kind, links in graph:
        earlier = [made[link % len(made)] for link in links] if made else []
        made.append({
            "list": list, "dict": lambda items: dict(enumerate(items)), "tuple": tuple,
            "box": lambda items: Box(list(items)), "text": lambda items: "text",
            "frozen": lambda items: FrozenBox(tuple(items)),
            "tensor": lambda items: torch.arange(8.0)[len(items) :],
        }[kind](earlier))
    return made


def parts(value):
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (Box, FrozenBox)):
        return [value.item]
    return list(value) if isinstance(value, (list, tuple)) else []


@steady
@given(graphs)
def test_any_structure_comes_out_alike_with_every_tensor_replaced_once(graph):
    made = build(graph)
    done = to_cpu(made)
    assert done.left == []
    new_of, work = {}, [(made, done.value)]
    while work:
        old, new = work.pop()
        if id(old) in new_of:
            assert new_of[id(old)] is new
            continue
        new_of[id(old)] = new
        assert type(new) is type(old)
        if isinstance(old, torch.Tensor):
            assert torch.equal(old, new) and new.untyped_storage().nbytes() == new.nbytes
        else:
            work += zip(parts(old), parts(new), strict=True)
    assert len({id(new) for new in new_of.values()}) == len(new_of)
