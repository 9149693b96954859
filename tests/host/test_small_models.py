"""The small models' weights, as ComfyUI's own classes name and shape them."""

import json
import math

import pytest

from tools import models

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def shapes(models_dir):
    """`shapes(file, prefix)`: the weights of a file that begin so, without the prefix."""

    def read(name, prefix=""):
        with (models_dir / name).open("rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        return {key.removeprefix(prefix): tuple(weight["shape"]) for key, weight in header.items()
                if key.startswith(prefix) and key != "__metadata__"}

    return read


def parameters(shapes):
    return sum(math.prod(shape) for shape in shapes.values())


def test_the_architectures_have_the_published_numbers_of_parameters(shapes):
    demo = models.DEMO_CHECKPOINT
    assert parameters(shapes(demo, "cond_stage_model.transformer.text_model.")) == 123_060_480
    assert parameters(shapes(demo, "first_stage_model.")) == 83_653_863
    assert parameters(shapes(models.TAESD_ENCODER)) == 1_222_532
    assert parameters(shapes(models.TAESD_DECODER)) == 1_222_531


def test_every_input_block_has_its_place_in_the_output_blocks(shapes):
    names = shapes(models.DEMO_CHECKPOINT, "model.diffusion_model.")
    blocks = {kind: {n.split(".")[1] for n in names if n.startswith(kind)} for kind in ("in", "ou")}
    assert len(blocks["in"]) == len(blocks["ou"]) == 4


def test_a_controlnet_shares_the_trunk_of_its_unet(shapes):
    unet = shapes(models.DEMO_CHECKPOINT, "model.diffusion_model.")
    control = shapes(models.DEMO_CONTROLNET)
    trunk = [name for name in unet
             if name.startswith(("input_blocks", "middle_block", "time_embed"))]
    assert trunk and all(control[name] == unet[name] for name in trunk)


def test_a_lora_fits_the_layers_it_patches(shapes):
    unet = shapes(models.TEST_CHECKPOINT, "model.diffusion_model.")
    lora = shapes(models.TEST_LORA)
    name = "input_blocks.1.1.transformer_blocks.0.attn2.to_k"
    key = "lora_unet_" + name.replace(".", "_")
    assert (lora[f"{key}.lora_up.weight"][0], lora[f"{key}.lora_down.weight"][1]) == unet[
        f"{name}.weight"
    ]
