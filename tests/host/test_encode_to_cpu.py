"""Encode to CPU against ComfyUI's own CLIPTextEncode: the same bits, in RAM of their own."""

import json

import pytest
from support.encodings import CHECKPOINT, write_text_lora, write_word

from tools.client import node_texts, was_interrupted
from tools.graph import Graph

pytestmark = pytest.mark.host

LONG = "a very long prompt about a cat on a mat in the sun, " * 12
PROMPTS = [
    "a photo of a cat", "", "a (red:1.4) cat and a ((blue)) [grey] dog", LONG,
    "(weights:0.2) across (several sections of text:1.7), " * 14, "猫 und Größe — 🐈",
]
KINDS = ["sd15", "sdxl", "flux", "t5"]
DEFAULTS = {"split": "one prompt", "release_encoder": True, "cache": "off"}


@pytest.fixture(scope="module")
def client(cpu_server):
    return cpu_server.client()


def add_encode(graph, clip, text, **inputs):
    return graph.add("HeadroomEncodeToCPU", clip=clip, text=text, **{**DEFAULTS, **inputs})


def facts(client, graph, *nodes):
    """The facts that ProbeConditioning nodes tell, one dict for each time each one ran."""
    texts = node_texts(client.run(graph.prompt))
    return [json.loads(line) for node in nodes for line in texts[node.id].splitlines()]


def compare(graph, ours, core):
    return graph.add("ProbeConditioning", a=ours, b=core)


def assert_in_ram_of_its_own(told):
    for promise in ("cpu", "contiguous", "detached", "numpy_backed", "own_storage"):
        assert told[promise], promise


@pytest.mark.parametrize("kind", KINDS)
def test_the_conditioning_is_the_one_of_clip_text_encode_bit_by_bit(client, kind):
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind=kind, seed=3)
    checks = [
        compare(graph, add_encode(graph, clip, text), graph.add("CLIPTextEncode", clip=clip,
                                                                text=text))
        for text in PROMPTS
    ]
    told = facts(client, graph, *checks)
    assert [item["same"] for item in told] == [True] * len(PROMPTS)
    for item in told:
        assert_in_ram_of_its_own(item)
    assert len({item["digest"] for item in told}) == len(PROMPTS)


def test_textual_inversion_embeddings_count_as_in_the_core_node(client, cpu_server):
    import torch

    generator = torch.Generator().manual_seed(7)
    write_word(cpu_server, "headroom_word", torch.randn((3, 768), generator=generator))
    graph = Graph()
    clip = graph.add("CheckpointLoaderSimple", ckpt_name=CHECKPOINT)[1]
    checks = []
    for text in ("a embedding:headroom_word of (embedding:headroom_word:1.3)", "a of"):
        core = graph.add("CLIPTextEncode", clip=clip, text=text)
        checks.append(compare(graph, add_encode(graph, clip, text), core))
    told = facts(client, graph, *checks)
    assert [item["same"] for item in told] == [True, True]
    assert told[0]["digest"] != told[1]["digest"]


@pytest.mark.parametrize("schedule", [False, True])
def test_hooks_and_their_schedules_come_out_as_in_the_core_node(client, cpu_server, schedule):
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind="sd15", seed=0)
    hook = graph.add("CreateHookLora", lora_name=write_text_lora(cpu_server), strength_model=1.0,
                     strength_clip=1.0)
    first = graph.add("CreateHookKeyframe", strength_mult=1.0, start_percent=0.0)
    last = graph.add("CreateHookKeyframe", strength_mult=0.2, start_percent=0.5,
                     prev_hook_kf=first)
    keyed = graph.add("SetHookKeyframes", hooks=hook, hook_kf=last)
    hooked = graph.add("SetClipHooks", clip=clip, hooks=keyed, apply_to_conds=True,
                       schedule_clip=schedule)
    core = graph.add("CLIPTextEncode", clip=hooked, text="a cat")
    ours = add_encode(graph, hooked, "a cat", cache="disk")
    plain = graph.add("CLIPTextEncode", clip=clip, text="a cat")
    checks = compare(graph, ours, core), compare(graph, core, plain)
    entry = client.run(graph.prompt)
    texts = node_texts(entry)
    told = [json.loads(texts[check.id]) for check in checks]
    assert told[0]["same"] and not told[1]["same"]
    assert told[0]["entries"] == (2 if schedule else 1) and "hooks" in told[0]["keys"]
    assert "passed on unchanged" in texts[ours.id]
    assert "not used, because" in texts[ours.id]  # this loader names no file


