"""A guarded object has the class of the original, and works as other packs use it."""

import copy
import pickle
import types
from collections import namedtuple

import pytest
import torch
from support.models import CLIP, VAE, Network

from headroom.guard.call import GuardOptions
from headroom.guard.clip import guard_clip
from headroom.guard.copies import GuardedMethod
from headroom.guard.upscaler import guard_upscaler
from headroom.guard.vae import guard_vae


def call_network(model, image):
    return model.decode(image)


class Descriptor:
    """As spandrel's: its call is its class's own."""

    def __init__(self):
        self._model, self._call_fn, self.scale, self.output_channels = Network(), call_network, 1, 3

    @property
    def model(self):
        return self._model

    def to(self, device):
        self._model.to(device)
        return self

    def __call__(self, image):
        return self._call_fn(self.model, image)


X = torch.ones(2, 4, 8, 8)
# What came in, how it is guarded, one use of it, and its network.
Kind = namedtuple("Kind", ("make", "guard", "use", "network"))
KINDS = {
    "VAE decode": Kind(VAE, guard_vae, lambda v: v.decode(X), lambda v: v.first_stage_model),
    "VAE encode": Kind(VAE, guard_vae, lambda v: v.encode(X), lambda v: v.first_stage_model),
    "VAE tiles": Kind(VAE, guard_vae, lambda v: v.decode_tiled(X), lambda v: v.first_stage_model),
    "CLIP": Kind(CLIP, guard_clip, lambda c: c.encode_from_tokens(X), lambda c: c.cond_stage_model),
    "CLIP scheduled": Kind(CLIP, guard_clip, lambda c: c.encode_from_tokens_scheduled(X)[0][0],
                       lambda c: c.cond_stage_model),
    "upscaler": Kind(Descriptor, guard_upscaler, lambda d: d(X), lambda d: d.model),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def guarded(kind, value=None):
    return kind.guard(kind.make() if value is None else value, GuardOptions())


def survives(kind, value):
    """Whether a failure in `value` is survived; its result is checked."""
    kind.network(value).fails = 1
    try:
        return bool(torch.equal(kind.use(value), X * 2))
    except torch.OutOfMemoryError:
        return False
    finally:
        kind.network(value).fails = 0


def test_a_guarded_object_has_exactly_the_class_of_the_original(kind):
    value = kind.make()
    again = guarded(kind, guarded(kind, value))
    assert type(again) is type(value)
    assert again is not value
    assert "guard" not in " ".join(vars(value))


def test_a_failure_is_survived_and_the_original_stays_unguarded(kind):
    value = kind.make()
    assert survives(kind, guarded(kind, value))
    assert not survives(kind, value)


def test_guarding_twice_is_guarding_once(kind):
    value = guarded(kind)
    again = kind.guard(value, GuardOptions(max_attempts=3))
    for name, method in vars(again).items():
        if isinstance(method, GuardedMethod):
            assert not isinstance(method.own, GuardedMethod), name
            assert method.options.max_attempts == 3
    assert survives(kind, again)


@pytest.mark.parametrize("copied", [
    copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value)),
], ids=["copy", "deepcopy", "pickle"])
def test_a_copy_of_a_guarded_one_is_of_the_class_and_works(kind, copied):
    made = copied(guarded(kind))
    assert type(made) is kind.make
    assert torch.equal(kind.use(made), X * 2)


def test_a_copy_that_gets_another_device_and_network_uses_these():
    """As ComfyUI's Select VAE Device makes it."""
    made = copy.copy(guard_vae(VAE(), GuardOptions()))
    made.device, made.first_stage_model = "cuda:1", Network()
    made.first_stage_model.decode = lambda x: x * 3
    assert torch.equal(made.decode(X), X * 3)


def test_a_clone_of_a_clip_stays_guarded():
    clone = guarded(KINDS["CLIP"]).clone().clone()
    assert type(clone) is CLIP
    assert survives(KINDS["CLIP"], clone)


def test_methods_that_another_pack_had_set_on_the_instance_are_called_and_guarded():
    vae = VAE()
    plain, calls = vae.decode, []

    def theirs(self, samples):  # bound to the original, as packs do it
        calls.append(self)
        return plain(samples) + 1

    vae.decode = types.MethodType(theirs, vae)
    guarded_vae = guard_vae(vae, GuardOptions())
    vae.first_stage_model.fails = 1
    assert torch.equal(guarded_vae.decode(X), X * 2 + 1)
    assert calls == [vae, vae]
    assert torch.equal(copy.copy(guarded_vae).decode(X), X * 2 + 1)


def test_methods_that_another_pack_sets_afterwards_go_through_the_guard():
    vae = guard_vae(VAE(), GuardOptions())
    ours = vae.decode
    vae.decode = lambda samples: ours(samples) + 1
    vae.first_stage_model.fails = 1
    assert torch.equal(vae.decode(X), X * 2 + 1)


class Standing:
    """An object in place of a VAE that gives the VAE's attributes, as some packs' models do."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)


def test_a_model_that_gives_its_methods_by_getattr_is_guarded():
    inner = VAE()
    standing = guard_vae(Standing(inner), GuardOptions())
    inner.first_stage_model.fails = 1
    assert type(standing) is Standing
    assert torch.equal(standing.decode(X), X * 2)
    assert torch.equal(copy.deepcopy(standing).decode(X), X * 2)
