"""What the recorder reads about models between two nodes: which, how many bytes, at low cost."""

import torch
from support.hosts import Host, Patcher
from support.quantised import quantised

from headroom.models import loaded
from headroom.models.loaded import HeldModels, float32_bytes


def test_each_model_is_described_once_and_equal_answers_are_one_object(monkeypatch):
    patcher = Patcher(torch.nn.Linear(8, 8), "cuda:0", size=4000, loaded=1000)
    host = Host(patcher, None)
    monkeypatch.setattr(loaded, "current_host", lambda: host)
    ask = HeldModels()
    first = ask()
    assert ask() is first and patcher.sized == 1
    (one,) = first
    assert (one.device, one.bytes, one.model.total_bytes) == ("cuda:0", 1000, 4000)
    assert one.model.float32_bytes == 4 * 72 and not one.model.stays
    host.entries = ()
    assert ask() == ()


def test_a_model_that_unloading_does_not_move_stays(monkeypatch):
    patcher = Patcher(torch.nn.Linear(8, 8), "cuda:0", loaded=1000)
    patcher.offload_device = patcher.load_device
    monkeypatch.setattr(loaded, "current_host", lambda: Host(patcher))
    assert HeldModels()()[0].model.stays


def test_nothing_is_held_without_comfyui(monkeypatch):
    monkeypatch.setattr(loaded, "current_host", lambda: None)
    assert HeldModels()() == ()


def test_weights_count_in_the_dtype_that_goes_to_the_gpu():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4).to(torch.bfloat16))
    assert float32_bytes(model) == 4 * 20
    model[0].weight_comfy_model_dtype = torch.bfloat16
    assert float32_bytes(model) == 4 * 4


def test_a_quantised_weight_is_none_in_float32_whatever_dtype_it_tells():
    model = torch.nn.Linear(1024, 1024, bias=False)
    model.weight = torch.nn.Parameter(quantised(model.weight), requires_grad=False)
    assert model.weight.dtype == torch.float32 and float32_bytes(model) == 0
