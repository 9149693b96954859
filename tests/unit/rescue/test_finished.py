"""Finished outputs of a prompt wait on disk for a rerun, should a server be killed in it."""

import os
import shutil
from types import SimpleNamespace

import pytest
import torch
from support.registries import FilesAndClasses
from support.rescue_bench import FakeQueue

from headroom.base.guards import Guarded, WithGuards
from headroom.base.node_types import NodeType
from headroom.rescue import finished as module
from headroom.rescue.finished import Finished
from headroom.rescue.kept_queue import KeptQueue
from headroom.rescue.setup import RerunSetup, WhatRuns

PROMPT = WithGuards({
    "load": {"class_type": "Load", "inputs": {"file": "model.safetensors"}},
    "text": {"class_type": "Encode", "inputs": {"clip": ["load", 1]}},
    "hook": {"class_type": "Hook", "inputs": {"positive": ["text", 0]}},
    "sample": {"class_type": "Sample", "inputs": {"model": ["load", 0], "positive": ["hook", 0]}},
    "upscale": {"class_type": "Upscale", "inputs": {"samples": ["sample", 0]}},
    "decode": {"class_type": "Decode", "inputs": {"samples": ["upscale", 0]}},
}, {})
LOOPS = {"StartLoop": NodeType({}, (), loop_boundary="start")}
LATENT = [[{"samples": torch.arange(24.0).reshape(1, 4, 2, 3).to(torch.bfloat16)}]]
TEXT = [[[[torch.ones(1, 3, 5), {"pooled_output": None}]]]]
VALUES = {"load": [[object()], [object()]], "text": TEXT, "hook": [[[torch.ones(2), object()]]],
          "sample": LATENT}


class Providers:
    """ComfyUI's node cache, by node, and its provider."""

    def __init__(self):
        self.values, self.get, self.turns = dict(VALUES), None, []

    def values_of(self, prompt_id, prompt):
        def value_of(node_id):
            found = self.values.get(node_id)
            return None if found is None else (f"key of {node_id}", found, {"text": [node_id]})
        return value_of

    def turn_values(self, prompt_id, nodes):
        assert prompt_id == "failed"
        return [value for shown, value in self.turns if shown in nodes]

    def serve(self, get):
        self.get = get


class Place:
    def __init__(self, folder, limit=1 << 20):
        self.folder, self.host = folder / "outputs", Providers()
        (folder / "model.safetensors").write_bytes(b"weights")
        files = FilesAndClasses(folder, LOOPS)
        self.finished = Finished(self.host, files, lambda _: self.folder, limit)

    def keep(self, *cached, outputs=("decode",), turns=(), prompt=PROMPT):
        runs = WhatRuns((), (), False, True, frozenset(turns))
        setup = RerunSetup(Guarded(prompt, {}, []), list(outputs), runs, frozenset(cached))
        self.finished.keep("rerun", setup, "failed")
        return self

    def found(self, *names):
        """What ComfyUI finds of these nodes in the next server, as it asks."""
        self.finished.prompt_begins("rerun", PROMPT)
        get = self.host.get or {}.get  # no provider: nothing is found
        answers = {name: get(f"key of {name}") for name in names or VALUES}
        return {name: found for name, found in answers.items() if found is not None}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_outputs_that_the_rerun_needs_are_found_bit_by_bit_and_none_above_them(place):
    found = place.keep("load", "text", "hook", "sample").found()
    assert set(found) == {"sample"}
    outputs, ui = found["sample"]
    samples = outputs[0][0]["samples"]
    assert samples.dtype == torch.bfloat16 and torch.equal(samples, LATENT[0][0]["samples"])
    assert ui == {"text": ["sample"]}


def test_for_an_output_that_no_file_can_hold_its_inputs_are_kept(place):
    assert set(place.keep("load", "text", "hook").found()) == {"text"}


def test_every_output_of_a_loops_finished_turns_is_kept_except_their_begins(place):
    looped = WithGuards({**PROMPT, "start": {"class_type": "StartLoop", "inputs": {}}}, {})
    place.host.turns = [(shown, (key, LATENT, None)) for shown, key in (
        ("upscale", "turn 0"), ("upscale", "turn 1"), ("start", "begin 1"), ("hook", "changed"))]
    found = place.keep("load", turns=["start", "upscale"], prompt=looped)
    found.finished.prompt_begins("rerun", looped)
    kept = [key for _, (key, *_) in place.host.turns if place.host.get(key) is not None]
    assert kept == ["turn 0", "turn 1"]


def test_a_nearly_full_disk_is_left_to_what_the_rerun_itself_saves(place, monkeypatch):
    free = {"bytes": 1000}
    monkeypatch.setattr(module.shutil, "disk_usage",
                        lambda folder: SimpleNamespace(free=free["bytes"] * folder.is_dir()))
    assert place.keep("sample").found() == {} and not place.folder.exists()
    free["bytes"] = 100_000
    assert set(place.keep("sample").found()) == {"sample"}


def test_a_text_alone_is_not_kept(place):
    place.host.values["text"] = [["the name of a file that the next server lacks"]]
    assert place.keep("load", "text").found() == {}
    assert not place.folder.exists()


