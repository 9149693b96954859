"""Move to CPU in a real ComfyUI, and conditioning that is saved under a name and loaded again."""

import json

import pytest
from support.encodings import encoders_of, write_encoder

from tools.client import PromptFailed, PromptInvalid, node_texts
from tools.graph import Graph

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The folder that HEADROOM_EMBEDDING_FOLDER names."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def server(serve, shared):
    env = {"HEADROOM_EMBEDDING_FOLDER": str(shared), "HEADROOM_EMBEDDING_CACHE_MIB": "lots"}
    server = serve(env=env)
    write_encoder(encoders_of(server), seed=1, name="one.safetensors")
    write_encoder(encoders_of(server), seed=2, name="two.safetensors")
    return server


@pytest.fixture(scope="module")
def client(server):
    return server.client()


def test_latents_and_images_come_out_with_the_same_bits(client):
    graph = Graph()
    values = [
        graph.add("EmptyLatentImage", width=64, height=64, batch_size=2),
        graph.add("EmptyImage", width=32, height=16, batch_size=1, color=0x123456),
    ]
    moves = [graph.add("HeadroomMoveToCPU", value=value) for value in values]
    shown = [graph.add("ProbeTensor", value=value) for value in (*values, *moves)]
    same = [graph.add("ProbeSame", a=m, b=v) for m, v in zip(moves, values, strict=True)]
    texts = node_texts(client.run(graph.prompt))
    told = [texts[node.id] for node in shown]
    assert told[:2] == told[2:] and told[0] != told[1]
    # A copy, so that nothing of the first memory is kept alive by it.
    assert [json.loads(texts[node.id])["same"] for node in same] == [False, False]
    assert "0.0 MiB moved: everything was already on the CPU (tensors: 1," in texts[moves[0].id]


def test_conditioning_comes_out_equal_and_in_memory_of_its_own(client):
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind="flux", seed=0)
    core = graph.add("FluxGuidance", guidance=2.0,
                     conditioning=graph.add("CLIPTextEncode", clip=clip, text="a (cat:1.2)"))
    moved = graph.add("HeadroomMoveToCPU", value=core)
    check = graph.add("ProbeConditioning", a=moved, b=core)
    told = json.loads(node_texts(client.run(graph.prompt))[check.id])
    assert told["same"] and told["numpy_backed"] and told["own_storage"] and told["contiguous"]


def test_a_control_net_in_the_conditioning_is_passed_through_and_named(client):
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind="sd15", seed=0)
    core = graph.add("CLIPTextEncode", clip=clip, text="a cat")
    net = graph.add("ControlNetLoader", control_net_name="headroom_test_controlnet.safetensors")
    image = graph.add("EmptyImage", width=64, height=64, batch_size=1, color=0)
    applied = graph.add("ControlNetApply", conditioning=core, control_net=net, image=image,
                        strength=1.0)
    moved = graph.add("HeadroomMoveToCPU", value=applied)
    check = graph.add("ProbeConditioning", a=moved, b=applied)
    texts = node_texts(client.run(graph.prompt))
    assert json.loads(texts[check.id])["same"]
    assert "left as it is: ControlNet, passed on unchanged" in texts[moved.id]


def saving(name, file="one.safetensors", text="a cat", split="one prompt", cache="off"):
    """(graph, the node that saves, the probe of what it was given)."""
    graph = Graph()
    clip = graph.add("ProbeEncoderFile", clip_name=file, kind="flux")
    made = graph.add("HeadroomEncodeToCPU", clip=clip, text=text, split=split,
                     release_encoder=True, cache=cache)
    saved = graph.add("HeadroomSaveConditioning", conditioning=made, name=name)
    return graph, saved, graph.add("ProbeConditioning", a=saved, b=made)


def loading(name, *files):
    """A workflow that loads a conditioning, and text encoders of its own."""
    graph = Graph()
    loaded = graph.add("HeadroomLoadConditioning", name=name)
    for file in files:
        clip = graph.add("ProbeEncoderFile", clip_name=file, kind="flux")
        graph.add("ProbeConditioning", a=graph.add("CLIPTextEncode", clip=clip, text="x"))
    return graph, loaded, graph.add("ProbeConditioning", a=loaded)


