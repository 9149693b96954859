"""Move to CPU on structures that break a walk: very deep, in circles, and hostile."""

import dataclasses
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headroom.actions.to_cpu import to_cpu

Pair = namedtuple("Pair", "left right")
DEPTH = 20_000


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


WRAPS = {
    "list": lambda item: [item],
    "tuple": lambda item: (item,),
    "namedtuple": lambda item: Pair(1, item),
    "dict": lambda item: {"key": item},
    "OrderedDict": lambda item: OrderedDict(key=item),
    "deque": lambda item: deque([item]),
    "dataclass": Box,
    "frozen dataclass": FrozenBox,
}


def inner(value):
    """The one item of a container made by WRAPS."""
    if isinstance(value, dict):
        return value["key"]
    return value.item if dataclasses.is_dataclass(value) else value[-1]


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
def test_a_tensor_twenty_thousand_containers_deep_is_moved(wrap):
    tensor = torch.arange(4.0)[1:3]
    value = tensor
    for _ in range(DEPTH):
        value = wrap(value)
    done = to_cpu(value)
    assert done.tensors == 1 and done.left == [] and DEPTH > 5 * sys.getrecursionlimit()
    found = done.value
    for _ in range(DEPTH):
        assert type(found) is type(value) and found is not value
        value, found = inner(value), inner(found)
    assert torch.equal(found, tensor) and found.untyped_storage().nbytes() == 8


def empty_and_add():
    """Containers that can take in themselves: how each begins, and how it takes an item."""
    def add_to_box(box, item):
        object.__setattr__(box, "item", [*(box.item or []), item])

    array = np.empty(2, dtype=object)
    return {
        "list": ([], list.append, lambda new: new),
        "dict": ({}, lambda box, item: box.__setitem__(len(box), item), lambda new: new.values()),
        "OrderedDict": (OrderedDict(), lambda box, item: box.__setitem__(len(box), item),
                        lambda new: new.values()),
        "defaultdict": (defaultdict(list), lambda box, item: box.__setitem__(len(box), item),
                        lambda new: new.values()),
        "deque": (deque(maxlen=2), deque.append, lambda new: new),
        "array": (array, lambda box, item: box.__setitem__(int(box[0] is not None), item), list),
        "dataclass": (Box(), add_to_box, lambda new: new.item),
        "frozen dataclass": (FrozenBox(), add_to_box, lambda new: new.item),
    }


@pytest.mark.parametrize("name", empty_and_add())
def test_a_container_that_contains_itself_is_rebuilt_around_itself(name):
    box, add, items = empty_and_add()[name]
    tensor = torch.arange(4.0)[1:3]
    add(box, tensor)
    add(box, (box,))
    done = to_cpu(box)
    moved, (itself,) = items(done.value)
    assert itself is done.value and done.value is not box and type(done.value) is type(box)
    assert torch.equal(moved, tensor) and moved is not tensor
    assert done.left == [] and done.tensors == 1
    if isinstance(box, defaultdict):
        assert done.value.default_factory is list


def test_a_circle_without_tensors_or_lists_stays_as_it_is():
    box = Box()
    box.item = (box, OrderedDict(a=box))
    assert to_cpu(box).value is box


def test_tuples_in_a_circle_are_made_in_the_order_in_which_they_need_each_other():
    box = Box()
    outer = ((box, torch.ones(2)), box)
    box.item = (outer, outer[0])
    new = to_cpu(box).value
    assert new.item[0][0] is new.item[1] and new.item[0][1] is new and new.item[1][0] is new
    assert new.item[1][1] is not outer[0][1]


@pytest.mark.parametrize("raises", [Raises, RaisesAlways])
def test_objects_that_raise_at_every_question_pass_through(raises):
    hostile = raises()
    done = to_cpu({"hostile": hostile, "tensor": torch.ones(2)})
    assert done.value["hostile"] is hostile and done.tensors == 1
    assert done.left == [f"value['hostile']: of class {raises.__name__}, passed through as it is"]


def test_a_container_that_cannot_be_copied_passes_through_and_is_named():
    original = [Uncopyable([torch.ones(2)])]
    done = to_cpu(original)
    assert done.value[0] is original[0]
    assert done.left == ["value[0]: of class Uncopyable, passed through as it is"]


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)], ids=str)
def test_tensors_in_numpy_arrays_of_objects_are_moved(shape):
    array = np.empty(shape, dtype=object)
    parts = array.reshape(-1)
    for number in range(parts.size):
        parts[number] = [torch.arange(4.0)[number : number + 1], "text"]
    done = to_cpu(array.T)
    assert done.value.shape == array.T.shape and done.tensors == parts.size and done.left == []
    for old, new in zip(array.T.reshape(-1), done.value.reshape(-1), strict=True):
        assert torch.equal(new[0], old[0]) and new[0].untyped_storage().nbytes() == 4
        assert new[1] == "text"


def test_an_array_of_records_with_objects_is_named():
    records = np.empty(1, dtype=[("tensor", object), ("number", "i4")])
    records["tensor"][0] = torch.ones(2)
    assert to_cpu(records).left == ["value: of class ndarray, passed through as it is"]


def test_long_keys_and_long_ways_are_named_shortly():
    value = Raises()
    for _ in range(1000):
        value = {"k" * 100_000: value}
    (sentence,) = to_cpu(value).left
    assert len(sentence) < 1500 and "[... 987 more ...]" in sentence


# ---------------------------------------------------------------- any structure at all

links = st.lists(st.integers(0, 100), max_size=4)
graphs = st.lists(
    st.tuples(st.sampled_from(["list", "dict", "tuple", "deque", "box", "frozen", "tensor", "text",
                               "set", "array"]), links),
    min_size=1, max_size=12,
)


def build(graph):
    """Objects from a drawn graph; what cannot be changed holds only what was made before it."""
    made = []
    for kind, links in graph:
        earlier = [made[link % len(made)] for link in links] if made else []
        made.append({
            "list": list, "dict": lambda items: dict(enumerate(items)), "tuple": tuple,
            "deque": deque, "box": lambda items: Box(list(items)), "text": lambda items: "text",
            "frozen": lambda items: FrozenBox(tuple(items)), "set": as_set,
            "tensor": lambda items: torch.arange(8.0)[len(items) :], "array": as_array,
        }[kind](earlier))
    for (kind, links), value in zip(graph, made, strict=True):  # now the links that go back
        if kind == "list":
            value.extend(made[link % len(made)] for link in links)
        elif kind == "box":
            value.item.extend(made[link % len(made)] for link in links)
    return made


def as_set(items):
    return {item for item in items if type(item) in (str, torch.Tensor, Box, FrozenBox)}


def as_array(items):
    array = np.empty(len(items), dtype=object)
    for number, item in enumerate(items):
        array[number] = item
    return array


def parts(value):
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (Box, FrozenBox)):
        return [value.item]
    return list(value) if isinstance(value, (list, tuple, deque, np.ndarray)) else []


@settings(deadline=None, database=None, derandomize=True)
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
        elif isinstance(old, set):
            assert len(new) == len(old)
        else:
            work += zip(parts(old), parts(new), strict=True)
    assert len({id(new) for new in new_of.values()}) == len(new_of)
