"""Fewer images, then smaller tiles."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from support.hosts import GuardHost
from support.models import VAE

from headroom.base.device import MIB
from headroom.guard import upscaler
from headroom.guard.call import GuardOptions, Plan
from headroom.guard.lack import Lack
from headroom.guard.tiles import fewer_images, in_parts, smaller_tile, tile_count
from headroom.guard.upscaler import _Upscaling, guard_upscaler
from headroom.guard.vae import _VAECall, guard_vae

NOTHING_KNOWN = Lack("device")


def lacking(need=1 << 20, room=250_000):
    return Lack("device", missing_bytes=need - room, need_bytes=need, room_bytes=room)


def repeated(step, start=None):
    found = []
    while (start := step(start)) is not None:
        found.append(start)
    return found


def test_images_halve_down_to_one():
    assert repeated(lambda now: fewer_images(now or 8, NOTHING_KNOWN)) == [4, 2, 1]


def test_as_many_images_as_fit_are_computed_in_equal_parts():
    # six fit, and two times four is no slower than six and two
    assert fewer_images(8, lacking(need=1000, room=800)) == 4


def test_a_single_image_cannot_be_halved_and_where_not_even_one_fits_that_is_said():
    assert fewer_images(1, NOTHING_KNOWN) is None
    assert fewer_images(8, lacking(need=1000, room=100)) == 0
    assert fewer_images(8, lacking(need=1000, room=900), need=1000) == 0


@pytest.mark.parametrize(("side", "smallest", "sizes"), [
    (64, 8, [32, 16, 8]), (65, 8, [32, 16, 8]), (8, 8, []), (9, 8, [8]), (100, 64, [64]),
])
def test_tiles_halve_down_to_the_smallest_where_nobody_can_tell_what_fits(side, smallest, sizes):
    found = repeated(lambda now: smaller_tile([side, side], now, smallest, NOTHING_KNOWN))
    assert found == sizes


def test_the_first_tiles_are_the_largest_that_fit_by_estimate():
    tile = smaller_tile([128, 96], None, 8, lacking(room=250_000), lambda side: side * side * 100)
    assert tile == 48  # 48 * 48 * 100 = 230,400; the next, 56, would take 313,600


def test_tiles_that_failed_although_they_were_to_fit_are_a_quarter_smaller_each_time():
    lack = lacking(need=1000, room=1000)
    found = repeated(lambda now: smaller_tile([128, 128], now, 8, lack))
    assert found == [120, 88, 64, 48, 32, 24, 16, 8]


def test_tiles_are_smaller_than_those_that_were_asked_for():
    assert smaller_tile([128, 128], 32, 8, lacking(room=1 << 20)) == 24


def test_no_tile_is_larger_than_its_number_of_tiles_asks_for():
    """Wan, 832x480: two tiles of 480 pixels hold the picture as well as two of 768."""
    tile = smaller_tile([60, 104], None, 8, lacking(need=1000, room=999),
                        count=lambda tile: tile_count((60, 104), tile, is_video=True))
    assert tile == 60


@pytest.mark.parametrize(("sides", "tile", "is_video", "count"), [
    ((60, 104), 96, True, 2), ((60, 104), 64, True, 2), ((60, 104), 56, True, 6),
    ((128, 128), 72, False, 16), ((128, 128), 64, False, 23), ((64, 64), 40, False, 16),
])
def test_tiles_are_counted_as_comfyui_lays_them(sides, tile, is_video, count):
    """A picture three times: square, wide and tall."""
    assert tile_count(sides, tile, is_video=is_video) == count


def test_the_last_attempt_takes_the_smallest_tiles():
    assert smaller_tile([128, 128], None, 8, replace(NOTHING_KNOWN, is_last=True)) == 8


def test_parts_of_a_batch_join_to_the_batch():
    value, asked = torch.randn(5, 2), []

    def doubled(part):
        asked.append(len(part))
        return part * 2

    for images in (2, None):
        assert torch.equal(in_parts(doubled, value, images), value * 2)
    assert asked == [2, 2, 1, 5]


class Decoder(VAE):
    """SD1.5's at 1024x1024: ComfyUI's own tile takes 366 MiB of the 1,089 that it expects."""

    def memory_used_decode(self, shape, dtype):
        return 1089 * MIB * shape[-1] * shape[-2] / 64**2


@pytest.mark.parametrize(("room", "tile"), [(373, 64), (360, 48)])
def test_comfyuis_own_tile_is_taken_down_to_where_it_just_fits(room, tile):
    method = guard_vae(Decoder(device="cuda:0"), GuardOptions()).decode
    call = _VAECall(method, torch.zeros(1, 4, 128, 128), (), {})
    lack = Lack("device", None, 256, 716 * MIB, 1089 * MIB, room * MIB)
    assert call.smaller(Plan(), lack).tile == tile


def test_tiles_of_an_upscale_model_have_the_sizes_that_its_network_takes(monkeypatch):
    """A descriptor pads what it is called with; for other sizes its network raises an error."""
    def network(_model, image):
        if image.shape[-1] % 40:
            raise RuntimeError("The size of tensor a (32) must match the size of tensor b (40)")
        if image.shape[-1] > 100:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64.00 MiB.")
        return image

    class Descriptor:
        def __init__(self):
            self.model, self._call_fn = torch.nn.Identity(), network
            self.scale, self.output_channels = 1, 3

        def __call__(self, image):
            padded = torch.nn.functional.pad(image, (0, -image.shape[-1] % 40))
            return self._call_fn(self.model, padded)[..., : image.shape[-1]]

    def tiled(image, function, tile_x, **_):
        return torch.cat([function(part) for part in image.split(tile_x, -1)], -1)

    monkeypatch.setattr(upscaler, "guard_host", lambda: GuardHost(tiled_scale=tiled))
    image = torch.arange(3 * 8 * 120.0).reshape(1, 3, 8, 120)
    assert torch.equal(guard_upscaler(Descriptor(), GuardOptions())(image), image)


def test_the_tiles_of_one_upscale_model_are_not_taken_by_one_of_another_scale():
    """Two ESRGANs in one workflow: the smaller one may need none."""
    def key_of(scale):
        method = SimpleNamespace(owner=SimpleNamespace(scale=scale), options=GuardOptions())
        return _Upscaling(method, torch.nn.Identity(), torch.zeros(1, 3, 8, 8)).key

    assert key_of(4) == key_of(4) != key_of(2)
