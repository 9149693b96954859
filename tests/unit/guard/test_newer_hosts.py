"""Files of ComfyUI newer than the newest tree here: stand-ins of their shape."""

import contextlib
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from headroom.guard import split_batch
from headroom.guard.call import GuardOptions
from headroom.guard.controlnet import splitting_copy
from headroom.guard.run import Run
from headroom.guard.vae import guard_vae
from headroom.host import adapter

OOM = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
CPU = torch.device("cpu")


class VAE:
    """Runs out of memory if it encodes the whole; notes the arguments of its tiles."""

    latent_dim, not_video, vae_dtype = 3, False, torch.float32

    def __init__(self):
        self.first_stage_model = SimpleNamespace(encode=self.fail, decode=self.fail)
        self.patcher = SimpleNamespace(model=torch.nn.Linear(1, 1), load_device=CPU,
                                       model_size=lambda: 8)
        self.asked = []

    def fail(self, *args, **kwargs):
        raise OOM

    def memory_used_encode(self, shape, dtype):
        return 1.0

    def encode(self, pixel_samples, not_video=None):
        return self.first_stage_model.encode(pixel_samples)

    def encode_tiled(self, pixel_samples, tile_x=None, tile_y=None, overlap=None, tile_t=None,
                     overlap_t=None, not_video=None):
        self.asked.append({"tile": tile_x, "not_video": not_video})
        return torch.zeros(1)


@pytest.mark.parametrize("call", [lambda vae, x: vae.encode(x, not_video=True),
                                  lambda vae, x: vae.encode(x, True)], ids=["named", "placed"])
def test_tiles_of_an_encoding_get_its_arguments_about_the_batch(call):
    vae = VAE()
    call(guard_vae(vae, GuardOptions()), torch.zeros(3, 256, 256, 3))
    assert vae.asked
    assert all(one["not_video"] is True and one["tile"] for one in vae.asked)


class Control:
    """A ControlNet that keeps its prepared hints by size."""

    previous_controlnet = None

    def __init__(self):
        self.control_model = torch.nn.Linear(1, 1)
        self.cond_hints, self.control_inputs = {(8, 8): "whole"}, {}

    def cleanup(self):
        self.cond_hints.clear()
        self.control_inputs.clear()


def test_hints_of_a_sampling_in_pieces_do_not_get_into_the_users_controlnet():
    control = Control()
    copied = splitting_copy(control, Run())
    copied.cond_hints[(4, 4)] = "half"
    copied.control_inputs["x"] = "half"
    assert control.cond_hints == {(8, 8): "whole"}
    assert control.control_inputs == {}
    copied.cleanup()  # before a step is tried again
    assert copied.cond_hints == copied.control_inputs == {}
    assert control.cond_hints == {(8, 8): "whole"}


@pytest.fixture
def recorded(monkeypatch):
    """What was joined while ComfyUI's record of allocations went on: nothing, if all is well."""
    state = SimpleNamespace(paused=0, times=0)

    @contextlib.contextmanager
    def pause():
        state.paused, state.times = state.paused + 1, state.times + 1
        yield
        state.paused -= 1

    prefetch = ModuleType("comfy.model_prefetch")
    prefetch.pause_malloc_graph = pause
    monkeypatch.setitem(sys.modules, "comfy.model_prefetch", prefetch)
    monkeypatch.setattr(adapter, "guard_host", lambda: SimpleNamespace(recording_paused=pause))
    return state


def test_joining_pieces_is_not_part_of_comfyuis_record_of_allocations(recorded):
    cut = split_batch.pieces(4, 1, 2, True)

    def run(piece):
        assert recorded.paused == 0  # the network itself is recorded
        return torch.ones(piece.stop - piece.start, 3)

    assert split_batch.run_in_pieces(cut, 4, run).shape == (4, 3)
    assert recorded.times == 2
    split_batch.join_rows([{"a": torch.ones(1, 2)}, {"a": torch.ones(1, 2)}])
    assert recorded.times == 3
