"""A real diffusers pipeline inside the server, as a pack with its own pipelines would hold it."""

import importlib.util
import json
import tempfile
from pathlib import Path

import comfy.model_management as mm
import torch

BUILDER = Path(__file__).resolve().parents[3] / "support" / "tiny_diffusers.py"


def builder():
    spec = importlib.util.spec_from_file_location("headroom_tiny_diffusers", BUILDER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def encode(pipeline):
    with torch.inference_mode():
        return pipeline.encode_prompt("a red cube", mm.get_torch_device(), 1, True)


class ProbeEncodedPipeline:
    """Build the pipeline with model offload and run encode_prompt alone."""

    CATEGORY = "headroom_probe"
    RETURN_TYPES = ("PIPELINE", "EMBEDDINGS")
    FUNCTION = "run"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}}

    @torch.inference_mode(False)
    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            pipeline = builder().pipeline_in(Path(folder))
        pipeline.enable_model_cpu_offload(device=mm.get_torch_device())
        return (pipeline, encode(pipeline))


class ProbePipeline:
    """Which components are on the GPU, and whether it encodes the same again when asked to."""

    CATEGORY = "headroom_probe"
    OUTPUT_NODE = True
    RETURN_TYPES = ("PIPELINE",)
    FUNCTION = "run"

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {"pipeline": ("PIPELINE",)},
            "optional": {"again": ("EMBEDDINGS",)},
        }

    def run(self, pipeline, again=None):
        modules = {
            name: part for name, part in pipeline.components.items()
            if isinstance(part, torch.nn.Module)
        }
        answer = {
            "on_gpu": sorted(
                name for name, part in modules.items()
                if any(p.device.type != "cpu" for p in part.parameters())
            ),
            "same": again is None or all(
                torch.equal(a, b) for a, b in zip(again, encode(pipeline), strict=True)
            ),
        }
        return {"ui": {"text": [json.dumps(answer)]}, "result": (pipeline,)}


NODE_CLASS_MAPPINGS = {
    "ProbeEncodedPipeline": ProbeEncodedPipeline,
    "ProbePipeline": ProbePipeline,
}
