"""Whatever is connected to our nodes: they work, or they say in one sentence of ours what is wrong.

A host that does not check inputs itself (0.3.75 does not check the words of a combo, and no host
checks what a socket of any type carries) hands on everything, whatever its class and size.
"""

import math
import re

import numpy as np
import pytest
import torch

import headroom
from headroom.actions.to_cpu import move_to_cpu
from headroom.encode.encode import encode_to_cpu, split_prompts
from headroom.encode.turn import Turn
from headroom.guard.call import GuardOptions
from headroom.guard.guard import guard
from headroom.sizes.work import restore_order, sorted_lists

MAX_CHARACTERS = 600


class Raises:
    def __getattr__(self, name):
        raise RuntimeError(f"nobody may ask for {name}")


class Divides:
    def __getattr__(self, name):
        return 1 / 0


class HasEverything:
    def __getattr__(self, name):
        return self


class RaisesAlways:
    def __getattribute__(self, name):
        raise RuntimeError(f"nobody may ask for {name}")


class Unhashable:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("nobody may compare this")


def deep():
    value = []
    for _ in range(20_000):
        value = [value]
    return value


def circle():
    value = []
    value.append(value)
    return value


BAD = {
    "nothing": None, "true": True, "false": False, "zero": 0, "minus one": -1, "a float": 1.5,
    "nan": math.nan, "infinity": math.inf, "a huge number": 10**40, "complex": 1j,
    "no text": "", "text": "text", "a null character": "\0", "half a surrogate": "\ud800",
    "huge text": "x" * 1_000_000, "many lines": "y\n" * 10_000, "bytes": b"bytes",
    "an empty list": [], "an empty tuple": (), "an empty dict": {}, "a set": {1},
    "nested lists": [[1], ["a", [None]]], "a deep list": deep(), "a list in itself": circle(),
    "a list of nothing": [None], "a list of numbers": [3, 1], "a list of texts": ["a", "b"],
    "a huge list": [0] * 100_000,
    "a generator": (n for n in ()), "a class": dict, "a function": len,
    "an exception": OSError("x"),
    "an object": object(), "a tensor": torch.ones(2), "a number in a tensor": torch.tensor(1),
    "a meta tensor": torch.ones(2, device="meta"), "a sparse tensor": torch.ones(2).to_sparse(),
    "an array": np.ones(2), "an array of objects": np.array([None, "a"], dtype=object),
    "a latent without samples": {"samples": None}, "a latent of text": {"samples": "text"},
    "a module class": torch.nn.Linear, "an empty module": torch.nn.Module(),
    "an object that raises": Raises(), "divides by zero": Divides(),
    "has every attribute": HasEverything(), "an object that always raises": RaisesAlways(),
    "an object that cannot be compared": Unhashable(),
}


def guarded(model, *options):
    return guard(model, GuardOptions(*options))


# For each node: what it calls, the name its sentences begin with, and inputs that are right.
ENTRIES = {
    "Purge VRAM": (headroom.purge, ("all models", None, 0, False, False, 0)),
    "Offload Model": (headroom.offload, (torch.nn.Linear(2, 2), "this model", "CPU")),
    "Offload Model to disk": (headroom.offload, (torch.nn.Linear(2, 2), "this model", "disk")),
    "Cast bf16": (headroom.cast, (torch.nn.Linear(2, 2), "bfloat16", "")),
    "Encode to CPU, split": (split_prompts, ("a prompt", "one prompt")),
    "Encode to CPU": (encode_to_cpu, (None, ["a prompt"], True)),
    "Move to CPU": (move_to_cpu, ([torch.ones(2)],)),
    "Size Sorter": (sorted_lists, (["8x8"], None, ["largest first"], ["keep each size"], [64])),
    "Size Sorter with items": (
        sorted_lists, ([""], [torch.ones(1, 8, 8, 3)], ["largest first"], ["keep each size"], [64])
    ),
    "Restore Order": (restore_order, (["a", "b"], [1, 0])),
    "OOM Guard": (guarded, (None, True, True, True, True, 8)),
}
TAKES_ANYTHING = {("Purge VRAM", 1)}  # its `value` only says when it runs


def refused(call, inputs, name, bad):
    """Whether the call says what is wrong with its inputs, which must be one short sentence."""
    try:
        call(*inputs)
    except (ValueError, TypeError) as error:
        message = str(error)
        node = name.partition(",")[0].removesuffix(" to disk").removesuffix(" with items")
        assert message.startswith(node) and message.endswith("."), (bad, message[:300])
        assert "\n" not in message and len(message) < MAX_CHARACTERS, (bad, message[:300])
        return True
    return False


# A text tells the size of an item, and no bucket is asked for where each size is kept.
TAKES_ANY_ITEM = {("Size Sorter", 1), ("Size Sorter", 4), ("Size Sorter with items", 4)}


@pytest.mark.parametrize(("name", "wrap", "takes_any"), [
    *((name, lambda value: value, TAKES_ANYTHING) for name in ENTRIES),
    *((name, lambda value: [value], TAKES_ANY_ITEM)
      for name in ("Size Sorter", "Size Sorter with items")),
])
def test_each_bad_input_gives_a_result_or_one_short_sentence_and_each_input_refuses_some(
    name, wrap, takes_any
):
    call, good = ENTRIES[name]
    for place in range(len(good)):
        found = [bad for bad, value in BAD.items()
                 if refused(call, [*good[:place], wrap(value), *good[place + 1 :]], name, bad)]
        assert bool(found) == ((name, place) not in takes_any), (place, found)


@pytest.mark.parametrize(("act", "message"), [
    (lambda: headroom.purge("everything"),
     "Purge VRAM expects unload = 'all models', 'all but keep' or 'no models', but got "
     "'everything'."),
    (lambda: headroom.offload(None, scope="other models"),
     "Offload Model expects scope = 'this model' or 'every other model', but got 'other models'."),
    (lambda: headroom.offload(None, to="ram"),
     "Offload Model expects to = 'CPU' or 'disk', but got 'ram'."),
    (lambda: split_prompts("a cat", "lines"),
     "Encode to CPU expects split = 'one prompt' or 'one prompt per line', but got 'lines'."),
    (lambda: Turn().reads("on", None, "1"),
     "Encode to CPU expects cache = 'off' or 'disk', but got 'on'."),
], ids=["unload", "scope", "to", "split", "cache"])
def test_an_unknown_word_is_refused_and_the_known_ones_are_named(act, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        act()
