"""A repeated call gets the same random numbers and containers as the first."""

import torch

from headroom.guard.replay import Containers, RandomState


def test_random_numbers_repeat_after_a_restore():
    torch.manual_seed(5)
    state = RandomState()
    first = torch.rand(4)
    state.restore()
    assert torch.equal(torch.rand(4), first)


def test_containers_get_their_contents_back_and_stay_the_same_objects():
    inner = {"patches": {"attn1": [1]}, "seen": {}}
    options = {"transformer_options": inner, "list": [1, [2]]}
    saved = Containers(options)
    inner["patches"]["attn1"].append(2)
    inner["patches"]["attn2"] = []
    inner["seen"]["a"] = 1
    options["list"][1].clear()
    del options["transformer_options"]
    saved.restore()
    assert options == {"transformer_options": {"patches": {"attn1": [1]}, "seen": {}},
                       "list": [1, [2]]}
    assert options["transformer_options"] is inner


def test_containers_that_contain_themselves_are_saved_once():
    options = {"a": 1}
    options["self"] = options
    saved = Containers(options)
    options["a"] = 2
    saved.restore()
    assert options["a"] == 1


def test_what_functions_in_the_options_keep_from_call_to_call_is_put_back():
    """As APG of ComfyUI does with its running average."""
    average, never_set = 0, None
    del never_set

    def add(value):
        nonlocal average, never_set
        average += value
        never_set = value
        return average

    containers = Containers({"sampler_pre_cfg_function": [add]})
    assert add(2) == 2
    containers.restore()
    assert add(3) == 3
