"""Cast bf16 in a real ComfyUI: a model of its own, what it refuses, and streamed weights."""

import re

import pytest
from support.cast import add_cast, float32_device, load, near, probe, run, with_lora

from tools.client import PromptFailed, cached_nodes, node_texts
from tools.graph import Graph, add_offload, add_sampler
from tools.models import DEMO_UPSCALER, TEST_CONTROLNET, TEST_LORA

pytestmark = pytest.mark.host


@pytest.fixture
def client(sim):
    return float32_device(sim).client


# ---------------------------------------------------------------- identity


def test_the_copy_is_a_model_of_its_own_to_comfyui(client):
    graph = Graph()
    checkpoint = load(graph)
    cast = add_cast(graph, checkpoint[0])
    used = graph.add("LatentAdd", samples1=add_sampler(graph, cast, checkpoint[1]),
                     samples2=add_sampler(graph, checkpoint[0], checkpoint[1]))
    source, copy = probe(graph, checkpoint[0]), probe(graph, cast)
    offload = add_offload(graph, model=checkpoint[0], after=used)
    left = graph.add("ProbeLoaded", after=offload[1])
    shown = run(client, graph)
    assert shown[copy.id]["parent"] is False
    assert shown[copy.id]["base"] != shown[source.id]["base"]
    assert shown[copy.id]["module"] in shown[left.id]["modules"]
    assert shown[source.id]["module"] not in shown[left.id]["modules"]


def test_a_cast_of_a_cast_is_the_same_object(client):
    graph = Graph()
    cast = add_cast(graph, load(graph)[0])
    again = add_cast(graph, cast)
    same = graph.add("ProbeSame", a=again, b=cast)
    shown = run(client, graph)
    assert shown[same.id]["same"] is True
    assert shown[again.id].startswith("0 MiB saved: already bfloat16")


def test_an_unchanged_queue_does_not_cast_again(client):
    graph = Graph()
    cast = add_cast(graph, load(graph)[0])
    graph.add("PreviewAny", source=cast[1])
    client.run(graph.prompt)
    assert cast.id in cached_nodes(client.run(graph.prompt))


# ---------------------------------------------------------------- refusals


def test_a_model_in_a_patcher_class_of_another_pack_is_cast(client):
    graph = Graph()
    cast = add_cast(graph, graph.add("CastOdd", kind="own patcher"))
    looked = probe(graph, cast)
    assert set(run(client, graph)[looked.id]["weights"].values()) == {"bfloat16"}


@pytest.mark.parametrize(("kind", "why"), [
    ("odd class", "OddTensor weights"), ("fp8", "float8_e4m3fn weights"),
])
def test_quantised_models_pass_through_and_the_report_says_so(client, kind, why):
    graph = Graph()
    odd = graph.add("CastOdd", kind=kind)
    cast = add_cast(graph, odd)
    same = graph.add("ProbeSame", a=cast, b=odd)
    shown = run(client, graph)
    assert shown[same.id]["same"] is True
    assert shown[cast.id].startswith(f"0 MiB saved: not cast: it is quantised ({why})")


def test_a_compiled_model_is_refused_in_one_sentence(client):
    graph = Graph()
    graph.add("PreviewAny", source=add_cast(graph, graph.add("CastOdd", kind="compiled"))[1])
    with pytest.raises(PromptFailed, match="a replaced 0 over the old weights; connect Cast bf16 "
                                           "before the node that added"):
        client.run(graph.prompt)


def test_a_refusal_is_in_the_runs_record_as_a_phrase_that_the_panel_can_translate(client):
    graph = Graph()
    cast = add_cast(graph, graph.add("CastOdd", kind="compiled"))
    graph.add("PreviewAny", source=cast[1])
    with pytest.raises(PromptFailed):
        client.run(graph.prompt)
    run_record = client.get_json("/headroom/runs?limit=1")["runs"][0]
    [refused] = [one for one in run_record["actions"] if one["action"] == "refused"]
    assert refused["node_id"] == cast.id
    assert refused["said"]["template"].startswith("Cast bf16 cannot cast this {model}: it carries")
    assert refused["said"]["values"]["reason"]["template"] == "a replaced {name}"


