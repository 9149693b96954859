"""LoRAs whose files nobody knows are left out of a dry run, and nothing else is."""

from support.prompts import node

from tools.fit_loras import without_loras
from tools.fit_prompt import ObjectInfo


def kind(inputs, *output):
    return {"input": {"required": {name: [name.upper()] for name in inputs}}, "output": output}


REGISTRY = ObjectInfo({
    "Checkpoint": kind((), "MODEL", "CLIP", "VAE"),
    "LoraLoader": kind(("model", "clip"), "MODEL", "CLIP"),
    "LoraLoaderModelOnly": kind(("model",), "MODEL"),
    "CreateHookLora": kind(("hooks",), "HOOKS"),
})
UNKNOWN = {"style.safetensors", "turbo.safetensors"}


def prompt_with(**more):
    return {"1": node("Checkpoint", ckpt_name="base.safetensors"),
            "2": node("LoraLoader", model=["1", 0], clip=["1", 1], lora_name="style.safetensors",
                      strength_model=1.0),
            "3": node("LoraLoaderModelOnly", model=["2", 0], lora_name="turbo.safetensors"),
            "4": node("KSampler", model=["3", 0], positive=["5", 0], steps=20),
            "5": node("CLIPTextEncode", clip=["2", 1], text="style.safetensors"), **more}


def test_nodes_of_unknown_loras_are_left_out_and_named():
    prompt = prompt_with()
    found, left_out = without_loras(prompt, UNKNOWN, REGISTRY)
    assert found == {
        "1": prompt["1"], "5": node("CLIPTextEncode", clip=["1", 1], text="style.safetensors"),
        "4": node("KSampler", model=["1", 0], positive=["5", 0], steps=20)}
    assert left_out == ["style.safetensors (node 2)", "turbo.safetensors (node 3)"]
    assert prompt == prompt_with()


def test_a_lora_that_is_known_stays():
    found, left_out = without_loras(prompt_with(), {"turbo.safetensors"}, REGISTRY)
    assert found["4"]["inputs"]["model"] == ["2", 0] and "2" in found
    assert left_out == ["turbo.safetensors (node 3)"]


def test_a_lora_node_with_outputs_that_are_no_inputs_stays():
    prompt = {"1": node("Checkpoint", ckpt_name="turbo.safetensors"),
              "2": node("CreateHookLora", lora_name="style.safetensors"),
              "3": node("Unheard", lora_name="style.safetensors", model=["1", 0])}
    assert without_loras(prompt, UNKNOWN, REGISTRY) == (prompt, [])
