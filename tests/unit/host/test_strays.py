"""What models of ComfyUI keep on the GPU beside their weights goes with them."""

import pytest
import torch

from headroom.host import strays


class Positions(torch.nn.Module):
    """As a part of a model that keeps in an attribute what depends on the picture's size only."""

    def __init__(self, name):
        super().__init__()
        setattr(self, name, {(64, 64): torch.ones(2)})


@pytest.mark.parametrize(("module", "name", "left"), [
    ("comfy.ldm.sam3.sam", "_cache", 0),
    ("comfy_extras.frame_interpolation_models.ifnet", "_warp_grids", 0),
    ("somebodys.pack", "_cache", 1),
])
def test_what_comfyuis_models_keep_for_a_size_of_pictures_is_dropped_and_no_other_pack_s(
    module, name, left
):
    part = type("Positions", (Positions,), {"__module__": module})(name)
    strays.drop_cache(torch.nn.Sequential(part))
    assert len(getattr(part, name)) == left
