"""What refers to a model's parts refers to the copies afterwards, functions of other packs too."""

import functools
import types
from contextlib import contextmanager

from headroom.base.copies import follow


class Model:
    def __init__(self, name):
        self.name = name

    def forward(self, x):
        return self.name, x


@contextmanager
def replaced(model, forward):
    model.forward = forward
    yield
    del model.forward


def first_block_cache(model):
    """As WaveSpeed and TeaCache do it: each call runs the model with another forward."""
    other = types.MethodType(lambda self, x: (self.name, "cached", x), model)

    def wrapper(run, x):
        with replaced(model, other):
            return run(x)

    return wrapper


def size_of_its_model(model):
    """As ComfyUI's VAE of SeedVR2 estimates its memory."""
    return lambda run, x: (model.name, x)


def by_default(model):
    return lambda run, x, model=model, *, again=model: (model.name, again.name, x)


def as_a_partial(model):
    return functools.partial(lambda model, run, x: run(x), model)


def test_functions_over_the_original_work_over_the_copy_and_the_original_keeps_its_own():
    old, new = Model("old"), Model("new")
    for make in (first_block_cache, size_of_its_model, by_default, as_a_partial):
        options = {"model_function_wrapper": make(old), "steps": [4]}
        followed = follow(options, {id(old): new})
        told = followed["model_function_wrapper"](new.forward, 1)
        assert "old" not in told and "new" in told and followed["steps"] is options["steps"]
        assert "old" in options["model_function_wrapper"](old.forward, 1)
        assert "forward" not in vars(old) and "forward" not in vars(new)


def test_a_function_that_refers_to_itself_is_followed_once():
    old = Model("old")

    def again(depth, model=old):
        return again(depth - 1) if depth else model.name

    assert follow(again, {id(old): Model("new")})(0) == "new"


def test_values_without_a_copied_module_stay_the_same_object():
    values = [(1, "a"), {"k": [1, 2]}, lambda: 3, print]
    assert all(follow(value, {}) is value for value in values)
