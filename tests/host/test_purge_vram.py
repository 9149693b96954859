"""Purge VRAM in a real ComfyUI: what it unloads, what it leaves cached, what it says."""


import pytest
from support.probes import answers, file_name
from support.timed import wait_until

from tools.client import cached_nodes, node_texts
from tools.graph import Graph, add_checkpoint, add_purge, add_sampler
from tools.models import TEST_CHECKPOINT, TEST_LORA

pytestmark = pytest.mark.host

CACHE_MODES = {"default": (), "--cache-none": ("--cache-none",)}


def load(graph, checkpoint=TEST_CHECKPOINT):
    return add_checkpoint(graph, checkpoint)


def sampled_and_purged(**purge_inputs):
    """Load, sample, purge on the latent, then look at what is loaded."""
    graph = Graph()
    checkpoint = load(graph)
    latent = add_sampler(graph, checkpoint[0], checkpoint[1])
    purge = add_purge(graph, value=latent, **purge_inputs)
    probe = graph.add("ProbeLoaded", after=purge, model=checkpoint[0])
    return graph, purge, probe, latent


def test_the_kept_model_stays_also_when_it_is_a_lora_clone(client):
    graph = Graph()
    checkpoint = load(graph)
    lora = graph.add("LoraLoaderModelOnly", model=checkpoint[0], strength_model=1.0,
                     lora_name=file_name(TEST_LORA))
    latent = add_sampler(graph, lora, checkpoint[1])
    purge = add_purge(graph, value=latent, unload="all but keep", keep=checkpoint[0])
    probe = graph.add("ProbeLoaded", after=purge)
    assert answers(client.run(graph.prompt))[probe.id]["classes"] == ["BaseModel"]


@pytest.mark.parametrize("source", [0, 1, 2], ids=["MODEL", "CLIP", "VAE"])
def test_the_output_is_the_very_object_that_came_in(client, source):
    graph = Graph()
    checkpoint = load(graph)
    purge = add_purge(graph, value=checkpoint[source])
    same = graph.add("ProbeSame", a=purge, b=checkpoint[source])
    assert answers(client.run(graph.prompt))[same.id]["same"] is True


def test_the_report_and_the_figure_are_usable_by_other_nodes(client):
    graph = Graph()
    purge = add_purge(graph)
    text = graph.add("PreviewAny", source=purge[1])
    figure = graph.add("PreviewAny", source=purge[2])
    shown = node_texts(client.run(graph.prompt))
    assert "VRAM freed" in shown[text.id] and float(shown[figure.id]) == 0.0


def test_reset_node_cache_makes_the_next_run_start_from_the_loaders(client):
    graph = Graph()
    checkpoint = load(graph)
    purge = add_purge(graph, value=checkpoint[0], reset_node_cache=True)
    report = node_texts(client.run(graph.prompt))[purge.id]
    assert "forget every cached output after this prompt" in report
    assert checkpoint.id not in cached_nodes(client.run(graph.prompt))


def test_models_that_the_first_emptying_of_the_node_cache_drops_leave_ram(
    start_server, comfyui, models_dir
):
    """Garbage collections skip what was there when the server began, its first cache too."""
    client = start_server(comfyui, models_dir=models_dir).client()
    graph = Graph()
    checkpoint = load(graph)
    graph.add("SaveLatent", samples=add_sampler(graph, checkpoint[0], checkpoint[1]),
              filename_prefix="first")
    client.run(graph.prompt)
    client.free()
    wait_until(lambda: client.get_json("/headroom/memory")["ram_held"]["models"] == [])


@pytest.mark.parametrize("mode", CACHE_MODES)
def test_equal_queues_sample_once_and_every_time_samples_each_time(serve, mode):
    client = serve(*CACHE_MODES[mode]).client()
    keeps = mode != "--cache-none"
    graph, purge, _, latent = sampled_and_purged()
    client.run(graph.prompt)
    assert ({latent.id, purge.id} <= cached_nodes(client.run(graph.prompt))) == keeps
    graph.prompt[purge.id]["inputs"]["run"] = "every time"
    again = [cached_nodes(client.run(graph.prompt)) for _ in range(2)][-1]
    assert purge.id not in again and (latent.id in again) == keeps
