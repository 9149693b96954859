"""Cast bf16 in a real ComfyUI on the simulated GPU: dtypes and pictures (bytes: tests/gpu)."""

import pytest
from support.cast import add_cast, float32_device, load, near, probe, run, with_lora

from tools.graph import Graph, add_ksampler, add_sampler, forget_everything
from tools.models import DEMO_UPSCALER, TEST_CONTROLNET

pytestmark = pytest.mark.host

BF16_ERROR = 0.05  # relative, after two steps of cfg 4 on random weights


@pytest.fixture
def device(sim):
    return float32_device(sim)


@pytest.fixture
def client(device):
    return device.client


def test_weights_and_compute_dtype_change_and_buffers_and_tables_do_not(client):
    graph = Graph()
    checkpoint = load(graph)
    model, clip = add_cast(graph, checkpoint[0]), add_cast(graph, checkpoint[1])
    probes = [probe(graph, node) for node in (checkpoint[0], model, clip)]
    shown = run(client, graph)
    source, cast, text = (shown[node.id] for node in probes)
    assert set(source["weights"].values()) == {"float32"} and source["compute"] == "float32"
    assert set(cast["weights"].values()) == {"bfloat16"} and cast["compute"] == "bfloat16"
    assert cast["buffers"] == source["buffers"]
    kept = {name for name, dtype in text["weights"].items() if dtype == "float32"}
    assert {name.rpartition("clip_l.")[2] for name in kept} == {
        "logit_scale", "transformer.text_model.embeddings.position_embedding.weight",
    }


# ---------------------------------------------------------------- pictures


def after_all(graph, model, *others):
    """`model` again, when all of `others` are ready."""
    for other in others:
        model = probe(graph, model, after=other)
    return model


def three_clones(graph, checkpoint):
    """The base model, and two LoRA clones of it at different strengths."""
    base = checkpoint[0]
    return [base, with_lora(graph, base)[0], with_lora(graph, base, 0.5)[0]]


def test_the_cast_is_near_and_three_clones_stay_bit_identical(client):
    graph = Graph()
    checkpoint = load(graph)
    clones = three_clones(graph, checkpoint)
    before = [add_sampler(graph, clone, checkpoint[1]) for clone in clones]
    cast = add_cast(graph, after_all(graph, checkpoint[0], *before))
    latent = add_sampler(graph, cast, checkpoint[1])
    close = near(graph, before[0], latent)
    moved = near(graph, before[0], before[1])
    same = [
        near(graph, first, add_sampler(graph, after_all(graph, clone, latent), checkpoint[1]))
        for first, clone in zip(before, clones, strict=True)
    ]
    shown = run(client, graph)
    assert shown[close.id]["equal"] is False and shown[close.id]["error"] < BF16_ERROR
    assert shown[moved.id]["error"] > 2 * BF16_ERROR
    assert [shown[node.id]["equal"] for node in same] == [True, True, True]


def test_a_lora_before_the_cast_and_after_it_give_the_same_picture(client):
    graph = Graph()
    checkpoint = load(graph)
    lora = with_lora(graph, checkpoint[0])
    exact = add_sampler(graph, lora, checkpoint[1])
    # The LoRA clone has just been sampled: its weights are on the device with the LoRA inside.
    before = add_sampler(graph, add_cast(graph, after_all(graph, lora, exact)), checkpoint[1])
    late = with_lora(graph, add_cast(graph, checkpoint[0]))
    after = add_sampler(graph, late, checkpoint[1])
    same, close = near(graph, before, after), near(graph, exact, after)
    shown = run(client, graph)
    assert shown[same.id]["equal"] is True
    assert 0 < shown[close.id]["error"] < BF16_ERROR


def test_a_model_that_gives_a_layer_float32_whatever_it_computes_in_is_near_after_the_cast(client):
    """As all models of Wan do with their first layer."""
    graph = Graph()
    wan = graph.add("OomTinyWan", batch=1)
    expected, found = (add_ksampler(graph, model, wan[1], wan[2], wan[3])
                       for model in (wan, add_cast(graph, wan)))
    close = near(graph, expected, found)
    assert 0 < run(client, graph)[close.id]["error"] < BF16_ERROR


def test_a_model_that_is_partly_on_the_device_is_cast_from_its_own_weights(device, client):
    graph = Graph()
    checkpoint = load(graph)
    lora = with_lora(graph, checkpoint[0])
    untouched = graph.add("ProbeWeights", model=add_cast(graph, lora))
    client.run(graph.prompt, timeout=600)
    expected = run(client, graph)[untouched.id]["digest"]
    device.set_capacity(1400)
    forget_everything(client)
    graph = Graph()
    checkpoint = load(graph)
    lora = with_lora(graph, checkpoint[0])
    latent = add_sampler(graph, lora, checkpoint[1])
    cast = add_cast(graph, after_all(graph, lora, latent))
    weights = graph.add("ProbeWeights", model=cast)
    shown = run(client, graph)
    assert "loaded partially" in device.log_text()
    assert shown[weights.id]["digest"] == expected


