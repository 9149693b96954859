"""Size Sorter and Restore Order in a real ComfyUI, where lists run node by node."""

import json

import pytest

from tools.client import cached_nodes, node_texts
from tools.graph import Graph

pytestmark = pytest.mark.host

DEFAULTS = {"sizes": "", "order": "largest first", "fit": "keep each size", "bucket": 64}
PUBLISHED = "1024x1024\n1024×1152\n1360, 1536"


def add_sorter(graph, **inputs):
    return graph.add("HeadroomSizeSorter", **{**DEFAULTS, **inputs})


def show(graph, value):
    return graph.add("ListShow", values=value)


def answers(client, graph):
    entry = client.run(graph.prompt)
    return {node: json.loads(text) for node, text in node_texts(entry).items()}


def pictures(graph, shapes, kind="IMAGE"):
    return graph.add("ListOf", kind=kind, shapes=json.dumps(shapes))


def test_every_output_is_a_list_in_the_new_order_and_the_report_is_one_text(client):
    graph = Graph()
    sorter = add_sorter(graph, sizes=PUBLISHED)
    shown = [show(graph, sorter[output]) for output in range(5)]
    texts = answers(client, graph)
    width, height, item, index, report = (texts[node.id] for node in shown)
    assert (width, height) == ([1360, 1024, 1024], [1536, 1152, 1024])
    assert (item, index) == ([None] * 3, [2, 1, 0])
    assert len(report) == 1 and report[0].startswith("3 sizes, largest first")


def test_the_nodes_behind_run_once_for_each_size_and_the_results_go_back_in_order(client):
    graph = Graph()
    sorter = add_sorter(graph, sizes="16x8\n64x32\n8x8\n64x32")
    made = graph.add("EmptyImage", width=sorter[0], height=sorter[1], batch_size=1, color=0)
    back = graph.add("HeadroomRestoreOrder", items=made, index=sorter[3])
    nodes = show(graph, made), show(graph, back)
    texts = answers(client, graph)
    assert texts[nodes[0].id] == [[1, 32, 64, 3], [1, 32, 64, 3], [1, 8, 16, 3], [1, 8, 8, 3]]
    assert texts[nodes[1].id] == [[1, 8, 16, 3], [1, 32, 64, 3], [1, 8, 8, 3], [1, 32, 64, 3]]


@pytest.mark.parametrize(
    ("kind", "scale"), [("IMAGE", 1), ("VIDEO LATENT", 8)]
)
def test_items_bring_their_own_sizes(client, kind, scale):
    graph = Graph()
    items = pictures(graph, [[1, 8, 8], [2, 16, 8], [1, 16, 24]], kind)
    sorter = add_sorter(graph, items=items)
    back = graph.add("HeadroomRestoreOrder", items=sorter[2], index=sorter[3])
    width, index, first, restored = (show(graph, n) for n in (sorter[0], sorter[3], items, back))
    texts = answers(client, graph)
    assert texts[width.id] == [24 * scale, 8 * scale, 8 * scale]
    assert texts[index.id] == [2, 1, 0]
    assert texts[restored.id] == texts[first.id]


def test_a_list_of_texts_can_be_wired_into_sizes(client):
    graph = Graph()
    texts = pictures(graph, [[1, 8, 8], [1, 32, 16]], kind="STRING")
    shown = show(graph, add_sorter(graph, sizes=texts)[0])
    assert answers(client, graph)[shown.id] == [16, 8]


def test_an_empty_list_of_sizes_runs_nothing_behind_it_and_is_no_error(client):
    graph = Graph()
    sorter = add_sorter(graph, sizes="# nothing today\n")
    made = graph.add("EmptyImage", width=sorter[0], height=sorter[1], batch_size=1, color=0)
    back = graph.add("HeadroomRestoreOrder", items=made, index=sorter[3])
    blocked, report = show(graph, back), show(graph, sorter[4])
    texts = answers(client, graph)
    assert blocked.id not in texts
    assert texts[report.id] == ["0 sizes: there is nothing to sort"]


def test_an_unchanged_queue_stays_cached(client):
    graph = Graph()
    sorter = add_sorter(graph, sizes="8x8\n24x24")
    back = graph.add("HeadroomRestoreOrder", items=sorter[0], index=sorter[3])
    show(graph, back)
    client.run(graph.prompt)
    assert cached_nodes(client.run(graph.prompt)) >= {sorter.id, back.id}
