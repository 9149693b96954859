"""A text encoder: begun again on an empty device where that helps, else encoded on the CPU."""

import pytest
import torch
from support.hosts import GuardHost, Host
from support.models import CLIP

from headroom.guard import clip as clip_module
from headroom.guard import lessons, weights
from headroom.guard.call import GuardOptions, Plan
from headroom.guard.lack import Lack

MIB = 1 << 20
GPU = torch.device("cuda:0")


@pytest.fixture
def host(monkeypatch):
    """An encoder of `loaded` MiB under dynamic VRAM; `unloaded` counts how often it left."""
    clip = CLIP(GPU)
    clip.patcher.dynamic, clip.patcher.size = True, 2016 * MIB
    found = Host(clip.patcher)
    found.clip, found.unloaded, found.on_cpu, found.kept_free = clip, 0, None, []

    def unload(models):
        found.unloaded += len(models)

    guard = GuardHost(clip_on_cpu=lambda clip: found.on_cpu,
                      load_reserving=lambda patchers, room: found.kept_free.append(room))
    for where, name, value in ((clip_module, "current_host", lambda: found),
                                (clip_module, "guard_host", lambda: guard),
                                (weights, "current_host", lambda: found),
                                (clip_module, "unload_models", unload)):
        monkeypatch.setattr(where, name, value)
    return found


def encoding(host, **options):
    method = clip_module.guard_clip(host.clip, GuardOptions(**options)).encode_from_tokens
    call = clip_module._Encoding(method, ("text",), {})
    call.run(Plan())
    return call


def lacking(buffers_mib, missing_mib=40, where="device"):
    """A failed encoding that could get 2,458 of the 2,500 MiB."""
    return Lack(where, GPU, 160 * MIB, missing_mib * MIB, need_bytes=2500 * MIB,
                room_bytes=2458 * MIB, buffers_bytes=buffers_mib * MIB)


def test_an_encoding_begins_again_on_an_empty_device_where_buffers_are_most_of_the_need(host):
    call = encoding(host)
    plan, spared = call.lighter(Plan(), lacking(2064))
    assert (plan.room_bytes, spared) == (weights.EVERYTHING, 2064 * MIB)
    assert call.lighter(Plan(), lacking(96)) is None
    call.run(plan)
    assert host.unloaded == 1
    assert call.lighter(plan, lacking(2064)) is None  # it is tried once


def test_an_encoding_that_began_on_an_empty_device_is_not_begun_so_again(host):
    host.clip.patcher.size = 0
    assert encoding(host).lighter(Plan(), lacking(2064)) is None


def test_without_dynamic_vram_an_encoders_weights_leave_as_those_of_other_models(host):
    host.clip.patcher.dynamic = False
    call = encoding(host)
    plan, _ = call.lighter(Plan(), lacking(2064))
    assert plan.room_bytes == (2458 + 504) * MIB  # a quarter of them
    call.run(plan)  # ComfyUI would load them all again
    assert host.kept_free == [plan.room_bytes]


def test_the_cpu_encodes_where_it_can(host):
    assert encoding(host).smaller(Plan(), lacking(96)) is None
    host.on_cpu = CLIP()
    call = encoding(host)
    assert call.run(call.smaller(Plan(), lacking(96))) == 2 * "text"
    assert host.on_cpu.encoded == ["text"]
    assert call.smaller(Plan(on_cpu=True), lacking(96)) is None
    assert call.smaller(Plan(), lacking(96, where="RAM")) is None
    assert encoding(host, offload_weights=False).smaller(Plan(), lacking(96)) is None


def test_a_remembered_encoding_on_the_cpu_goes_as_it_comes_where_the_clip_cannot_be_moved(
    monkeypatch
):
    """As after a CLIP of the same size that could be moved: a lesson is kept for a kind of call."""
    monkeypatch.setattr(clip_module, "guard_host", GuardHost)
    monkeypatch.setattr(lessons, "recall", lambda key, device: Plan(on_cpu=True))
    encoder = clip_module.guard_clip(CLIP(), GuardOptions())
    assert torch.equal(encoder.encode_from_tokens(torch.ones(2)), torch.ones(2) * 2)


