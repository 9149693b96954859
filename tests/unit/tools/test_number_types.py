"""How the weights of published files lie in them, and which files are known by name."""

import json
from collections import Counter

import pytest

from tools.errors import DevError
from tools.number_types import INT8, NVFP4, SCALED, SCALED_BF16, stored
from tools.public_models import PUBLIC, sparse_files
from tools.public_single import single
from tools.sparse_files import Weight

SHAPES = {"a.weight": (512, 256), "b.weight": (512, 100), "a.bias": (512,),
          "norm.weight": (512, 256), "table.weight": (6, 512)}


def test_int8_layers_have_a_scale_a_row_and_are_rotated_where_their_inputs_allow_it():
    found = stored(INT8, "p.", SHAPES)
    assert found.weights["p.a.weight"] == Weight("I8", (512, 256))
    assert found.weights["p.a.weight_scale"] == Weight("F32", (512, 1))
    assert json.loads(found.values["p.a.comfy_quant"])["convrot"] is True
    assert "convrot" not in json.loads(found.values["p.b.comfy_quant"])
    assert {name for name, weight in found.weights.items() if weight.dtype == "BF16"} == {
        "p.a.bias", "p.norm.weight", "p.table.weight"}


def test_scaled_float8_is_marked_and_leaves_norms_narrow_tables_and_odd_widths():
    found = stored(SCALED, "", SHAPES).weights
    assert found["scaled_fp8"] == Weight("F8_E4M3", (0,))
    assert {name for name, weight in found.items() if weight.dtype == "F16"} == {
        "a.bias", "b.weight", "norm.weight", "table.weight"}
    other = stored(SCALED_BF16, "", SHAPES).weights
    assert {name: "F16" if weight.dtype == "BF16" else weight.dtype
            for name, weight in other.items()} == {
        name: weight.dtype for name, weight in found.items()}


def test_four_bits_have_two_a_byte_and_a_scale_for_sixteen_inputs_also_in_a_bank_of_experts():
    found = stored(NVFP4, "", {**SHAPES, "mlp.experts.up.weight": (8, 100, 256)})
    assert found.weights["a.weight"] == Weight("U8", (512, 128))
    assert found.weights["a.weight_scale"] == Weight("F8_E4M3", (512, 16))
    assert found.weights["a.weight_scale_2"] == Weight("F32", ())
    assert found.weights["b.weight"].dtype == "BF16"  # 100 inputs are no whole blocks
    assert json.loads(found.values["a.comfy_quant"]) == {"format": "nvfp4"}
    bank = stored(NVFP4, "", {"mlp.experts.up.weight": (8, 96, 256)})
    assert bank.weights["mlp.experts.up.weight"] == Weight("U8", (8, 96, 128))
    assert bank.weights["mlp.experts.up.weight_scale"] == Weight("F8_E4M3", (8, 128, 16))
    assert json.loads(bank.values["mlp.experts.up.comfy_quant"])["num_experts"] == 8


def test_the_settings_that_comfyui_reads_beside_weights_are_those_the_weights_are_made_with():
    place = "checkpoints/ltx-2-19b-dev.safetensors"
    made = sparse_files([place], lambda wanted: [{} for _ in wanted])[place]
    told = json.loads(made.metadata["config"])
    assert set(told) == {"transformer", "vae", "audio_vae", "vocoder"}
    sizes = json.loads(PUBLIC[place][0].made_by[2])
    assert told["transformer"].items() <= sizes.items()


def test_each_published_file_is_known_once():
    names = [f"{place}.safetensors" for place, _, _ in single()]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert set(names) <= set(PUBLIC)


def test_a_comfyui_without_the_class_of_a_model_is_told_so_in_a_sentence():
    def ask(_wanted):
        raise DevError("ComfyUI could not name its models' weights:\nTraceback\nNo module 'krea2'")

    with pytest.raises(DevError, match=r"lacks the class of one of .*krea2.*--comfyui \(No module"):
        sparse_files(["diffusion_models/krea2_turbo_fp8_scaled.safetensors"], ask)
