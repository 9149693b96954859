"""The disk cache in real servers: the encoder's loader does not run, and nothing stale is used."""

import json
import shutil
from pathlib import Path

import pytest

from devtools.client import cached_nodes, node_texts
from devtools.graph import Graph, forget_everything

pytestmark = pytest.mark.host

PACK = Path(__file__).parent / "packs" / "headroom_probe_encoders"
CHECKPOINT, LORA = "headroom_test_sd15.safetensors", "headroom_test_lora.safetensors"
SMALL = "headroom_probe_encoder.safetensors"
LINES = "a cat\na (dog:1.3)"


def write_encoder(folder, seed, name=SMALL):
    """Write a file that the probe's loader makes a small encoder of; return its path."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    save_file({"seed": torch.tensor(seed)}, str(folder / name))
    return folder / name


def encoders_of(server):
    return server.base_dir / "models" / "text_encoders"


@pytest.fixture(scope="module")
def user_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def server(serve, user_folder):
    server = serve("--user-directory", str(user_folder), packs=[PACK])
    write_encoder(encoders_of(server), seed=1)
    write_encoder(encoders_of(server), seed=2, name="other.safetensors")
    return server


@pytest.fixture
def client(server, user_folder):
    """A client of an idle server with an empty embedding cache and an empty node cache."""
    pytest.importorskip("websocket")
    shutil.rmtree(user_folder / "__headroom", ignore_errors=True)
    client = server.client()
    forget_everything(client)
    return client


class Run:
    """One prompt: what its nodes told, which nodes ran, and which came from the node cache."""

    def __init__(self, client, graph):
        self.ran = []
        with client.events() as events:
            self.prompt_id = client.queue(graph.prompt, client_id=events.client_id)
            for event in events.until_finished(self.prompt_id):
                data = event["data"]
                if event["type"] == "executing" and data["node"] is not None:
                    self.ran.append(data["node"])
        self.entry = client.wait(self.prompt_id)
        assert self.entry["status"]["status_str"] == "success", self.entry["status"]
        self.texts = node_texts(self.entry)
        self.cached = cached_nodes(self.entry)

    def report(self, node):
        return self.texts[node.id]

    def digests(self, node):
        return [json.loads(line)["digest"] for line in self.texts[node.id].splitlines()]


class Encoding:
    """A loader, an Encode to CPU node behind it, and a look at the result."""

    def __init__(self, file=SMALL, text=LINES, cache="disk", lora=None):
        self.graph = Graph()
        if file == CHECKPOINT:
            self.loader = self.graph.add("CheckpointLoaderSimple", ckpt_name=file)
            clip = self.loader[1]
        else:
            self.loader = self.graph.add("ProbeEncoderFile", clip_name=file, kind="flux")
            clip = self.loader[0]
        if lora is not None:
            clip = self.graph.add("LoraLoader", model=self.loader, clip=clip, lora_name=LORA,
                                  strength_model=1.0, strength_clip=lora)[1]
        self.encode = self.graph.add(
            "HeadroomEncodeToCPU", clip=clip, text=text, split="one prompt per line",
            release_encoder=True, cache=cache,
        )
        self.shown = self.graph.add("ProbeConditioning", a=self.encode)

    def run(self, client):
        run = Run(client, self.graph)
        self.report = run.texts.get(self.encode.id, "")
        self.digest = run.digests(self.shown)
        self.loaded = self.loader.id in run.ran
        self.encoded = self.encode.id in run.ran
        return self


def files(user_folder):
    return sorted((user_folder / "__headroom" / "embeddings").glob("*"))


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


def test_a_second_server_with_the_same_user_folder_hits(client, server, serve, user_folder):
    first = Encoding().run(client)
    other = serve("--user-directory", str(user_folder), "--cache-none", packs=[PACK])
    encoders_of(other).mkdir(parents=True, exist_ok=True)
    shutil.copy2(encoders_of(server) / SMALL, encoders_of(other) / SMALL)
    second = Encoding().run(other.client())
    assert not second.loaded and second.digest == first.digest


def test_damaged_and_foreign_files_are_encoded_again_and_replaced(client, user_folder):
    first = Encoding().run(client)
    damaged, foreign = files(user_folder)
    good = {path: path.read_bytes() for path in (damaged, foreign)}
    damaged.write_bytes(good[damaged][:-4] + b"evil")
    foreign.write_bytes(good[damaged])
    forget_everything(client)
    second = Encoding().run(client)
    assert second.loaded and second.digest == first.digest
    assert "0 of 2 prompts read, 2 encoded and written" in second.report
    assert {path: path.read_bytes() for path in files(user_folder)} == good


def test_a_textual_inversion_file_named_in_the_prompt_counts(client, server):
    import torch
    from safetensors.torch import save_file

    folder = server.base_dir / "models" / "embeddings"
    folder.mkdir(parents=True, exist_ok=True)
    text = "a embedding:probe_word\nembedding:other_word"

    def run(width):
        save_file({"emb_params": torch.ones((1, width))}, str(folder / "probe_word.safetensors"))
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
    assert "not used, because node 1 (ProbeEncoder) is a custom node that names no file" in report
    assert files(user_folder) == []


def test_a_replaced_file_neither_hits_nor_leaves_a_trace_of_the_old_model(
    client, server, serve, user_folder
):
    path = write_encoder(encoders_of(server), seed=3, name="replaced.safetensors")
    first = Encoding(path.name).run(client)
    assert "2 encoded and written" in first.report
    write_encoder(path.parent, seed=4, name=path.name)

    # ComfyUI still has the old model loaded: our node runs again and keeps nothing of it.
    second = Encoding(path.name).run(client)
    assert second.encoded and not second.loaded and second.digest == first.digest
    reason = "not kept, because replaced.safetensors changed while ComfyUI was running"
    assert reason in second.report and len(files(user_folder)) == 2

    # Another process loads the new file: it must not get the old embeddings.
    other = serve("--user-directory", str(user_folder), "--cache-none", packs=[PACK])
    encoders_of(other).mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, encoders_of(other) / path.name)
    fresh = Encoding(path.name).run(other.client())
    assert fresh.loaded and fresh.digest != first.digest
    assert "0 of 2 prompts read, 2 encoded and written" in fresh.report


def test_a_file_that_comes_while_the_server_runs_is_cached_at_once(client, server):
    path = write_encoder(encoders_of(server), seed=5, name="new.safetensors")
    assert "2 encoded and written" in Encoding(path.name).run(client).report
    forget_everything(client)
    assert not Encoding(path.name).run(client).loaded