def test_a_lora_on_the_encoder_counts(client, cpu_server):
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind="sd15", seed=0)
    lora = write_text_lora(cpu_server)
    model = graph.add("CheckpointLoaderSimple", ckpt_name=CHECKPOINT)
    patched = graph.add("LoraLoader", model=model, clip=clip, lora_name=lora, strength_model=1.0,
                        strength_clip=0.7)[1]
    core = graph.add("CLIPTextEncode", clip=patched, text="a cat")
    check = compare(graph, add_encode(graph, patched, "a cat"), core)
    plain = compare(graph, add_encode(graph, clip, "a cat"), core)
    told = facts(client, graph, check, plain)
    assert [item["same"] for item in told] == [True, False]


def test_flux_guidance_and_clip_skip_work_on_it(client):
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind="flux", seed=0)
    ours = graph.add("FluxGuidance", conditioning=add_encode(graph, clip, "a cat"), guidance=3.5)
    core = graph.add("FluxGuidance", guidance=3.5,
                     conditioning=graph.add("CLIPTextEncode", clip=clip, text="a cat"))
    small = graph.add("CLIPSetLastLayer", stop_at_clip_layer=-2,
                      clip=graph.add("ProbeEncoder", kind="sd15", seed=0))
    skipped = compare(graph, add_encode(graph, small, "a cat"),
                      graph.add("CLIPTextEncode", clip=small, text="a cat"))
    told = facts(client, graph, compare(graph, ours, core), skipped)
    assert [item["same"] for item in told] == [True, True]
    assert "guidance" in told[0]["keys"]


def add_control(graph, conditioning):
    net = graph.add("ControlNetLoader", control_net_name="headroom_test_controlnet.safetensors")
    image = graph.add("EmptyImage", width=64, height=64, batch_size=1, color=0x808080)
    return graph.add("ControlNetApply", conditioning=conditioning, control_net=net, image=image,
                     strength=0.8)


def add_mixed(graph, encode):
    """Ours (or the core's) through ComfyUI's own conditioning nodes."""
    first, second, third = (encode(text) for text in ("a cat", "a dog", "a tree"))
    joined = graph.add("ConditioningConcat", conditioning_to=first, conditioning_from=second)
    both = graph.add("ConditioningCombine", conditioning_1=joined, conditioning_2=third)
    return add_control(graph, both)


def test_comfyui_s_conditioning_nodes_and_sampler_take_it_like_their_own(client):
    graph = Graph()
    checkpoint = graph.add("CheckpointLoaderSimple", ckpt_name=CHECKPOINT)
    clip, latent = checkpoint[1], graph.add("EmptyLatentImage", width=64, height=64, batch_size=1)

    def core(text):
        return graph.add("CLIPTextEncode", clip=clip, text=text)

    shown = []
    for encode in (core, lambda text: add_encode(graph, clip, text)):
        sampled = graph.add(
            "KSampler", model=checkpoint, positive=add_mixed(graph, encode), negative=encode(""),
            latent_image=latent, seed=1, steps=1, cfg=4.0, sampler_name="euler",
            scheduler="normal", denoise=1.0,
        )
        shown.append(graph.add("ProbeTensor", value=sampled))
    texts = node_texts(client.run(graph.prompt))
    assert texts[shown[0].id] == texts[shown[1].id]


def test_a_list_of_texts_from_another_node_loads_and_releases_the_encoder_once(client):
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind="sd15", seed=5)
    texts = graph.add("ProbeTexts", lines="one\ntwo\nthree")
    ours = add_encode(graph, clip, texts)
    check = graph.add("ProbeConditioning", a=ours)
    entry = client.run(graph.prompt)
    assert len(node_texts(entry)[check.id].splitlines()) == 3
    report = node_texts(entry)[ours.id]
    assert report.count("left loaded for the next text of the list") == 2
    assert report.count("encoder released") == 1


def test_an_interrupt_stops_between_prompts(client):
    graph = Graph()
    clip = graph.add("CheckpointLoaderSimple", ckpt_name=CHECKPOINT)[1]
    lines = "\n".join(f"prompt number {number}" for number in range(2000))
    ours = add_encode(graph, clip, lines, split="one prompt per line")
    graph.add("ProbeConditioning", a=ours)
    pytest.importorskip("websocket")
    with client.events() as events:
        prompt_id = client.queue(graph.prompt, client_id=events.client_id)
        for event in events.until_finished(prompt_id):
            if event["type"] == "progress" and event["data"]["value"] >= 3:
                break
        client.interrupt()
        entry = client.wait(prompt_id)
    assert was_interrupted(entry)
