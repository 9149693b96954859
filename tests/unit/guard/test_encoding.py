"""A text encoder: begun again on an empty device where that helps, else encoded on the CPU."""

from types import SimpleNamespace

import pytest
import torch

from headroom.guard import clip, weights
from headroom.guard.call import GuardOptions, Plan
from headroom.guard.lack import Lack

MIB = 1 << 20
GPU = torch.device("cuda:0")


class CLIP:
    """`encoded` counts the encodings, of it and of its copy on the CPU."""

    cond_stage_model = None

    def __init__(self, patcher):
        self.patcher, self.encoded = patcher, []

    def encode_from_tokens(self, tokens):
        self.encoded.append(tokens)
        return tokens


@pytest.fixture
def host(monkeypatch):
    """An encoder of `loaded` MiB under dynamic VRAM; `unloaded` counts how often it left."""
    found = SimpleNamespace(is_dynamic=True, loaded=2016, unloaded=0, on_cpu=None)
    patcher = SimpleNamespace(load_device=GPU, offload_device=torch.device("cpu"),
                              model=torch.nn.Linear(1, 1), model_size=lambda: 8)
    found.clip = CLIP(patcher)

    def unload(models):
        found.unloaded += len(models)

    current = SimpleNamespace(is_dynamic=lambda one: found.is_dynamic,
                              entries_of=lambda patchers: [None],
                              unloadable_bytes=lambda entry: found.loaded * MIB)
    guard = SimpleNamespace(clip_on_cpu=lambda clip: found.on_cpu)
    for module, name, value in ((clip, "current_host", lambda: current),
                                (clip, "guard_host", lambda: guard),
                                (weights, "current_host", lambda: current),
                                (clip, "unload_models", unload)):
        monkeypatch.setattr(module, name, value)
    return found


def encoding(host, **options):
    method = clip.guard_clip(host.clip, GuardOptions(**options)).encode_from_tokens
    call = clip._Encoding(method, ("text",), {})
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
    host.loaded = 0
    assert encoding(host).lighter(Plan(), lacking(2064)) is None


def test_without_dynamic_vram_an_encoders_weights_leave_as_those_of_other_models(host):
    host.is_dynamic = False
    plan, _ = encoding(host).lighter(Plan(), lacking(2064))
    assert plan.room_bytes == (2458 + 504) * MIB  # a quarter of them


def test_the_cpu_encodes_where_it_can(host):
    assert encoding(host).smaller(Plan(), lacking(96)) is None
    host.on_cpu = CLIP(None)
    call = encoding(host)
    assert call.run(call.smaller(Plan(), lacking(96))) == "text"
    assert host.on_cpu.encoded == ["text"]
    assert call.smaller(Plan(on_cpu=True), lacking(96)) is None
    assert call.smaller(Plan(), lacking(96, where="RAM")) is None
    assert encoding(host, offload_weights=False).smaller(Plan(), lacking(96)) is None


class Speaking(CLIP):
    """An encoder that also generates text, as ComfyUI's of language models do from 0.17 on."""

    def generate(self, tokens, max_length=256):
        return "a red cube"[:max_length]


def test_generated_text_is_guarded_too_but_never_on_the_cpu_which_draws_other_words(host):
    options = GuardOptions()
    assert not hasattr(clip.guard_clip(host.clip, options), "generate")
    speaking = Speaking(host.clip.patcher)
    host.on_cpu = Speaking(None)
    method = clip.guard_clip(speaking, options).generate
    assert isinstance(method, clip.GuardedMethod)
    call = clip._Encoding(method, ("text",), {"max_length": 5})
    assert call.run(Plan()) == "a red"
    assert call.words == "text generation with NoneType"
    assert call.key != clip._Encoding(method, ("text",), {"max_length": 500}).key
    assert call.lighter(Plan(), lacking(2064)) is not None
    assert call.smaller(Plan(), lacking(96)) is None