@pytest.mark.parametrize("name", ["encode_from_tokens", "encode_from_tokens_scheduled"])
def test_what_another_pack_set_over_an_encoders_method_encodes_in_every_attempt(host, name):
    """A copy on the CPU, and ComfyUI's own method, would encode other words, silently."""
    def call_of():
        method = getattr(clip_module.guard_clip(host.clip, GuardOptions()), name)
        return clip_module._Encoding(method, ("text",), {})

    host.on_cpu, host.clip.patcher.dynamic, plain = CLIP(), False, call_of()
    host.clip.encode_from_tokens = lambda tokens: f"theirs: {tokens}"
    call = call_of()
    assert all("theirs" in str(call.run(Plan(room_bytes=room))) for room in (0, 1))
    assert call.smaller(Plan(), lacking(96)) is None and call.key != plain.key


class Speaking(CLIP):
    """An encoder that also generates text, as ComfyUI's of language models do from 0.17 on."""

    def generate(self, tokens, max_length=256):
        return "a red cube"[:max_length]


def test_generated_text_is_guarded_too_but_never_on_the_cpu_which_draws_other_words(host):
    options = GuardOptions()
    assert not hasattr(clip_module.guard_clip(host.clip, options), "generate")
    speaking, host.on_cpu = Speaking(), Speaking()
    speaking.patcher = host.clip.patcher
    method = clip_module.guard_clip(speaking, options).generate
    assert isinstance(method, clip_module.GuardedMethod)
    call = clip_module._Encoding(method, ("text",), {"max_length": 5})
    assert call.run(Plan()) == "a red"
    assert call.words == "text generation with Network"
    assert call.key != clip_module._Encoding(method, ("text",), {"max_length": 500}).key
    assert call.lighter(Plan(), lacking(2064)) is not None
    assert call.smaller(Plan(), lacking(96)) is None


@pytest.mark.parametrize(("tokens", "can"), [
    ({"minimax_music3": [[(1, 1.0)]], "seed": 7}, False),
    ({"lyrics": [[(1, 1.0)]], "lm_metadata": {"seed": 7, "generate_audio_codes": True}}, False),
    ({"lyrics": [[(1, 1.0)]], "lm_metadata": {"seed": 7, "generate_audio_codes": False}}, True),
    ({"l": [[(1, 1.0)]]}, True),
])
def test_a_text_that_is_encoded_with_a_seed_is_never_encoded_on_the_cpu(host, tokens, can):
    """MiniMax Music 3 and ACE-Step 1.5 write a song's sequence: the CPU would write another."""
    host.on_cpu = CLIP()
    method = clip_module.guard_clip(host.clip, GuardOptions()).encode_from_tokens_scheduled
    call = clip_module._Encoding(method, (), {"tokens": tokens})
    assert (call.smaller(Plan(), lacking(96)) is not None) == can
    assert call.words == "text encoding with Network"


class Taking(CLIP):
    """Takes what it encodes out of the tokens, as SAM 3's encoder and Gemma 4 of ComfyUI do."""

    def encode_from_tokens(self, tokens):
        found = tokens.pop("sam3_per_prompt"), tokens["gemma4"][0][0][0].pop("data")
        self.encoded.append(found)
        if len(self.encoded) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return found


def test_a_repeated_encoding_gets_the_tokens_that_the_failed_one_took_and_nothing_it_left(
    monkeypatch
):
    dropped = []
    guard = GuardHost(drop_caches=dropped.append)
    monkeypatch.setattr(clip_module, "guard_host", lambda: guard)
    encoder = clip_module.guard_clip(Taking(), GuardOptions())
    tokens = {"gemma4": [[({"type": "image", "data": "pixels"}, 1.0)]], "sam3_per_prompt": ["dog"]}
    assert encoder.encode_from_tokens(tokens) == (["dog"], "pixels")
    assert len(encoder.encoded) == 2
    assert dropped == [[encoder.patcher]] * 2
