"""Sizes that items bring themselves, in pixels."""

import pytest
import torch

from headroom.sizes.items import item_size, latent_scale
from headroom.sizes.sorting import Size


class Nested:
    """A latent of picture and sound, shaped as ComfyUI's nested tensors."""

    is_nested = True

    def unbind(self):
        return [torch.zeros(1, 128, 2, 8, 16), torch.zeros(1, 8, 100)]


@pytest.mark.parametrize(("item", "size"), [
    (torch.zeros(2, 48, 64, 3), Size(64, 48)),
    (torch.zeros(1, 48, 64, 4), Size(64, 48)),
    (torch.zeros(1, 48, 64, 1), Size(64, 48)),
    (torch.zeros(5, 48, 64), Size(64, 48)),
    (torch.zeros(48, 64), Size(64, 48)),
    (torch.zeros(48, 64, 3), Size(64, 48)),
    (torch.zeros(1, 16, 48, 64), Size(64, 48)),
    (torch.zeros(1, 7, 48, 64, 3), Size(64, 48)),
    (torch.zeros(48, 64).numpy(), Size(64, 48)),
])
def test_pictures_masks_and_anything_with_a_shape_have_a_size(item, size):
    assert item_size(item, 1) == size


@pytest.mark.parametrize(("shape", "size"), [
    ((1, 4, 6, 8), Size(64, 48)),  # SD 1.5, SDXL
    ((1, 16, 6, 8), Size(64, 48)),  # SD3, Flux
    ((1, 16, 21, 6, 8), Size(64, 48)),  # Wan 2.1, HunyuanVideo
    ((1, 12, 7, 6, 8), Size(64, 48)),  # Mochi
    ((1, 128, 6, 8), Size(128, 96)),  # Flux 2
    ((1, 128, 9, 6, 8), Size(256, 192)),  # LTX-Video
    ((1, 48, 9, 6, 8), Size(128, 96)),  # Wan 2.2
    ((1, 32, 9, 6, 8), Size(128, 96)),  # HunyuanVideo 1.5
    ((1, 64, 6, 8), Size(256, 192)),  # HunyuanImage 2.1
    ((1, 3, 48, 64), Size(64, 48)),  # Chroma Radiance, in pixels
])
def test_latents_are_counted_in_pixels_of_their_format(shape, size):
    assert item_size({"samples": torch.zeros(shape)}, 1) == size


def test_a_latent_that_tells_its_scale_is_believed():
    latent = {"samples": torch.zeros(1, 4, 6, 8), "downscale_ratio_spacial": 16}
    assert latent_scale(latent) == 16
    assert item_size(latent, 1) == Size(128, 96)


def test_a_latent_with_sound_counts_its_picture():
    assert item_size({"samples": Nested()}, 1) == Size(512, 256)


def test_the_size_of_a_tensor_without_memory_is_known_too():
    assert item_size(torch.zeros(1, 65_536, 65_536, 3, device="meta"), 1) == Size(65_536, 65_536)


@pytest.mark.parametrize(("item", "shown"), [
    ("1024x1024", "item 3 is a str"),
    (None, "item 3 is nothing"),
    (torch.zeros(7), "item 3 is a Tensor of shape [7]"),
    (torch.zeros(1, 0, 64, 3), "item 3 is a Tensor of shape [1, 0, 64, 3]"),
    ({"samples": torch.zeros(1, 64, 500)}, "item 3 is a LATENT of shape [1, 64, 500]"),
    ({"samples": torch.zeros(1, 8, 16, 500), "type": "audio"},
     "item 3 is a LATENT of shape [1, 8, 16, 500]"),
    ({"waveform": torch.zeros(1, 2, 500)}, "item 3 is a dict"),
])
def test_an_item_without_a_picture_size_is_named(item, shown):
    with pytest.raises(ValueError) as caught:
        item_size(item, 3)
    assert shown in str(caught.value)