def test_cast_back_to_float32_computes_in_float32_with_the_rounded_weights(client):
    graph = Graph()
    checkpoint = load(graph)
    half = add_cast(graph, checkpoint[0])
    back = add_cast(graph, half, "float32")
    looked = probe(graph, back)
    close = near(graph, add_sampler(graph, checkpoint[0], checkpoint[1]),
                 add_sampler(graph, back, checkpoint[1]))
    shown = run(client, graph)
    assert set(shown[looked.id]["weights"].values()) == {"float32"}
    assert shown[looked.id]["compute"] == "float32"
    assert 0 < shown[close.id]["error"] < BF16_ERROR
    assert "more needed" in shown[back.id]


def test_kept_weights_stay_in_float32_and_the_model_still_samples(client):
    graph = Graph()
    checkpoint = load(graph)
    cast = add_cast(graph, checkpoint[0], keep_float32="norm, time_embed, in_layers.0")
    looked = probe(graph, cast)
    close = near(graph, add_sampler(graph, checkpoint[0], checkpoint[1]),
                 add_sampler(graph, with_lora(graph, cast, 0.0), checkpoint[1]))
    shown = run(client, graph)
    kept = {name for name, dtype in shown[looked.id]["weights"].items() if dtype == "float32"}
    assert kept and all("norm" in name or "time_embed" in name or "in_layers.0" in name
                        for name in kept)
    assert shown[close.id]["error"] < BF16_ERROR
    assert "kept in float32 (keep_float32): " in shown[cast.id]


def test_text_encoder_vae_and_controlnet_work_and_their_sources_stay(client):
    graph = Graph()
    checkpoint = load(graph)
    control = graph.add("ControlNetLoader", control_net_name=TEST_CONTROLNET.split("/")[1])
    hint = graph.add("EmptyImage", width=64, height=64, batch_size=1, color=0x8040C0)

    def picture(clip, vae, controlnet):
        text = graph.add("CLIPTextEncode", clip=clip, text="a red cube")
        guided = graph.add("ControlNetApply", conditioning=text, control_net=controlnet,
                           image=hint, strength=1.0)
        latent = graph.add("VAEEncode", pixels=hint, vae=vae)
        sampled = graph.add(
            "KSampler", model=checkpoint[0], positive=guided, negative=text, seed=3, steps=1,
            cfg=2.0, latent_image=latent, sampler_name="euler", scheduler="normal", denoise=1.0,
        )
        return text, graph.add("VAEDecode", samples=sampled, vae=vae)

    sources = checkpoint[1], checkpoint[2], control
    exact = picture(*sources)
    # SD1.5 files have no text_projection: ComfyUI leaves that layer uninitialised and unused.
    casts = [[add_cast(graph, after_all(graph, model, exact[1]), dtype, "text_projection")
              for model in sources] for dtype in ("bfloat16", "float16")]
    halves = [picture(*models) for models in casts]
    again = picture(*(after_all(graph, model, *(half[1] for half in halves)) for model in sources))
    close = [[near(graph, a, b) for a, b in zip(exact, half, strict=True)] for half in halves]
    same = [near(graph, a, b) for a, b in zip(exact, again, strict=True)]
    shown = run(client, graph)
    assert [shown[node.id]["equal"] for node in same] == [True, True]
    for texts, pictures in close:
        assert shown[texts.id]["error"] < BF16_ERROR
        assert 0 < shown[pictures.id]["error"] < BF16_ERROR
    for text_encoder, *_ in casts:
        assert "ComfyUI computes text encoders in float32" in shown[text_encoder.id]


def test_an_upscale_model_takes_the_same_pictures_as_before(client):
    graph = Graph()
    model = graph.add("UpscaleModelLoader", model_name=DEMO_UPSCALER.split("/")[1])
    image = graph.add("EmptyImage", width=32, height=32, batch_size=1, color=0x8040C0)
    exact = graph.add("ImageUpscaleWithModel", upscale_model=model, image=image)
    cast = add_cast(graph, model)
    half = graph.add("ImageUpscaleWithModel", upscale_model=cast, image=image)
    close = near(graph, exact, half)
    shown = run(client, graph)
    assert 0 < shown[close.id]["error"] < 0.02 and shown[close.id]["dtypes"] == ["float32"]
    assert "saved" in shown[cast.id]
