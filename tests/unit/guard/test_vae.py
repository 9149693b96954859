"""VAEs that size their own tiles, say beforehand that there is no room, or hold a video."""

import pytest
import torch
from support.models import VAE
from support.models import Network as Doubling
from support.shortages import GPU

from headroom.base.device import MIB
from headroom.guard import weights
from headroom.guard.attempt import guarding
from headroom.guard.call import GuardOptions, Plan
from headroom.guard.errors import OomGuardError, requested_bytes, where_of
from headroom.guard.lack import Lack
from headroom.guard.vae import _VAECall, guard_vae


class Network(torch.nn.Linear):
    """Decodes, and tiles by itself, as SeedVR2's; its estimate can be relied on."""

    comfy_decode_estimate_is_reliable = True

    def __init__(self):
        super().__init__(1, 1)

    def decode(self, z):
        return z

    def decode_tiled(self, z, tile_x=32, tile_y=32, overlap=8, tile_t=None, overlap_t=None):
        return z


class InSizesOfItsOwn(torch.nn.Linear):
    """Tiles by itself whatever it is told, as MiniMax H3's."""

    def __init__(self):
        super().__init__(1, 1)

    def decode_tiled(self, z, **kwargs):
        return z


class VideoVAE(VAE):
    """For a video: one MiB for each 8x8 pixels of each frame, of which 64 are free."""

    latent_dim, vae_dtype, disable_offload, extra_1d_channel = 3, torch.float16, False, None
    time_costs = True
    upscale_ratio, upscale_index_formula = (lambda latents: latents * 4 - 3, 8, 8), (4, 8, 8)

    def __init__(self, network=None, handles_tiling=False):
        super().__init__(network, GPU)
        self.handles_tiling, self.free_bytes, self.reserved = handles_tiling, 64 * MIB, []
        self.patcher.get_free_memory = lambda device: self.free_bytes

    def memory_used_decode(self, shape, dtype):
        return MIB * shape[-1] * shape[-2] * (shape[2] if self.time_costs else 1)

    def memory_used_encode(self, shape, dtype):
        return MIB * shape[-1] * shape[-2] // 64

    def decode(self, samples_in):
        used = self.memory_used_decode(samples_in.shape, self.vae_dtype)
        self.reserved.append(used)
        try:
            if used > self.free_bytes:
                raise torch.OutOfMemoryError("decode estimate exceeds free memory")
            return self.first_stage_model.decode(samples_in)
        except torch.OutOfMemoryError:
            pass
        return self._decode_tiled_owned(samples_in)

    def _decode_tiled_owned(self, samples):
        raise AssertionError("the guard tiles, not ComfyUI")

    def decode_tiled(self, samples, tile_x=None, tile_y=None, overlap=None, tile_t=None,
                     overlap_t=None):
        self.reserved.append(self.memory_used_decode(samples.shape, self.vae_dtype))
        return super().decode_tiled(samples, tile_x, tile_y, overlap, tile_t, overlap_t)

    def encode_tiled(self, pixels, tile_x=None, tile_y=None, overlap=None):
        self.reserved.append(self.memory_used_encode(pixels.movedim(-1, 1).shape, self.vae_dtype))
        return pixels


def a_call(vae, latent, name="decode", **kwargs):
    return _VAECall(getattr(guard_vae(vae, GuardOptions()), name), latent, (), kwargs)


def test_a_3d_shape_is_never_decoded_in_tiles():
    """Its decode gets options that no method with tiles takes."""
    class ShapeVAE(VideoVAE):
        def decode(self, samples_in, vae_options={}):  # noqa: B006
            return samples_in

    latent = torch.zeros(1, 64, 3072)
    assert a_call(ShapeVAE(), latent).smaller(Plan(), lacking(400, 100)) is not None
    call = a_call(ShapeVAE(), latent, vae_options={"octree_resolution": 256})
    assert call.smaller(Plan(), lacking(400, 100)) is None and not call.can_tile


def lacking(need_mib, room_mib, is_last=False):
    return Lack("device", GPU, 256, (need_mib - room_mib) * MIB, need_mib * MIB, room_mib * MIB,
                is_last=is_last)


def plans(call, plan, lack):
    while (plan := call.smaller(plan, lack)) is not None:
        yield plan.tile, plan.frames


