"""The disk cache in real servers: the encoder's loader does not run, and nothing stale is used."""

import json
import shutil

import pytest
from support.encodings import (
    CHECKPOINT,
    LINES,
    SMALL,
    Encoding,
    Run,
    edit_in_the_middle,
    encoders_of,
    files,
    give,
    write_changed_lora,
    write_encoder,
    write_word,
)
from support.timed import Later

from tools.graph import Graph, forget_everything

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def user_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def server(serve, user_folder):
    server = serve("--user-directory", str(user_folder))
    write_encoder(encoders_of(server), seed=1)
    write_encoder(encoders_of(server), seed=2, name="other.safetensors")
    return server


@pytest.fixture(scope="module")
def other(serve, server, user_folder):
    """A second whole server on the same folder, with models of its own."""
    return serve("--user-directory", str(user_folder), "--cache-none")


@pytest.fixture
def client(server, user_folder):
    """A client of an idle server with an empty embedding cache and an empty node cache."""
    pytest.importorskip("websocket")
    shutil.rmtree(user_folder / "__headroom", ignore_errors=True)
    client = server.client()
    forget_everything(client)
    return client


@pytest.mark.parametrize("file", [SMALL, CHECKPOINT])
def test_the_second_run_executes_no_loader_and_gives_the_same_bits(client, user_folder, file):
    first = Encoding(file).run(client)
    assert first.loaded and "0 of 2 prompts read, 2 encoded and written" in first.report
    assert [path.suffix for path in files(user_folder)] == [".safetensors"] * 2
    forget_everything(client)
    second = Encoding(file).run(client)
    assert second.encoded and not second.loaded and second.digest == first.digest
    assert "2 of 2 prompts read" in second.report and "did not run" in second.report
    assert Encoding(file, cache="off").run(client).digest == first.digest


def test_a_lora_above_the_input_makes_other_embeddings(client):
    Encoding(CHECKPOINT).run(client)
    first = Encoding(CHECKPOINT, lora=0.5).run(client)
    assert "0 of 2 prompts read, 2 encoded and written" in first.report
    stronger = Encoding(CHECKPOINT, lora=0.6).run(client)
    assert "0 of 2 prompts read, 2 encoded and written" in stronger.report
    forget_everything(client)
    assert not Encoding(CHECKPOINT, lora=0.5).run(client).loaded


def test_one_more_prompt_runs_the_encoder_for_that_one_only(client):
    Encoding().run(client)
    forget_everything(client)
    more = Encoding(text=LINES + "\na tree").run(client)
    assert more.loaded and "2 of 3 prompts read, 1 encoded and written" in more.report


def test_unchanged_queues_stay_in_the_node_cache(client):
    Encoding().run(client)
    again = Encoding().run(client)
    assert not again.encoded and not again.loaded


def test_another_encoder_and_another_weight_do_not_hit(client):
    Encoding().run(client)
    assert "0 of 2 prompts read" in Encoding("other.safetensors").run(client).report
    assert "1 of 2 prompts read" in Encoding(text="a cat\na (dog:1.31)").run(client).report


def test_a_textual_inversion_file_named_in_the_prompt_counts(client, server):
    import torch

    text = "a embedding:probe_word\nembedding:other_word"

    def run(width):
        write_word(server, "probe_word", torch.ones((1, width)))
        return Encoding(text=text).run(client).report

    assert "0 of 2 prompts read" in run(768)
    forget_everything(client)
    assert "1 of 2 prompts read, 1 encoded and written" in run(4096)


def test_a_node_inside_an_expansion_hits_too(client):
    def run():
        graph = Graph()
        made = graph.add("ProbeExpand", clip_name=SMALL, text="a cat", cache="disk")
        shown = graph.add("ProbeConditioning", a=made)
        run = Run(client, graph)
        return run.digests(shown), "\n".join(run.texts.values())

    first, wrote = run()
    forget_everything(client)
    second, read = run()
    assert first == second
    assert "1 encoded and written" in wrote and "1 of 1 prompt read" in read


