"""Whose a function is, by the name of its module."""

import functools
from types import SimpleNamespace

import pytest

from headroom.base.modules import module_of


def function_of(module):
    def function():
        """Does nothing."""

    function.__module__ = module
    return function


@pytest.mark.parametrize(("module", "name"), [
    ("comfy.samplers", "comfy.samplers"),
    ("/home/me/ComfyUI/comfy_extras/nodes_sag", "comfy_extras.nodes_sag"),
    ("C:\\ComfyUI\\comfy_extras\\nodes_sag", "comfy_extras.nodes_sag"),
    ("/home/me/ComfyUI/custom_nodes/a_pack.nodes", "/home/me/ComfyUI/custom_nodes/a_pack.nodes"),
])
def test_an_extra_node_that_comfyui_imports_by_its_path_is_named_as_its_own(module, name):
    function = function_of(module)
    assert module_of(function) == name
    assert module_of(functools.partial(functools.partial(function, 1), 2)) == name


def test_an_object_is_of_the_module_of_its_class():
    assert module_of(SimpleNamespace()) == "types"