def test_a_decode_that_comfyui_did_not_begin_says_so_and_how_much_it_expected():
    vae = VideoVAE(Network())
    call = a_call(vae, torch.zeros(1, 16, 4, 8, 8))
    with pytest.raises(torch.OutOfMemoryError, match="did not begin") as caught:
        call.run(Plan())
    assert where_of(caught.value) == "device"
    assert requested_bytes(str(caught.value)) == 256 * MIB
    with pytest.raises(OomGuardError, match=r"did not begin: it expected to need 256\.0"):
        guard_vae(vae, GuardOptions(tile_vae=False)).decode(torch.zeros(1, 16, 4, 8, 8))


def test_an_estimate_that_can_be_relied_on_is_what_is_needed():
    latent = torch.zeros(1, 16, 4, 8, 8)
    assert a_call(VideoVAE(Network()), latent).needs(Plan()) == 256 * MIB
    assert a_call(VideoVAE(), latent).needs(Plan()) == 64 * MIB  # others expect far too much


def test_a_network_that_tiles_by_itself_cuts_time_by_itself():
    call = a_call(VideoVAE(Network(), handles_tiling=True), torch.zeros(1, 16, 64, 64, 64))
    found = list(plans(call, Plan(), lacking(1000, 999)))
    assert found[-1] == (8, None)
    assert all(frames is None for _, frames in found)


def test_a_network_with_tiles_in_sizes_of_its_own_is_not_asked_for_smaller_ones():
    call = a_call(VideoVAE(InSizesOfItsOwn(), handles_tiling=True), torch.zeros(1, 24, 7, 64, 64))
    assert call.smaller(Plan(), lacking(1000, 10)) is None


def test_time_is_cut_before_tiles_become_tiny():
    """LTX: a tile's memory grows with its frames, and ComfyUI itself cannot cut time."""
    call = a_call(VideoVAE(), torch.zeros(1, 128, 40, 64, 64))
    found = list(plans(call, Plan(), Lack("device")))
    assert found == [(28, None), (28, 20), (28, 10), (28, 5), (28, 3), (8, 3)]
    call = a_call(VideoVAE(), torch.zeros(1, 128, 40, 64, 64))
    assert call.smaller(Plan(), lacking(163840, 4096)) == Plan(tile=32, frames=5)  # those that fit
    assert call.smaller(Plan(), lacking(163840, 4096, is_last=True)) == Plan(tile=8, frames=3)