def test_a_loader_that_names_no_file_is_used_and_the_reason_given(client, user_folder):
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind="t5", seed=0)
    encode = graph.add("HeadroomEncodeToCPU", clip=clip, text="a cat", split="one prompt",
                       release_encoder=True, cache="disk")
    graph.add("ProbeConditioning", a=encode)
    report = Run(client, graph).report(encode)
    assert "not used, because node 1 (ProbeEncoder) names no file" in report
    assert files(user_folder) == []


def test_a_file_that_comes_while_the_server_runs_is_cached_at_once(client, server):
    path = write_encoder(encoders_of(server), seed=5, name="new.safetensors")
    assert "2 encoded and written" in Encoding(path.name).run(client).report
    forget_everything(client)
    assert not Encoding(path.name).run(client).loaded


def test_two_servers_that_encode_the_same_at_once_never_disturb_each_other(
    client, server, other, user_folder
):
    give(server, other, SMALL)
    text = "\n".join(f"prompt {index}" for index in range(24))
    clients = [client, other.client()]
    both = [Later(lambda one=one: Encoding(text=text).run(one)) for one in clients]
    runs = [later.wait(120).answer for later in both]
    assert runs[0].digest == runs[1].digest
    assert all("24 prompts read" in run.report and "not kept" not in run.report for run in runs)
    assert [path.suffix for path in files(user_folder)] == [".safetensors"] * 24
    for one in clients:
        forget_everything(one)
        assert not Encoding(text=text).run(one).loaded


def replace(path):
    write_encoder(path.parent, seed=4, name=path.name)


@pytest.mark.parametrize("change", [replace, edit_in_the_middle])
def test_a_changed_file_neither_hits_nor_leaves_a_trace_of_the_old_model(
    client, server, other, user_folder, change
):
    path = write_encoder(encoders_of(server), seed=3, name=f"{change.__name__}.safetensors",
                         pad_bytes=3_000_000)
    first = Encoding(path.name).run(client)
    assert "2 encoded and written" in first.report
    change(path)

    # ComfyUI still has the old model loaded: our node runs again, reads nothing, keeps nothing.
    second = Encoding(path.name).run(client)
    assert second.encoded and not second.loaded and second.digest == first.digest
    reason = f"0 of 2 prompts read; 2 encoded but not kept, because {path.name} changed while"
    assert reason in second.report and len(files(user_folder)) == 2

    # Another process loads the new file: it must not get the old embeddings.
    give(server, other, path.name)
    fresh = Encoding(path.name).run(other.client())
    assert fresh.loaded and fresh.digest != first.digest
    assert "0 of 2 prompts read, 2 encoded and written" in fresh.report


def test_a_lora_on_the_clip_that_changes_neither_hits_nor_leaves_a_trace(
    client, server, other, models_dir
):
    path = server.base_dir / "models" / "loras" / "changing.safetensors"

    def run(one):
        return Encoding(CHECKPOINT, lora=1.0, lora_name=path.name).run(one)

    write_changed_lora(models_dir, path, 1)
    first = run(client)
    assert "2 encoded and written" in first.report
    write_changed_lora(models_dir, path, 3)
    assert f"2 encoded but not kept, because {path.name} changed" in run(client).report
    give(server, other, path.name, "loras")
    fresh = run(other.client())
    assert "2 encoded and written" in fresh.report and fresh.digest != first.digest


def test_the_key_covers_comfyuis_version_the_code_of_packs_and_the_tokenizers(client, comfyui):
    from importlib.metadata import version

    from tools.comfyui import version_of_tree

    graph = Graph()
    probe = graph.add("ProbeCacheKey")
    told = json.loads(Run(client, graph).report(probe))
    assert told["numerics"]["transformers"] == version("transformers")
    assert told["numerics"]["tokenizers"] == version("tokenizers")
    assert told["numerics"]["comfy"].split()[0] == version_of_tree(comfyui)
    codes = told["codes"]
    assert codes["CLIPLoader"] == codes["LoraLoader"] == codes["CLIPTextEncodeSD3"] == ""
    assert len(codes["ProbeEncoder"]) == len(codes["HeadroomEncodeToCPU"]) == 64
    assert codes["ProbeEncoder"] != codes["HeadroomEncodeToCPU"]
