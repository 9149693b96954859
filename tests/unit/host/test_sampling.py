"""What OOM Guard cleans up before a sampling, and after one that failed."""

from types import SimpleNamespace

import pytest
from support.comfyui import on_comfyui


@pytest.fixture
def sampling(monkeypatch):
    """The adapter on a ComfyUI whose own functions only note that they were called."""
    return on_comfyui(
        monkeypatch, "sampling", comfy__patcher_extension={"WrappersMP": SimpleNamespace(
            PREDICT_NOISE=1, CALC_COND_BATCH=2, APPLY_MODEL=3, DIFFUSION_MODEL=4)},
        comfy__sampler_helpers={
            "cleanup_models": lambda conds, models: [model.cleanup() for model in models]},
        comfy__samplers={"pre_run_control": lambda model, cond: [
            entry["control"].pre_run() for entry in cond if "control" in entry]})


class ControlLora:
    """As ComfyUI's: it has its network only from `pre_run` on, and deletes it in `cleanup`."""

    def __init__(self):
        self.timestep_range = None

    def pre_run(self):
        self.timestep_range, self.control_model = (1.0, 0.0), "network"

    def cleanup(self):
        del self.control_model
        self.control_model = self.timestep_range = None


def test_a_control_lora_is_cleaned_up_only_after_it_was_prepared(sampling):
    control = ControlLora()
    conds = {"positive": [{"control": control}, {}], "negative": [{"control": control}]}
    patcher = SimpleNamespace(cleanup=lambda: None, clean_hooks=lambda: None, load_device="cpu",
                              model_patches_to=lambda device: None)
    guider = SimpleNamespace(conds=conds, model_patcher=patcher)
    model = SimpleNamespace(current_patcher=patcher)
    sampling.start_sampling(guider)  # of a workflow's first run
    sampling.end_sampling(guider)  # it failed before it prepared the ControlNets
    sampling.reset_conditioning(model, list(conds.values()))
    assert control.control_model == "network"
    sampling.start_sampling(guider)  # after a sampling that failed
    assert control.control_model is None
