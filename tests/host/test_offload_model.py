"""Offload Model in a real ComfyUI: exactly the model on the wire leaves, and it works again."""

import pytest
from support.probes import answers, file_name, load
from support.prompts import sampling
from support.rescue import pictures

from tools.client import node_texts
from tools.graph import Graph, add_offload, add_purge, add_sampler
from tools.models import TEST_CHECKPOINT_B, TEST_CONTROLNET, TEST_LORA

pytestmark = pytest.mark.host


def with_lora(graph, model):
    return graph.add("LoraLoaderModelOnly", model=model, strength_model=1.0,
                     lora_name=file_name(TEST_LORA))


def two_models_sampled(graph):
    """Load and use A and B, B last, and return both with the latent that waits for both."""
    a, b = load(graph), load(graph, TEST_CHECKPOINT_B)
    first = add_sampler(graph, a[0], a[1])
    second = add_sampler(graph, b[0], b[1])
    both = graph.add("LatentAdd", samples1=first, samples2=second)
    return a, b, both


def test_every_other_model_is_the_reverse(client):
    graph = Graph()
    a, b, both = two_models_sampled(graph)
    offload = add_offload(graph, model=a[0], after=both, scope="every other model")
    probe = graph.add("ProbeLoaded", after=offload[1], model=a[0])
    shown = answers(client.run(graph.prompt))[probe.id]
    assert shown["modules"] == [shown["module"]]


@pytest.mark.parametrize("wire", ["the base model", "the LoRA clone"])
def test_a_lora_clone_and_its_base_leave_together(client, wire):
    graph = Graph()
    base = load(graph)
    lora = with_lora(graph, base[0])
    latent = add_sampler(graph, lora, base[1])
    given = base[0] if wire == "the base model" else lora[0]
    offload = add_offload(graph, model=given, after=latent)
    probe = graph.add("ProbeLoaded", after=offload[1], model=base[0])
    shown = answers(client.run(graph.prompt))[probe.id]
    assert shown["module"] not in shown["modules"]
    assert "SD1ClipModel" in shown["classes"]


@pytest.mark.parametrize(("output", "label"), [(1, "SD1ClipModel"), (2, "TAESD")],
                         ids=["CLIP", "VAE"])
def test_clip_and_vae_wires_work(client, output, label):
    graph = Graph()
    checkpoint = load(graph)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1], seed=3)
    image = graph.add("VAEDecode", samples=latent, vae=checkpoint[2])
    offload = add_offload(graph, model=checkpoint[output], after=image)
    probe = graph.add("ProbeLoaded", after=offload[1])
    entry = client.run(graph.prompt)
    shown = answers(entry)[probe.id]
    assert label not in shown["classes"] and "BaseModel" in shown["classes"]
    assert node_texts(entry)[offload.id].count(label) == 1


def test_a_controlnet_leaves_and_the_model_stays(client):
    graph = Graph()
    checkpoint = load(graph)
    control = graph.add("ControlNetLoader", control_net_name=file_name(TEST_CONTROLNET))
    positive = graph.add("CLIPTextEncode", clip=checkpoint[1], text="a")
    image = graph.add("EmptyImage", width=64, height=64, batch_size=1, color=0)
    applied = graph.add("ControlNetApply", conditioning=positive, control_net=control,
                        image=image, strength=1.0)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1], seed=4)
    sampler = next(n for n in graph.prompt.values() if n["class_type"] == "KSampler")
    sampler["inputs"]["positive"] = applied[0]
    offload = add_offload(graph, model=control, after=latent)
    probe = graph.add("ProbeLoaded", after=offload[1])
    classes = answers(client.run(graph.prompt))[probe.id]["classes"]
    assert "BaseModel" in classes and "ControlNet" not in classes


def test_disk_keeps_every_weight_bit_for_bit_and_frees_the_ram_copy(client):
    graph = Graph()
    checkpoint = load(graph)
    before = graph.add("ProbeWeights", model=checkpoint[0])
    tidy = add_purge(graph, value=before, unload="no models", free_ram=True)
    ready = graph.add("ProbeLoaded", after=tidy)
    offload = add_offload(graph, model=checkpoint[0], after=ready, to="disk")
    after = graph.add("ProbeLoaded", after=offload[1])
    again = graph.add("ProbeWeights", model=checkpoint[0], after=after)
    entry = client.run(graph.prompt)
    shown = answers(entry)
    assert shown[before.id] == shown[again.id]
    freed = shown[ready.id]["rss_mib"] - shown[after.id]["rss_mib"]
    assert freed == pytest.approx(shown[before.id]["mib"], rel=0.05)
    assert "mapped from" in node_texts(entry)[offload.id]


def test_a_bare_module_is_moved_and_the_report_says_who_manages_it(client):
    graph = Graph()
    module = graph.add("ProbeModule", mib=4)
    offload = add_offload(graph, model=module)
    same = graph.add("ProbeSame", a=offload, b=module)
    entry = client.run(graph.prompt)
    assert answers(entry)[same.id]["same"] is True
    assert "not managed by ComfyUI" in node_texts(entry)[offload.id]


def test_both_outputs_are_the_very_objects_that_came_in(client):
    graph = Graph()
    checkpoint = load(graph)
    offload = add_offload(graph, model=checkpoint[0], after=checkpoint[1])
    model = graph.add("ProbeSame", a=offload[0], b=checkpoint[0])
    after = graph.add("ProbeSame", a=offload[1], b=checkpoint[1])
    shown = answers(client.run(graph.prompt))
    assert shown[model.id]["same"] and shown[after.id]["same"]


def test_after_an_offload_of_every_model_the_same_prompt_gives_the_same_picture(client):
    def of(words):
        prompt = sampling()
        prompt["2"]["inputs"]["text"] = words
        return pictures(client, client.run(prompt))

    before = of("a red cube")
    for to in ("CPU", "disk"):
        assert of("a blue ball") != before  # so that ComfyUI computes the first one again
        models = [model["id"] for model in client.get_json("/headroom/memory")["models"]]
        assert len(models) >= 3
        for model in models:
            client.post_when_idle("/headroom/offload", {"model": model, "to": to})
        assert of("a red cube") == before
