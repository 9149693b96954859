"""Cast: objects that carry a model, and pipelines of several."""

import types

import torch
from support.blocks import Block, Quantised

import headroom

MIB = 2**20


class Wrapper:
    """An object with a bare module in it, as STYLE_MODEL and older UPSCALE_MODELs are."""

    def __init__(self, model):
        self.model = model
        self.model_dtype = torch.float32
        self.sizes = [1, 2]
        self.name = "wrapper"
        self.run = self.call
        self.estimate = lambda: self.model

    def call(self, x):
        return self.model(x)


def test_an_object_with_a_module_is_copied_around_the_copy(module, x):
    wrapper = Wrapper(module)
    copied = headroom.cast(wrapper).value
    assert type(copied) is Wrapper and copied is not wrapper
    assert wrapper.model is module and copied.model is not module
    assert copied.run.__self__ is copied and copied.estimate() is copied.model
    assert wrapper.run.__self__ is wrapper and wrapper.estimate() is module
    assert copied.model_dtype == torch.bfloat16 and wrapper.model_dtype == torch.float32
    copied.sizes.append(3)
    assert wrapper.sizes == [1, 2]
    assert copied.call(x).isfinite().all()


def test_a_t2i_adapter_and_a_control_lora_pass_through_with_the_reason():
    adapter = types.SimpleNamespace(t2i_model=torch.nn.Linear(2, 2))
    done = headroom.cast(adapter)
    assert done.value is adapter and "T2I adapter" in done.report.text
    lora = types.SimpleNamespace(control_weights={"up": torch.zeros(2)})
    again = headroom.cast(lora)
    assert "Control-LoRA" in again.report.text


def test_a_style_model_whose_norms_only_take_float32_passes_through_with_the_reason():
    """T2I's: torch refuses its cast weights. FLUX.1 Redux is cast."""
    kinds = {name: type(name, (Block,), {}) for name in ("StyleAdapter", "ReduxImageEncoder")}
    style, redux = (Wrapper(kinds[name]()) for name in ("StyleAdapter", "ReduxImageEncoder"))
    done = headroom.cast(style)
    assert done.value is style and "only take float32" in done.report.text
    assert headroom.cast(redux).value is not redux


class Prompter:
    def __init__(self, text_encoder, tokenizer):
        self.text_encoder = text_encoder
        self.tokenizer = tokenizer


class Pipeline:
    """As DiffSynth's: components as attributes, and a helper that holds one of them too."""

    def __init__(self, text_encoder, dit):
        self.text_encoder, self.dit = text_encoder, dit
        self.tokenizer = object()
        self.prompter = Prompter(text_encoder, self.tokenizer)
        self.torch_dtype = torch.float32

    def load_models_to_device(self, names):
        return names


def test_every_component_of_a_pipeline_is_cast_and_helpers_follow(module):
    pipeline = Pipeline(module, Block())
    done = headroom.cast(pipeline)
    copied = done.value
    dtypes = {copied.text_encoder.linear.weight.dtype, copied.dit.linear.weight.dtype}
    assert dtypes == {torch.bfloat16}
    assert copied.prompter.text_encoder is copied.text_encoder
    assert copied.tokenizer is pipeline.tokenizer is copied.prompter.tokenizer
    assert copied.torch_dtype == torch.bfloat16
    assert pipeline.prompter.text_encoder is module and module.dtype == torch.float32
    assert len(done.models) == 2


def test_a_quantised_component_stays_while_the_others_are_cast(module):
    other = Block()
    other.linear.weight = torch.nn.Parameter(
        other.linear.weight.data.as_subclass(Quantised), requires_grad=False
    )
    pipeline = Pipeline(module, other)
    done = headroom.cast(pipeline)
    assert done.value.dit is other and done.value.text_encoder is not module
    assert "quantised (Quantised weights)" in done.report.text


def test_a_pipeline_that_is_a_module_itself_is_copied_around_its_components(module):
    class ModulePipeline(torch.nn.Module):
        def __init__(self, dit):
            super().__init__()
            self.dit = dit
            self.torch_dtype = torch.float32

        def load_models_to_device(self, names):
            return names

    pipeline = ModulePipeline(module)
    copied = headroom.cast(pipeline).value
    assert copied.dit.linear.weight.dtype == torch.bfloat16 and pipeline.dit is module
    assert copied.torch_dtype == torch.bfloat16


def test_hooks_that_bring_the_original_back_are_not_copied(module):
    from headroom.models import unmanaged as comeback

    hook_owner = module.linear
    comeback._armed.add(hook := (lambda *_: None))
    hook_owner.register_forward_pre_hook(hook)
    copied = headroom.cast(module).value
    assert hook not in copied.linear._forward_pre_hooks.values()
    assert hook in hook_owner._forward_pre_hooks.values()


def test_objects_beside_the_weights_are_not_asked_for_attributes_that_they_lack(module):
    asked = []

    class Config:
        def __getattr__(self, name):
            asked.append(name)

        def __deepcopy__(self, memo):
            return self

    module.config, wrapper = Config(), Wrapper(module)
    wrapper.config = module.config
    copied = headroom.cast(wrapper).value
    assert copied.config is copied.model.config is module.config and asked == []