def test_time_is_not_cut_where_the_frames_of_a_latent_are_not_counted_evenly():
    """TAEHV of MiniMax H3: ComfyUI puts the frames of the parts in wrong places, or nowhere."""
    vae = VideoVAE()
    vae.upscale_ratio = (lambda latents: max(1, (latents - 2) // 5 * 17 + 5), 16, 16)
    found = list(plans(a_call(vae, torch.zeros(1, 24, 42, 64, 64)), Plan(), Lack("device")))
    assert found == [(28, None), (8, None)]


def test_time_is_cut_last_where_that_saves_little():
    vae = VideoVAE()
    vae.time_costs = False  # Wan: one frame after the other
    found = list(plans(a_call(vae, torch.zeros(1, 16, 40, 64, 64)), Plan(), Lack("device")))
    assert found == [(28, None), (8, None), (8, 20), (8, 10), (8, 5), (8, 3)]


@pytest.mark.parametrize(("pages_mib", "tile"), [(0, 40), (2200, 32)])
def test_a_large_tile_of_a_video_leaves_the_pages_of_the_weights_their_room(
    monkeypatch, pages_mib, tile
):
    monkeypatch.setattr(weights, "paged_bytes", lambda patcher: pages_mib * MIB)
    vae = VideoVAE()
    vae.time_costs = False
    call = a_call(vae, torch.zeros(1, 16, 9, 64, 64))
    assert call.smaller(Plan(), lacking(4096, 2500)).tile == tile


def test_frames_are_fewer_than_those_that_were_asked_for():
    vae = VideoVAE()
    call = a_call(vae, torch.zeros(1, 128, 40, 64, 64), "decode_tiled", tile_x=32, tile_y=32,
                  tile_t=8, overlap_t=2)
    plan = call.smaller(Plan(), Lack("device"))
    assert (plan.tile, plan.frames) == (32, 4)
    call.run(Plan(tile=16))
    assert vae.asked[-1]["tile_t"] == 8


@pytest.mark.parametrize(("plan", "reserved_mib"), [
    (Plan(), 16 * 16 * 8), (Plan(tile=8), 8 * 8 * 8), (Plan(tile=8, frames=4), 8 * 8 * 4),
    (Plan(tile=8, room_bytes=900 * MIB), 900),
])
def test_a_decode_in_tiles_reserves_for_a_tile_so_that_other_models_stay(plan, reserved_mib):
    """Older ComfyUIs reserve for the whole picture, which unloads the diffusion model for it."""
    vae = VideoVAE()
    call = _VAECall(guard_vae(vae, GuardOptions()).decode_tiled, torch.zeros(1, 16, 8, 64, 64),
                    (16,), {"tile_y": 16})
    call.run(plan)
    assert vae.reserved == [reserved_mib * MIB]


def test_an_encoding_in_tiles_reserves_for_a_tile():
    vae = VideoVAE()
    guard_vae(vae, GuardOptions()).encode_tiled(torch.zeros(1, 256, 256, 3), tile_x=64, tile_y=64)
    assert vae.reserved == [MIB * 64]


@pytest.mark.parametrize("ratio", [8, 16, 32])
def test_each_tile_of_an_encoding_begins_and_ends_between_two_latents(ratio):
    """ComfyUI also makes tiles of half the side. LTX and HunyuanImage: 32 pixels a latent."""
    vae = VAE()
    vae.ratio = ratio
    call = a_call(vae, torch.zeros(1, 1024, 704, 3), "encode")
    tiles = [tile for room in range(20, 320, 20)
             for tile, _ in plans(call, Plan(), lacking(1000, room))]
    for tile in tiles:
        call.run(Plan(tile=tile))
    assert len(set(tiles)) > 2
    assert all(one["tile_x"] // 2 % ratio == one["overlap"] % ratio == 0 for one in vae.asked)
    assert all(0 < one["overlap"] < one["tile_x"] // 2 for one in vae.asked)


@pytest.mark.parametrize("call", [lambda vae, x: vae.encode(x, not_video=True),
                                  lambda vae, x: vae.encode(x, True)], ids=["named", "placed"])
def test_tiles_of_an_encoding_get_its_arguments_about_the_batch(call):
    vae = VAE(Doubling(fails=4))  # until only tiles are left
    call(guard_vae(vae, GuardOptions()), torch.zeros(3, 256, 256, 3))
    assert vae.asked and all(one["not_video"] is True and one["tile_x"] for one in vae.asked)


def test_what_was_learned_is_not_used_for_a_video_of_the_size_or_another_packs_method():
    pixels, other = torch.zeros(9, 64, 64, 3), VAE()
    other.encode = lambda pixels, not_video: pixels  # tiles would be of ComfyUI's own method
    images, video = (a_call(VAE(), pixels, "encode", not_video=is_not) for is_not in (True, False))
    assert images.key != video.key == a_call(VAE(), pixels, "encode", not_video=False).key
    assert a_call(other, pixels, "encode", not_video=False).key != video.key


def test_what_is_decoded_or_encoded_may_be_named():
    guarded, x = guard_vae(VAE(Doubling(fails=1)), GuardOptions()), torch.ones(1, 4, 8, 8)
    assert guarded.decode(samples_in=x).equal(x * 2)
    assert guarded.encode(not_video=True, pixel_samples=x).equal(x * 2)
    with pytest.raises(TypeError, match="samples_in"):
        guarded.decode()


def test_in_a_guarded_step_a_vae_is_attempted_whole_once_more_before_comfyui_makes_tiles():
    latents = torch.ones(1, 4, 1, 8, 8)  # a ControlNet of Flux encodes its hint in the first step
    with guarding():
        decoded = guard_vae(VideoVAE(Doubling(fails=1)), GuardOptions()).decode(latents)
        assert torch.equal(decoded, latents * 2)
        with pytest.raises(AssertionError, match="not ComfyUI"):
            guard_vae(VideoVAE(Doubling(fails=2)), GuardOptions()).decode(latents)
