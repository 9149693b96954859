"""Purge VRAM in a real ComfyUI: what it unloads, what it leaves cached, what it says."""

import pytest
from support.probes import answers, file_name, load

from tools.client import cached_nodes, node_texts
from tools.graph import Graph, add_purge, add_sampler
from tools.models import TEST_LORA
from tools.waiting import wait_until

pytestmark = pytest.mark.host


def test_the_kept_model_stays_also_when_it_is_a_lora_clone(client):
    graph = Graph()
    checkpoint = load(graph)
    lora = graph.add("LoraLoaderModelOnly", model=checkpoint[0], strength_model=1.0,
                     lora_name=file_name(TEST_LORA))
    latent = add_sampler(graph, lora, checkpoint[1])
    purge = add_purge(graph, value=latent, unload="all but keep", keep=checkpoint[0])
    probe = graph.add("ProbeLoaded", after=purge)
    assert answers(client.run(graph.prompt))[probe.id]["classes"] == ["BaseModel"]


def test_the_output_is_the_very_object_that_came_in(client):
    graph = Graph()
    checkpoint = load(graph)
    same = [graph.add("ProbeSame", a=add_purge(graph, value=checkpoint[output]),
                      b=checkpoint[output]) for output in range(3)]
    shown = answers(client.run(graph.prompt))
    assert [shown[node.id]["same"] for node in same] == [True, True, True]


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


@pytest.mark.parametrize("flags", [(), ("--cache-none",)], ids=["default", "--cache-none"])
def test_in_equal_queues_a_purge_runs_once_and_with_every_time_each_time(serve, flags):
    client, graph = serve(*flags).client(), Graph()
    latent = graph.add("EmptyLatentImage", width=64, height=64, batch_size=1)
    purge = add_purge(graph, value=latent)
    client.run(graph.prompt)
    assert ({latent.id, purge.id} <= cached_nodes(client.run(graph.prompt))) == (not flags)
    graph.prompt[purge.id]["inputs"]["run"] = "every time"
    again = [cached_nodes(client.run(graph.prompt)) for _ in range(2)][-1]
    assert purge.id not in again and (latent.id in again) == (not flags)
