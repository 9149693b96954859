"""Guards are put where a model is used, and nothing else of the prompt changes."""

import copy

import pytest
from support.guard_prompts import Registry, node, picture

from headroom.base.graph import Graph
from headroom.base.guards import GUARD_INPUTS
from headroom.base.guards import guarded as guarded_graph


def guarded(prompt, into=None):
    before = copy.deepcopy(prompt)
    found = guarded_graph(Graph(prompt, Registry()), into)
    assert prompt == before
    return found


def guards(found):
    """Where each guard takes its model from."""
    return {name: found.prompt[name]["inputs"]["model"] for name in found.guards}


def left(found):
    """The wires that are not guarded: the node, its input and what comes."""
    return [(wire.taker, wire.input, wire.given) for wire in found.left]


def test_every_model_on_its_way_into_a_node_that_uses_it_gets_one_guard_with_all_its_inputs():
    found = guarded(picture())
    assert guards(found) == {
        "headroom-guard-1-1": ["1", 1], "headroom-guard-1-0": ["1", 0],
        "headroom-guard-1-2": ["1", 2],
    }
    assert found.prompt["4"]["inputs"] == {
        "model": ["headroom-guard-1-0", 0], "positive": ["2", 0], "latent": ["3", 0],
    }
    assert found.prompt["5"]["inputs"]["vae"] == ["headroom-guard-1-2", 0]
    assert left(found) == []
    assert found.prompt["headroom-guard-1-0"] == {
        "class_type": "HeadroomOOMGuard", "inputs": {"model": ["1", 0], **GUARD_INPUTS},
        "_meta": {"title": "OOM Guard"}}


def test_a_vae_that_a_patcher_uses_is_guarded_and_the_patch_goes_with_its_model():
    prompt = {**picture(), "8": node("PatchLoad", name="p.safetensors"),
              "9": node("PatchWithVae", model=["1", 0], model_patch=["8", 0], vae=["1", 2])}
    prompt["4"]["inputs"]["model"] = ["9", 0]
    found = guarded(prompt)
    assert found.prompt["9"]["inputs"] == {
        "model": ["1", 0], "model_patch": ["8", 0], "vae": ["headroom-guard-1-2", 0]}
    assert found.prompt["4"]["inputs"]["model"] == ["headroom-guard-9-0", 0]
    assert left(found) == []


def test_a_model_of_comfyui_s_own_that_no_guard_takes_is_named():
    prompt = {**picture(), "8": node("VisionLoad", clip_name="v.safetensors"),
              "9": node("VisionEncode", clip_vision=["8", 0]),
              "10": node("Text", value="not a model.safetensors"),
              "11": node("Encode", clip=["1", 1], text=["10", 0])}
    found = guarded(prompt)
    assert left(found) == [("9", "clip_vision", "CLIP_VISION")]
    assert found.prompt["9"] is prompt["9"]


def test_texts_and_latents_of_a_loader_that_makes_all_of_them_are_no_models_without_a_guard():
    found = guarded({"1": node("LoadAll", name="a.safetensors"),
                     "2": node("Sample", model=["1", 0], positive=["1", 1], latent=["1", 2])})
    assert guards(found) == {"headroom-guard-1-0": ["1", 0]}
    assert left(found) == []


def test_two_takers_of_one_output_share_its_guard_and_guarding_twice_is_guarding_once():
    prompt = {**picture(), "7": node("Encode", clip=["1", 1], text="y")}
    found = guarded(prompt)
    assert len(found.guards) == 3
    assert found.prompt["2"]["inputs"]["clip"] == found.prompt["7"]["inputs"]["clip"]
    again = guarded(found.prompt)
    assert again.prompt == found.prompt and again.guards == {}


def test_a_node_that_only_patches_a_model_gets_no_guard_but_its_output_does():
    prompt = {**picture(), "7": node("Lora", model=["1", 0], clip=["1", 1])}
    prompt["4"]["inputs"]["model"] = ["7", 0]
    prompt["2"]["inputs"]["clip"] = ["7", 1]
    found = guarded(prompt)
    assert found.prompt["7"] is prompt["7"]
    assert sorted(guards(found).values()) == [["1", 2], ["7", 0], ["7", 1]]


def test_a_node_that_samples_and_hands_its_model_on_is_a_user():
    prompt = {"1": node("Checkpoint"), "2": node("SampleAndPass", model=["1", 0]),
              "3": node("SaveModel", model=["2", 0])}
    assert sorted(guards(guarded(prompt)).values()) == [["1", 0], ["2", 0]]