def told(client, graph, shown):
    texts = node_texts(client.run(graph.prompt))
    return texts, [json.loads(line) for line in texts[shown.id].splitlines()]


def test_what_one_workflow_saves_another_loads_bit_by_bit_without_an_encoder(client, shared):
    graph, saved, shown = saving("castle")
    texts, [before] = told(client, graph, shown)
    assert before["same"] is True and "by one.safetensors" in texts[saved.id]
    assert (shared / "conditioning" / "castle.safetensors").is_file()
    info = client.get_json("/object_info/HeadroomLoadConditioning")["HeadroomLoadConditioning"]
    entry = info["input"]["required"]["name"]
    assert "castle" in (entry[0] if isinstance(entry[0], list) else entry[1]["options"])
    graph, loaded, shown = loading("castle")
    texts, [after] = told(client, graph, shown)
    assert after["digest"] == before["digest"] and after["numpy_backed"]
    assert "by one.safetensors" in texts[loaded.id] and "Warning" not in texts[loaded.id]


def test_a_name_may_come_over_a_wire_and_a_file_that_was_replaced_is_loaded_again(client):
    digests = []
    for text in ("a cat", "a dog"):
        client.run(saving("wired", text=text)[0].prompt)
        graph, loaded, shown = loading("wired")
        name = graph.add("HeadroomMoveToCPU", value="wired")
        graph.prompt[loaded.id]["inputs"]["name"] = name[0]
        digests.append(told(client, graph, shown)[1][0]["digest"])
    assert digests[0] != digests[1]


def test_another_encoder_in_the_workflow_is_warned_about_and_nothing_refused(client):
    client.run(saving("warned")[0].prompt)
    for others in ([], ["two.safetensors"], []):  # the file and the node stay the same
        graph, loaded, shown = loading("warned", *others)
        texts, _ = told(client, graph, shown)
        warning = "made by one.safetensors, but this workflow loads another"
        assert (warning in texts[loaded.id]) == bool(others)
    client.run(saving("matched")[0].prompt)
    graph, loaded, shown = loading("matched", "two.safetensors", "one.safetensors")
    assert "Warning" not in told(client, graph, shown)[0][loaded.id]


def test_a_file_that_is_replaced_is_loaded_anew(client):
    client.run(saving("again")[0].prompt)
    graph, _, shown = loading("again")
    _, [first] = told(client, graph, shown)
    graph, _, shown = saving("again", "two.safetensors")
    _, [second] = told(client, graph, shown)
    graph, _, shown = loading("again")
    _, [loaded] = told(client, graph, shown)
    assert loaded["digest"] == second["digest"] != first["digest"]


def test_the_items_of_a_list_do_not_overwrite_each_other(client, shared):
    graph, _, shown = saving("many", text="a cat\na dog\na tree", split="one prompt per line")
    _, before = told(client, graph, shown)
    names = ["many", "many_2", "many_3"]
    assert all((shared / "conditioning" / f"{name}.safetensors").is_file() for name in names)
    digests = [told(client, *loading(name)[::2])[1][0]["digest"] for name in names]
    assert digests == [item["digest"] for item in before]


@pytest.mark.parametrize("name", ["../../evil", "", "a/b"])
def test_a_name_that_leaves_the_folder_is_one_sentence(client, name):
    with pytest.raises(PromptFailed, match="expect `name` to be a file name"):
        client.run(saving(name)[0].prompt)
    with pytest.raises(PromptInvalid, match="expect `name` to be a file name"):
        client.run(loading(name)[0].prompt)


def test_the_disk_cache_lies_in_the_folder_that_the_environment_names(client, server, shared):
    client.run(saving("cached", text="a lake", cache="disk")[0].prompt)
    assert len(list(shared.glob("*.safetensors"))) == 1
    warning = "HEADROOM_EMBEDDING_CACHE_MIB to be a whole number of MiB, but got 'lots'"
    assert server.log_text().count(warning) == 1
