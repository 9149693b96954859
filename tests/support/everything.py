"""Everything that the pack has, used once: its nodes, and its routes."""

from pathlib import Path

from support.timed import of_one_moment
from support.worlds import CAPACITY_MIB, CLOSE, MIB, loaded_models, sampled
from tools import workflows
from tools.graph import Graph, add_offload
from tools.models import TEST_CHECKPOINT


def every_node():
    """A prompt of every node of ours but Load Conditioning, whose file it writes: `kept`."""
    graph = Graph()
    graph.prompt = workflows.published_prompt("start_here")
    small = {"ckpt_name": Path(TEST_CHECKPOINT).name, "steps": 1, "sizes": "64x64"}
    for node in graph.prompt.values():
        node["inputs"].update({name: value for name, value in small.items()
                               if node["inputs"].get(name)})
    graph.add("HeadroomSaveConditioning", conditioning=["5", 0], name="kept")
    return graph


def load_kept():
    """A prompt with what `every_node` wrote and a model from the disk, and the node that shows."""
    graph, checkpoint, latent = sampled(seed=8)
    kept = graph.add("HeadroomLoadConditioning", name="kept")
    graph.prompt[latent.id]["inputs"].update(
        positive=[kept.id, 0], model=[add_offload(graph, model=checkpoint[0], to="disk").id, 0])
    return graph, graph.add("ProbeTensor", value=latent)


def gauge(page, name):
    """One figure of the page for Prometheus."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"headroom_{name}")]
    return float(line.rpartition(" ")[2])


def ask_every_route(device, prompt_id):
    """Ask the server's routes once, and offload in both ways; what they answer is right."""
    client = device.client
    now, (page, ready) = of_one_moment(device.driver.device, lambda: (
        client.get_bytes("/headroom/metrics").decode(),
        client.get_json("/headroom/ready?free_mib=1")))
    assert gauge(page, "device_driver_free_bytes") == now.free_bytes
    assert ready["ready"] and ready["free_mib"] >= now.free_bytes / MIB - CLOSE
    status, answer = client.post_json("/headroom/rescue", {"prompt_id": prompt_id})
    assert status == 409 and "out-of-memory" in answer["error"]
    for limit in ("90%", "off"):
        client.post_when_idle("/headroom/limit", {"limit": limit})
    assert client.get_json("/headroom/limit")["limit"] == "off"
    status, told = client.post_json("/headroom/estimate", {"prompt": every_node().prompt})
    assert status == 200 and Path(TEST_CHECKPOINT).name in [one["file"] for one in told["models"]]
    if (reserve := client.get_json("/headroom/memory")["reserve_mib"]) is not None:
        client.post_when_idle("/headroom/reserve", {"mib": int(reserve)})
    for to in ("CPU", "disk"):
        model = next(iter(loaded_models(device)))
        client.post_when_idle("/headroom/offload", {"model": model, "to": to})
    wanted = CAPACITY_MIB - device.fresh_bytes // MIB
    reached = client.post_when_idle("/headroom/purge", {"free_mib": wanted})["reached_free_mib"]
    assert reached <= wanted
