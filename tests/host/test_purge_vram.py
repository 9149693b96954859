"""Purge VRAM in a real ComfyUI: what it unloads, what it leaves cached, what it says."""


import pytest
from support.probes import answers, file_name

from tools.client import PromptFailed, cached_nodes, node_texts
from tools.graph import Graph, add_checkpoint, add_purge, add_sampler
from tools.models import TEST_CHECKPOINT, TEST_CHECKPOINT_B, TEST_LORA

pytestmark = pytest.mark.host

CACHE_MODES = {  # --cache-classic is what 0.3.75 does without a flag
    "default": (),
    "--cache-lru": ("--cache-lru", "20"),
    "--cache-none": ("--cache-none",),
    "--cache-ram": ("--cache-ram", "1.0"),
}


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


def test_no_models_leaves_them_loaded(client):
    graph, _, probe, _ = sampled_and_purged(unload="no models")
    assert "BaseModel" in answers(client.run(graph.prompt))[probe.id]["classes"]


def test_the_kept_model_stays_also_when_it_is_a_lora_clone(client):
    graph = Graph()
    checkpoint = load(graph)
    lora = graph.add("LoraLoaderModelOnly", model=checkpoint[0], strength_model=1.0,
                     lora_name=file_name(TEST_LORA))
    latent = add_sampler(graph, lora, checkpoint[1])
    purge = add_purge(graph, value=latent, unload="all but keep", keep=checkpoint[0])
    probe = graph.add("ProbeLoaded", after=purge)
    assert answers(client.run(graph.prompt))[probe.id]["classes"] == ["BaseModel"]


def test_all_but_keep_without_a_model_fails_with_one_sentence(client):
    graph, _, _, _ = sampled_and_purged(unload="all but keep")
    with pytest.raises(PromptFailed, match="expects a model on the input `keep`"):
        client.run(graph.prompt)


@pytest.mark.parametrize("source", [0, 1, 2], ids=["MODEL", "CLIP", "VAE"])
def test_the_output_is_the_very_object_that_came_in(client, source):
    graph = Graph()
    checkpoint = load(graph)
    purge = add_purge(graph, value=checkpoint[source])
    same = graph.add("ProbeSame", a=purge, b=checkpoint[source])
    assert answers(client.run(graph.prompt))[same.id]["same"] is True


def test_the_order_of_keys_in_the_prompt_changes_nothing(client):
    graph = Graph()
    first, second = load(graph), load(graph, TEST_CHECKPOINT_B)
    purge = add_purge(graph, value=first[0], keep=second[0], unload="all but keep")
    same = graph.add("ProbeSame", a=purge, b=first[0])
    for node in graph.prompt.values():
        node["inputs"] = dict(reversed(node["inputs"].items()))
    prompt = dict(reversed(graph.prompt.items()))
    assert answers(client.run(prompt))[same.id]["same"] is True


def test_it_runs_with_nothing_connected_and_its_report_is_in_the_history(client):
    graph = Graph()
    purge = add_purge(graph)
    report = node_texts(client.run(graph.prompt))[purge.id]
    assert "VRAM freed" in report and "process RSS" in report


def test_it_runs_at_the_very_end_of_a_graph(client):
    graph = Graph()
    checkpoint = load(graph)
    purge = add_purge(graph, value=add_sampler(graph, checkpoint[0], checkpoint[1], seed=7))
    entry = client.run(graph.prompt)
    assert "models: BaseModel" in node_texts(entry)[purge.id]
    probe = Graph()
    loaded = probe.add("ProbeLoaded")
    assert answers(client.run(probe.prompt))[loaded.id]["classes"] == []


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


def test_free_ram_is_named_in_the_report(client):
    graph = Graph()
    purge = add_purge(graph, free_ram=True)
    assert "- RAM: " in node_texts(client.run(graph.prompt))[purge.id]


def test_only_below_free_leaves_everything_alone_while_there_is_room(client):
    graph, purge, probe, _ = sampled_and_purged(only_below_free_mib=1)
    entry = client.run(graph.prompt)
    assert "nothing to do" in node_texts(entry)[purge.id]
    assert "BaseModel" in answers(entry)[probe.id]["classes"]


@pytest.mark.parametrize("mode", CACHE_MODES)
def test_three_equal_queues_sample_once_and_every_time_samples_each_time(serve, tree_with, mode):
    flags = CACHE_MODES[mode]
    client = serve(*flags, **({"comfyui": tree_with(flags[0])} if flags else {})).client()
    keeps = mode != "--cache-none"
    graph, purge, _, latent = sampled_and_purged()
    runs = [client.run(graph.prompt) for _ in range(3)]
    for entry in runs[1:]:
        assert ({latent.id, purge.id} <= cached_nodes(entry)) == keeps
        assert entry["status"]["status_str"] == "success"
    graph.prompt[purge.id]["inputs"]["run"] = "every time"
    again = [cached_nodes(client.run(graph.prompt)) for _ in range(2)][-1]
    assert purge.id not in again and (latent.id in again) == keeps
