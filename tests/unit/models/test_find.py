"""Every model in any value is found, once, whatever kind of object carries it."""

from types import SimpleNamespace

import pytest
import torch
from support.hosts import Patcher

from headroom.models.find import FoundModel, find_models


class ControlNet:
    def __init__(self, patcher, previous=None, clone=None):
        self.control_model = patcher.model
        self.control_model_wrapped = patcher
        self.previous_controlnet = previous
        self.multigpu_clones = {"cuda:1": clone} if clone else {}

    def get_models(self):
        others = [*self.multigpu_clones.values(), self.previous_controlnet]
        return [*(model for one in others if one for model in one.get_models()),
                self.control_model_wrapped]


class T2IAdapter:
    previous_controlnet = None

    def __init__(self):
        self.t2i_model = torch.nn.Linear(2, 2)

    def get_models(self):
        return []


def handles(value):
    return [model.handle for model in find_models(value)]


def test_a_model_wire_is_its_own_patcher():
    patcher = Patcher()
    assert find_models(patcher) == [FoundModel("patcher", patcher)]


@pytest.mark.parametrize("wrap", [
    lambda p: SimpleNamespace(patcher=p, cond_stage_model=p.model),
    lambda p: [p], lambda p: (p,), lambda p: {"model": p},
    lambda p: [[torch.zeros(1), {"control": ControlNet(p)}]],
    lambda p: [[torch.zeros(1), {"gligen": ("position", SimpleNamespace(patcher=p), [])}]],
], ids=["clip or vae", "list", "tuple", "dict", "conditioning", "gligen"])
def test_the_patcher_inside_is_found_and_the_module_behind_it_is_not_counted_again(wrap):
    patcher = Patcher()
    assert handles(wrap(patcher)) == [patcher]


def test_a_chain_of_controlnets_gives_every_one_with_its_clones_on_other_gpus():
    first, second, clone = Patcher(), Patcher(), Patcher()
    control = ControlNet(second, ControlNet(first), ControlNet(clone))
    assert set(handles(control)) == {first, second, clone}


def test_an_adapter_without_patcher_gives_its_bare_module_also_behind_a_controlnet():
    adapter, patcher = T2IAdapter(), Patcher()
    found = handles(ControlNet(patcher, previous=adapter))
    assert patcher in found and adapter.t2i_model in found


def test_clones_are_one_model_and_models_named_by_patches_and_second_patchers_are_found():
    model, other = Patcher(), Patcher()
    assert handles([model, Patcher(model.model)]) == [model]
    assert handles(SimpleNamespace(patcher=model, naf=other)) == [model, other]
    patched = Patcher(behind=[other])
    assert handles(patched) == [patched, other]


def test_patchers_in_a_dict_of_an_object_are_found():
    """MediaPipe's face detector has one for close faces and one for all."""
    close, every = Patcher(), Patcher()
    faces = SimpleNamespace(patchers={"short": close, "full": every}, models={"short": close.model})
    assert handles(faces) == [close, every]


def test_a_style_model_and_an_old_upscale_model_give_their_bare_module():
    module = torch.nn.Linear(2, 2)
    assert find_models(SimpleNamespace(model=module)) == [FoundModel("module", module)]


def test_a_bare_module_is_a_model():
    module = torch.nn.Linear(2, 2)
    assert handles({"a": [module]}) == [module]


def test_a_list_that_contains_itself_ends():
    value = [Patcher()]
    value.append(value)
    assert len(find_models(value)) == 1


@pytest.mark.parametrize("value", [
    None, 3, "text", torch.zeros(2), {"samples": torch.zeros(1)}, [],
])
def test_values_without_a_model_give_nothing(value):
    assert find_models(value) == []


class FakePipeline:
    """As diffusers: `components` is a property of the class."""

    def __init__(self):
        self.unet = torch.nn.Linear(2, 2)
        self.tokenizer = object()

    @property
    def components(self):
        return {"unet": self.unet, "tokenizer": self.tokenizer}

    def maybe_free_model_hooks(self):
        pass


class FakeDiffSynth(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dit = torch.nn.Linear(2, 2)

    def load_models_to_device(self, names):
        pass


@pytest.mark.parametrize("kind", [FakePipeline, FakeDiffSynth])
def test_a_pipeline_is_one_model_with_its_modules(kind):
    pipeline = kind()
    (found,) = find_models(pipeline)
    assert found.kind == "pipeline" and len(found.modules) == 1


class AnswersAll:
    """As ComfyUI's configuration of a model: it has no such attribute, says so in the log, and
    answers."""

    asked = []

    def __init__(self):
        self.inside = torch.nn.Linear(2, 2)

    def __getattr__(self, name):
        AnswersAll.asked.append(name)


def test_an_object_that_answers_every_name_is_not_asked_for_what_it_lacks():
    config = AnswersAll()
    assert handles({"config": [config]}) == [config.inside]
    assert AnswersAll.asked == []