def test_an_upscaler_of_latents_that_filters_with_a_buffer_runs_near_the_original(
    sim, newest_comfyui
):
    client = float32_device(sim, comfyui=newest_comfyui).client
    graph = Graph()
    source = graph.add("CastUpscaler")
    shown = near(graph, *(graph.add("CastUpscaled", model=model)
                          for model in (source, add_cast(graph, source))))
    assert 0 < run(client, graph)[shown.id]["error"] < 0.05


def test_a_lora_in_bypass_mode_which_runs_in_the_old_layers_is_refused(sim, newest_comfyui):
    client = float32_device(sim, comfyui=newest_comfyui).client
    graph = Graph()
    lora = graph.add("LoraLoaderBypassModelOnly", model=load(graph)[0], strength_model=1.0,
                     lora_name=TEST_LORA.split("/")[1])
    graph.add("PreviewAny", source=add_cast(graph, lora)[1])
    with pytest.raises(PromptFailed) as caught:
        client.run(graph.prompt)
    assert "it carries the injection 'bypass_lora' over" in caught.value.exception_message


# ---------------------------------------------------------------- where weights are streamed


def test_a_streamed_model_is_read_again_and_only_its_stamps_change(sim, newest_comfyui):
    client = float32_device(sim, comfyui=newest_comfyui).client
    graph = Graph()
    source = graph.add("CastStreamed", model=load(graph)[0], recipe=True)
    cast = add_cast(graph, source, keep_float32="time_embed")
    looked = probe(graph, cast)
    same = graph.add("ProbeSame", a=cast, b=source)
    shown = run(client, graph)
    assert shown[looked.id]["stamps"] == ["bfloat16", "float32"]
    assert shown[looked.id]["compute"] == "bfloat16"
    assert set(shown[looked.id]["weights"].values()) == {"float32"}
    assert shown[same.id]["same"] is False
    assert "no copy in RAM" in shown[cast.id]
    assert "of RAM on top of it" not in shown[cast.id]


def test_a_streamed_model_that_cannot_be_read_again_passes_through(client):
    graph = Graph()
    source = graph.add("CastStreamed", model=load(graph)[0], recipe=False)
    cast = add_cast(graph, source)
    same = graph.add("ProbeSame", a=cast, b=source)
    shown = run(client, graph)
    assert shown[same.id]["same"] is True
    assert "left no way to read that file again" in shown[cast.id]


def test_a_device_without_bf16_arithmetic_is_told(cpu_server):
    client = cpu_server.client()
    graph = Graph()
    cast = add_cast(graph, load(graph)[0])
    graph.add("PreviewAny", source=cast[1])
    report = node_texts(client.run(graph.prompt, timeout=600))[cast.id]
    assert "does not count cpu among the devices with bfloat16 arithmetic" in report


# ---------------------------------------------------------------- ComfyUI's log


def test_a_cast_of_any_kind_of_model_leaves_no_warning_in_the_log_of_the_newest_comfyui(
    serve, newest_comfyui
):
    server = serve(comfyui=newest_comfyui)
    graph = Graph()
    checkpoint = load(graph)
    kinds = [*(checkpoint[slot] for slot in range(3)), with_lora(graph, checkpoint[0])[0],
             graph.add("ControlNetLoader", control_net_name=TEST_CONTROLNET.split("/")[1]),
             graph.add("UpscaleModelLoader", model_name=DEMO_UPSCALER.split("/")[1])]
    for model in kinds:
        graph.add("PreviewAny", source=model)
    loaded = len(server.log_text())
    server.client().run(graph.prompt, timeout=600)  # the loaders have warnings of their own
    for model in kinds:
        for dtype in ("bfloat16", "float16"):
            graph.add("PreviewAny", source=add_cast(graph, model, dtype, "text_projection")[1])
    begun = len(server.log_text())
    server.client().run(graph.prompt, timeout=600)
    # Where RAM is short, a newer ComfyUI lets go of what it has loaded, and loads it again.
    of_loaders = set(server.log_text()[loaded:begun].splitlines())
    told = [line for line in server.log_text()[begun:].splitlines()
            if re.search("warn|error|traceback|fix your code", line, re.IGNORECASE)]
    assert [line for line in told if line not in of_loaders] == []