@pytest.mark.parametrize("hop", [
    node("Reroute", **{"": ["1", 0]}), node("Match", value=["1", 0]),
    node("Switch", on=["1", 0], off=["9", 0]), node("GoneForGood", model=["1", 0]),
])
def test_behind_nodes_of_any_type_the_taker_says_what_comes(hop):
    prompt = {**picture(), "7": hop, "8": node("Reroute", **{"": ["7", 0]}),
              "9": node("Checkpoint")}
    for last in "78":
        prompt["4"]["inputs"]["model"] = [last, 0]
        found = guarded(prompt)
        assert found.prompt["7"] is prompt["7"]
        assert found.prompt["4"]["inputs"]["model"] == [f"headroom-guard-{last}-0", 0]
        assert last == "7" or ["7", 0] not in guards(found).values()


def test_optional_inputs_unions_and_growing_inputs_are_guarded():
    prompt = {
        "1": node("Checkpoint"), "2": node("ControlLoad"),
        "3": node("Control", positive=["4", 0], control_net=["2", 0], vae=["1", 2]),
        "4": node("Encode", clip=["1", 1], text="x"), "5": node("Multi", any_model=["1", 1]),
        "6": {"class_type": "Grow", "inputs": {"models.model0": ["1", 0]}},
        "7": node("UpscaleLoad"), "8": node("Upscale", upscale_model=["7", 0], image=["9", 0]),
        "9": node("Decode", samples=["6", 0], vae=["1", 2]),
    }
    found = guarded(prompt)
    assert sorted(guards(found).values()) == [["1", 0], ["1", 1], ["1", 2], ["7", 0]]
    assert found.prompt["6"]["inputs"] == {"models.model0": ["headroom-guard-1-0", 0]}


def test_a_controlnet_is_guarded_by_the_model_that_it_is_sampled_with_and_stays_what_it_is():
    prompt = {**picture(), "7": node("ControlLoad"),
              "8": node("Control", positive=["2", 0], control_net=["9", 0]),
              "9": node("ControlType", control_net=["7", 0])}
    prompt["4"]["inputs"]["positive"] = ["8", 0]
    found = guarded(prompt)
    assert found.prompt["8"] is prompt["8"] and found.prompt["9"] is prompt["9"]
    assert found.prompt["4"]["inputs"]["model"] == ["headroom-guard-1-0", 0]
    assert left(found) == []


def test_a_list_on_its_way_to_a_node_that_takes_lists_is_left_as_it_may_be_empty():
    prompt = {"1": node("Checkpoint"), "2": node("Models", model=["1", 0]),
              "3": node("TakesLists", models=["2", 0]), "4": node("TakesLists", models=["1", 0]),
              "5": node("SaveModel", model=["2", 0])}
    found = guarded(prompt)
    assert found.prompt["3"] is prompt["3"]
    assert left(found) == [("3", "models", "MODEL")]
    assert sorted(guards(found).values()) == [["1", 0], ["2", 0]]


def test_a_node_that_checks_the_types_of_its_wires_gets_the_model_itself():
    found = guarded({**picture(), "7": node("SampleTyped", model=["1", 0])})
    assert found.prompt["7"]["inputs"] == {"model": ["1", 0]}
    assert left(found) == [("7", "model", "MODEL")]
    assert found.prompt["4"]["inputs"]["model"] == ["headroom-guard-1-0", 0]


def test_a_pipe_of_a_custom_type_is_left_and_named_and_what_goes_into_it_is_guarded():
    prompt = {"1": node("Checkpoint"),
              "2": node("Pipe", model=["1", 0], clip=["1", 1], vae=["1", 2]),
              "3": node("PipeSample", pipe=["2", 0])}
    found = guarded(prompt)
    assert left(found) == [("3", "pipe", "BASIC_PIPE")]
    assert len(found.guards) == 3


def test_a_wire_that_validation_refuses_is_left_to_validation():
    prompt = picture()
    prompt["4"]["inputs"]["model"] = ["1", 2]  # a VAE
    assert guarded(prompt).prompt["4"] is prompt["4"]
    prompt["4"]["inputs"]["model"] = ["1", 7]  # an output that is not there
    assert guarded(prompt).prompt["1"] is prompt["1"]