def test_under_another_model_file_nothing_is_found(place, tmp_path):
    place.keep("sample")
    (tmp_path / "model.safetensors").write_bytes(b"others!")
    assert place.found() == {}


def test_every_damaged_or_foreign_file_is_a_miss(place):
    place.keep("sample")
    [path] = place.folder.iterdir()
    sound = path.read_bytes()
    for position in range(0, len(sound), 7):
        path.write_bytes(sound[:position] + bytes([sound[position] ^ 1]) + sound[position + 1:])
        assert place.found("sample") == {}, position
    for content in (b"", sound[:-1], b"\x80\x04pickle", b"\xff" * 99):
        path.write_bytes(content)
        assert place.found("sample") == {}
    if hasattr(os, "mkfifo"):
        path.unlink()
        os.mkfifo(path)
        assert place.found("sample") == {}


@pytest.mark.parametrize("content", [
    [1], {"outputs": 1, "ui": None}, {"outputs": [1], "ui": None}, {"outputs": [[1]]},
    {"outputs": [[1]], "ui": "text"},
])
def test_a_sound_file_of_another_shape_is_a_miss(place, content, monkeypatch):
    monkeypatch.setattr(module, "from_bytes", lambda *_: content)
    assert place.keep("sample").found("sample") == {}


def test_not_more_is_kept_than_the_limit_and_ram_allow(tmp_path, monkeypatch):
    for limit, count in ((100, 0), (1000, 1), (2000, 2)):  # a file has 500 to 700 bytes
        place = Place(tmp_path, limit)
        assert len(place.keep("sample", "text", outputs=("sample", "text")).found()) == count
        shutil.rmtree(place.folder, ignore_errors=True)
    monkeypatch.setattr(module, "ram_room_bytes", lambda: 60)
    assert Place(tmp_path).keep("sample", "text").found() == {}


def test_a_disk_that_refuses_is_a_warning_and_the_rerun_goes_on(place, caplog):
    place.folder.write_text("no folder")
    place.keep("sample")
    assert "not kept on disk" in caplog.text


def test_a_value_of_a_pack_that_raises_is_a_warning_and_the_rerun_goes_on(place, caplog):
    def raises(*_):
        raise AttributeError("no such tensor")

    place.host.values_of = lambda *_: raises
    place.keep("sample")
    assert "no such tensor" in caplog.text


def test_comfyui_is_told_of_a_provider_only_while_such_a_prompt_runs(place, tmp_path):
    place.keep("sample").found()
    place.folder = tmp_path / "of another prompt"
    place.finished.prompt_begins("other", PROMPT)
    assert place.host.get is None


# ---------------------------------------------------------------- how long they stay


ITEM = (0, "rerun", PROMPT, {}, ["decode"], {})


def fill(server):
    folder = server.outputs_of("rerun")
    folder.mkdir(parents=True)
    (folder / "one.safetensors").write_bytes(b"1")
    return folder


def left_in(folder):
    return [path for path in folder.rglob("*") if path.suffix not in (".sqlite", ".lock")
            and not path.name.endswith(("-wal", "-shm"))]


def test_finished_outputs_are_deleted_when_their_prompt_leaves_the_queue(tmp_path):
    server = KeptQueue(queue := FakeQueue([ITEM]), tmp_path, "keep")
    fill(server)  # before ComfyUI has it
    server.changed()
    assert left_in(tmp_path)
    queue.running = []
    server.changed()
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("then", ["discard", "queue_again"])
def test_the_next_server_takes_them_over_until_it_is_done_or_discards_them(tmp_path, then):
    server = KeptQueue(FakeQueue([ITEM]), tmp_path, "keep")
    server.changed()
    fill(server)
    server._file.close()  # as the system does
    server = KeptQueue(queue := FakeQueue(), tmp_path, "keep")
    getattr(server, then)()
    taken = server.outputs_of("rerun") / "one.safetensors"
    assert taken.exists() == (then == "queue_again")
    queue.waiting = []
    server.changed()
    assert left_in(tmp_path) == []


def test_outputs_without_a_queue_are_deleted_at_the_next_start(tmp_path):
    server = KeptQueue(FakeQueue([ITEM]), tmp_path, "keep")
    fill(server)
    server._file.close()
    (tmp_path / "gone.outputs" / "x").mkdir(parents=True)
    KeptQueue(FakeQueue(), tmp_path, "keep")
    assert left_in(tmp_path) == []


def test_a_kept_prompt_comes_back_with_its_guards_and_shows_none(tmp_path):
    guarded = WithGuards({**PROMPT, "headroom-guard": {"class_type": "Guard", "inputs": {}}},
                         {"headroom-guard": ("load", 0)})
    server = KeptQueue(FakeQueue([(0, "rerun", guarded, {}, ["decode"], {})]), tmp_path, "keep")
    server.changed()
    server._file.close()
    KeptQueue(queue := FakeQueue(), tmp_path, "keep").queue_again()
    [again] = [item[2] for item in queue.waiting]
    assert "headroom-guard" in again and "headroom-guard" not in dict(again.items())
