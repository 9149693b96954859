"""A model nobody manages returns to its device when it is used there again."""

import torch

from headroom.models.unmanaged import restore_on_use


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def encode(self, value):
        return self.layer(value)


def hooks(module):
    return sum(len(part._forward_pre_hooks) for part in module.modules())


def test_a_model_on_the_cpu_needs_no_return_and_gets_no_hook():
    module = Encoder()
    restore_on_use(module)
    assert hooks(module) == 0


def test_the_first_use_moves_it_back_also_through_a_method_that_is_not_forward():
    module = Encoder().to("meta")
    restore_on_use(module)
    module.to_empty(device="cpu")
    module.encode(torch.zeros(1, 2, device="meta"))
    assert module.layer.weight.device.type == "meta" and hooks(module) == 0


def test_use_on_the_cpu_leaves_it_there():
    module = Encoder().to("meta")
    restore_on_use(module)
    module.to_empty(device="cpu")
    module.encode(torch.zeros(1, 2))
    assert module.layer.weight.device.type == "cpu" and hooks(module) == 0


def test_what_its_owner_has_moved_back_in_part_stays_as_the_owner_wants_it():
    module = torch.nn.Sequential(Encoder(), Encoder()).to("meta")
    restore_on_use(module)
    module.to_empty(device="cpu")
    module[0].to("meta")  # the second one is to be swapped in when it is called
    module[0].encode(torch.zeros(1, 2, device="meta"))
    assert module[1].layer.weight.device.type == "cpu" and hooks(module) == 0
