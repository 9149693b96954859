"""Methods set on an instance, bound to the object that they were taken from."""

import copy

from .anything import ANYTHING, Node


class WorldHookedVAE(Node):
    """A copy of a VAE whose `decode` is the original's, and whose picture is brighter."""

    INPUTS = {"vae": ("VAE",)}
    RETURN_TYPES = ("VAE",)

    def run(self, vae):
        hooked, original = copy.copy(vae), vae.decode
        hooked.decode = lambda *args, **kwargs: original(*args, **kwargs).mul(0.5).add(0.5)
        return (hooked,)


class WorldHookedCLIP(Node):
    """A clone of a CLIP whose `encode_from_tokens_scheduled` is the original's, and doubled."""

    INPUTS = {"clip": ("CLIP",)}
    RETURN_TYPES = ("CLIP",)

    def run(self, clip):
        hooked, original = clip.clone(), clip.encode_from_tokens_scheduled

        def doubled(*args, **kwargs):
            return [[cond * 2.0, more] for cond, more in original(*args, **kwargs)]

        hooked.encode_from_tokens_scheduled = doubled
        return (hooked,)


class Silent:
    """A model's wrapper that answers None for every attribute that it does not have."""

    def __init__(self, model):
        self.__dict__["model"] = model

    def __getattr__(self, name):
        return None


class WorldSilentModel(Node):
    """A value on a MODEL wire's side that is no patcher and answers None for everything."""

    INPUTS = {"model": ("MODEL",)}
    RETURN_TYPES = ("MODEL", ANYTHING)

    def run(self, model):
        return (model, Silent(model.model))