def test_a_wire_with_a_guard_of_the_user_stays_as_it_is():
    prompt = {**picture(), "7": node("HeadroomOOMGuard", model=["1", 0], max_attempts=3)}
    prompt["4"]["inputs"]["model"] = ["7", 0]
    found = guarded(prompt)
    assert found.prompt["4"] is prompt["4"]
    assert found.prompt["7"] is prompt["7"]


def test_a_model_behind_a_guard_of_the_user_keeps_the_options_of_that_guard():
    prompt = {**picture(), "7": node("HeadroomOOMGuard", model=["1", 0], max_attempts=3),
              "8": node("Lora", model=["7", 0], clip=["1", 1])}
    prompt["4"]["inputs"]["model"] = ["8", 0]
    prompt["2"]["inputs"]["clip"] = ["8", 1]
    found = guarded(prompt)
    assert found.prompt["4"] is prompt["4"]
    assert found.prompt["2"]["inputs"]["clip"] == ["headroom-guard-8-1", 0]


@pytest.mark.parametrize(("hop", "guards_again"), [
    (node("VaeDevice", vae=["7", 0]), True), (node("Reroute", **{"": ["7", 0]}), False),
])
def test_a_copy_that_a_node_makes_of_a_guarded_vae_has_lost_its_guard(hop, guards_again):
    """Select VAE Device copies a VAE; a reroute hands on the very one."""
    prompt = {**picture(), "7": node("HeadroomOOMGuard", model=["1", 2], max_attempts=3), "8": hop}
    prompt["5"]["inputs"]["vae"] = ["8", 0]
    assert ("headroom-guard-8-0" in guarded(prompt).guards) is guards_again


def test_a_model_merged_of_a_guarded_and_another_one_is_guarded():
    prompt = {**picture(), "7": node("HeadroomOOMGuard", model=["1", 0], max_attempts=3),
              "8": node("Merge", model1=["9", 0], model2=["7", 0]), "9": node("Checkpoint")}
    prompt["4"]["inputs"]["model"] = ["8", 0]
    assert guarded(prompt).prompt["4"]["inputs"]["model"] == ["headroom-guard-8-0", 0]


def test_ids_are_stable_cannot_collide_and_hold_no_colon_of_a_subgraph():
    prompt = {**picture(), "headroom-guard-1-0": node("Empty")}
    found = guarded(prompt)
    assert "headroom-guard-1-0_" in found.guards
    assert found.prompt["headroom-guard-1-0"] is prompt["headroom-guard-1-0"]
    assert guarded(prompt).guards == found.guards
    inner = {f"57:{name}": {**n, "inputs": {
        key: [f"57:{v[0]}", v[1]] if isinstance(v, list) else v for key, v in n["inputs"].items()
    }} for name, n in picture().items()}
    assert all(":" not in name for name in guarded(inner).guards)
    assert len(guarded(inner).guards) == 3


def test_two_subgraph_ids_that_look_alike_get_two_guards():
    prompt = {"1:2": node("Checkpoint"), "1_2": node("Checkpoint"),
              "a": node("SaveModel", model=["1:2", 0]), "b": node("SaveModel", model=["1_2", 0])}
    found = guarded(prompt)
    assert guards(found) == {"headroom-guard-1_2-0": ["1:2", 0],
                             "headroom-guard-1_2-0_": ["1_2", 0]}


def test_only_the_named_nodes_get_guards():
    found = guarded(picture(), into={"5", "6"})
    assert guards(found) == {"headroom-guard-1-2": ["1", 2]}
    assert found.prompt["4"] == picture()["4"]


def test_a_guider_that_was_finished_is_wrapped_up_again_in_a_copy():
    prompt = {
        "1": node("Checkpoint"), "2": node("Encode", clip=["1", 1], text="x"),
        "3": node("Guider", model=["1", 0], positive=["2", 0]),
        "4": node("GuiderTwice", guider=["3", 0]), "5": node("Empty"),
        "6": node("SampleGuided", guider=["4", 0], latent=["5", 0]),
        "7": node("SampleGuided", guider=["4", 0], latent=["6", 0]),
    }
    found = guarded(prompt, into={"7"})
    assert {name: found.prompt[name] for name in "123456"} == {name: prompt[name]
                                                              for name in "123456"}
    assert found.prompt["7"]["inputs"]["guider"] == ["headroom-copy-4", 0]
    assert found.prompt["headroom-copy-4"]["inputs"]["guider"] == ["headroom-copy-3", 0]
    assert found.prompt["headroom-copy-3"]["inputs"] == {
        "model": ["headroom-guard-1-0", 0], "positive": ["2", 0],
    }
