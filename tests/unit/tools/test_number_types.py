"""How the weights of published files lie in them, and which files are known by name."""

import json
from collections import Counter

import pytest

from tools.errors import DevError
from tools.number_types import INT8, SCALED, stored
from tools.public_models import PUBLIC, sparse_files
from tools.public_newer import newer
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


def test_each_published_file_is_known_once():
    names = [f"{place}.safetensors" for place, _, _ in newer()]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert set(names) <= set(PUBLIC)


def test_a_comfyui_without_the_class_of_a_model_is_told_so_in_a_sentence():
    def ask(_wanted):
        raise DevError("ComfyUI could not name its models' weights:\nTraceback\nNo module 'krea2'")

    with pytest.raises(DevError, match=r"lacks the class of one of .*krea2.*--comfyui \(No module"):
        sparse_files(["diffusion_models/krea2_turbo_fp8_scaled.safetensors"], ask)
