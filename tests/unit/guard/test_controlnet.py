"""A ControlNet in pieces: its rows are those of the whole, and the user's own keeps its hints."""

import torch

from headroom.guard.controlnet import InPieces, splitting_copy
from headroom.guard.run import Run


class Network(torch.nn.Module):
    dtype = torch.float32

    def __init__(self):
        super().__init__()
        self.batches = []

    def forward(self, x, hint, timesteps, context, y=None):
        self.batches.append(x.shape[0])
        out = x + hint + timesteps[:, None] + context.mean()
        return {"output": [out, out], "middle": [out * 2]}


def test_a_controlnet_in_pieces_gives_the_rows_of_the_whole():
    network, limit = Network(), [None]
    split = InPieces(network, lambda: limit[0])
    x, hint, t = torch.randn(4, 3), torch.randn(4, 3), torch.arange(4.0)
    context = torch.ones(1, 2)
    whole = split(x=x, hint=hint, timesteps=t, context=context)
    limit[0] = 3
    cut = split(x=x, hint=hint, timesteps=t, context=context)
    assert network.batches == [4, 3, 1]
    assert torch.equal(cut["output"][0], whole["output"][0])
    assert cut["output"][0] is cut["output"][1]
    assert split.dtype is torch.float32


def test_a_controlnet_whose_input_cannot_be_cut_runs_whole():
    network = Network()
    split = InPieces(network, lambda: 1)
    split(x=torch.randn(4, 3), hint=torch.randn(4, 3), timesteps=torch.ones(4),
          context=torch.ones(3, 2))
    assert network.batches == [4]


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
    control, run = Control(), Run()
    control.previous_controlnet = Control()
    copied = splitting_copy(control, run)
    assert splitting_copy(control, run) is copied  # what it prepares serves all steps
    for one in (copied, copied.previous_controlnet):
        assert isinstance(one.control_model, InPieces)
    copied.cond_hints[(4, 4)] = "half"
    copied.control_inputs["x"] = "half"
    assert control.cond_hints == {(8, 8): "whole"}
    assert control.control_inputs == {}
    copied.cleanup()  # before a step is tried again
    assert copied.cond_hints == copied.control_inputs == {}
    assert control.cond_hints == {(8, 8): "whole"}
