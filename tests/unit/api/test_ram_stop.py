"""When RAM is about to run out (from recorded figures), and the message of a stopped prompt."""

from types import SimpleNamespace

import pytest
from support.hosts import Host
from support.registries import FilesAndClasses

from headroom.api import ram_stop as module
from headroom.api import ram_watch as watch_module
from headroom.api.ram_stop import EVENT, Node, RamFall, RamStop, is_load, load_bytes, loading_nodes
from headroom.api.ram_watch import RamWatch
from headroom.base import device as base
from headroom.base.device import MIB
from headroom.host.types import Held, ModelFacts
from headroom.measure.journal import listen

FALLS = [  # MiB left, each quarter of a second; the MiB left when the end of RAM is foreseen
    ("a node that keeps taking 400 MiB a second", range(2000, 0, -100), 200),
    ("a leak of 8 MiB a second near the end", range(40, 0, -2), 4),
    ("one large allocation", [4000, 4000, 300, 300, 300, 300], None),
    ("a fall that ends in time", [900, 850, 800, 790, 790, 800, 810], None),
    ("a slow leak far from the end", range(900, 700, -10), None),
    ("nothing happens in the last MiB", [3] * 10, None),
]


@pytest.mark.parametrize("rooms, foreseen", [fall[1:] for fall in FALLS],
                         ids=[fall[0] for fall in FALLS])
def test_only_a_fall_that_goes_on_foresees_the_end(rooms, foreseen):
    fall = RamFall()
    ends = [room for look, room in enumerate(rooms) if fall.is_ending(look / 4, room * MIB)]
    assert next(iter(ends), None) == foreseen


@pytest.mark.parametrize("file, taken, room, loads", [
    (4000, 3600, 500, True),  # 400 are still to come
    (4000, 3600, 300, False),  # they do not fit
    (4000, 4400, 3700, True),  # 16-bit weights that a CPU computes in 32, or a state dict's copy
    (4000, 4400, 300, False),
    (4000, 4700, 600, True),  # a checkpoint with some weights in 32 bits
    (4000, 4100, 300, True),  # it has ended, with what it took beside its file
    (4000, 8500, 300, False),  # more than a load takes
    (30, 3600, 300, False),  # a video, whose frames are far larger
    (0, 0, 300, False),
])
def test_a_load_that_would_fit_is_no_leak(file, taken, room, loads):
    assert is_load(file, taken, room) == loads


def test_the_bytes_that_a_node_loads_are_those_of_the_files_it_names(monkeypatch, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(bytes(1000))
    monkeypatch.setattr(module, "host_registry", lambda: FilesAndClasses(tmp_path))
    prompt = {"1": {"class_type": "Load", "inputs": {"name": "a.safetensors", "on": True}},
              "2": {"class_type": "Load", "inputs": {"name": "gone.ckpt", "model": ["1", 0]}},
              "3": {"class_type": "Text", "inputs": {"text": "a.safetensors is a file"}},
              "4": "no node", "5": {"class_type": "Text"}}  # ComfyUI accepts anything
    assert loading_nodes(prompt) == {"1", "2"}
    assert [load_bytes(prompt, one) for one in ("1", "2", "3", "3.0.1")] == [1300, 0, 0, 0]


def fails(*_):
    raise TypeError("a models folder of another pack is no path")


def test_an_error_while_files_are_looked_up_does_not_end_the_prompt_that_loads_them(monkeypatch):
    monkeypatch.setattr(module, "host_registry", lambda: SimpleNamespace(files_named=fails))
    assert load_bytes({"1": {"class_type": "Load", "inputs": {"name": "a.ckpt"}}}, "1") == 0


def test_with_dynamic_vram_no_room_is_made_for_a_load(monkeypatch):
    monkeypatch.setattr(module, "current_host", lambda: Host(dynamic_vram=True))
    assert not loading_nodes({"1": {"class_type": "Load", "inputs": {"name": "a.safetensors"}}})


def model(name, total_mib, loaded_mib=0, device="cuda:0", dynamic=False):
    facts = ModelFacts("m1", "model", "SD15", name, total_mib * MIB, is_dynamic=dynamic)
    return Held(facts, device, loaded_mib * MIB)


@pytest.fixture
def stopped(monkeypatch, tmp_path):
    """A function that stops node 5 of prompt "p": whether it did, and what was told to whom."""
    monkeypatch.setattr(module, "ram_room_bytes", lambda: 200 * MIB)
    monkeypatch.setattr(module, "swap_room_bytes", lambda: 0)
    monkeypatch.setattr(module, "rss_bytes", lambda: 15000 * MIB)
    monkeypatch.setattr(module.sys, "platform", "linux")
    monkeypatch.setattr(module, "loaded_models", lambda: [
        model("mapped.safetensors", 9000, dynamic=True), model("clip.safetensors", 4000),
        model("flux.safetensors", 9000, 8000), model("vae.safetensors", 300, 300)])
    noted, sent, told = [], [], []
    prompt = {"5": {"class_type": "VAEDecode", "inputs": {"name": "a.safetensors"},
                    "_meta": {"title": "Decode"}}}
    (tmp_path / "a.safetensors").write_bytes(bytes(1000))
    monkeypatch.setattr(module, "host_registry", lambda: FilesAndClasses(tmp_path))

    def stop(runs=True, unset=("--cache-none", "--disable-pinned-memory", "--cpu"),
             taken=300 * MIB):
        listen(noted.append)
        monkeypatch.setattr(module, "has_flag", set(unset).__contains__)
        queue = SimpleNamespace(interrupt=lambda prompt_id, before: runs and (before() or True),
                                prompt_of=lambda prompt_id: prompt)
        did = RamStop(queue, lambda *event: sent.append(event),
                      lambda *stop: told.append(stop[:2])).stop(Node("p", "5", taken))
        assert told == [("p", "5")] * did
        return did, noted, sent

    return stop


def test_one_sentence_says_who_held_the_ram_and_which_flags_of_this_comfyui_may_help(stopped):
    did, [action], [(event, data)] = stopped()
    assert did and event == EVENT and data["text"] == action.text
    assert (action.prompt_id, action.node_id, action.action) == ("p", "5", "ram stop")
    assert action.text == (
        "RAM was about to run out in Decode (node 5): the prompt was interrupted with 200.0 MiB "
        "left, before the system would have ended the server. 300.0 MiB were taken since this "
        "node began. This server held 15,000.0 MiB, with "
        "these models in RAM: clip.safetensors 4,000.0 MiB, flux.safetensors 1,000.0 MiB. What may "
        "help: --disable-pinned-memory, or --cache-none, or more swap space.")


@pytest.mark.parametrize("file_mib, stopped_at", [(0, 200), (1850, None), (1800, None), (800, 200)])
def test_a_slow_load_is_stopped_only_if_its_file_does_not_tell_when_it_ends(
    monkeypatch, tmp_path, file_mib, stopped_at
):
    """2,000 MiB are left, and 100 fewer at each look until 150 are."""
    with open(tmp_path / "a.safetensors", "wb") as file:
        file.truncate(file_mib * MIB)
    rooms, stops, at = [2000, *range(1900, 149, -100), 150, 150, 150], [], []
    monkeypatch.setattr(module, "host_registry", lambda: FilesAndClasses(tmp_path))
    monkeypatch.setattr(module, "loaded_models", list)
    for where in (module, watch_module):
        monkeypatch.setattr(where, "ram_room_bytes", lambda: at[-1] * MIB)
        monkeypatch.setattr(where, "swap_room_bytes", lambda: 0)
    monkeypatch.setattr(watch_module.time, "monotonic", lambda: len(at) / 4)
    stop = RamStop(SimpleNamespace(
        interrupt=lambda *_: stops.append(at[-1]) or True,
        prompt_of=lambda _: {"5": {"class_type": "Load", "inputs": {"name": "a.safetensors"}}},
    ), lambda *_: None)
    watch = RamWatch(None, None, list, 1000 * MIB, stop.stop)
    monkeypatch.setattr(watch_module, "trim", lambda: None)
    for look, room in enumerate(rooms):
        at.append(room)
        watch.look_amid()
        if look == 0:
            watch.before_node("p", "5")
    assert next(iter(stops), None) == stopped_at


def test_a_node_that_loads_a_file_of_which_the_rest_fits_is_not_stopped(stopped):
    assert stopped(taken=400) == (False, [], [])


@pytest.mark.parametrize("looked_up", ["host_registry", "loaded_models"])
def test_an_error_in_what_is_looked_up_for_its_message_keeps_no_prompt_from_being_stopped(
    monkeypatch, stopped, looked_up
):
    find = {"host_registry": lambda: SimpleNamespace(files_named=fails), "loaded_models": fails}
    monkeypatch.setattr(module, looked_up, find[looked_up])
    did, [action], _ = stopped()
    assert did and "Decode (node 5): the prompt was interrupted" in action.text


def test_a_prompt_that_has_ended_meanwhile_is_not_reported(stopped):
    assert stopped(runs=False) == (False, [], [])


@pytest.mark.parametrize("device, shares, named", [
    ("cuda:0", False, ""), ("mps", True, ", with these models in RAM: a 300.0 MiB")])
def test_weights_on_the_gpu_count_as_ram_only_where_both_are_one(
    monkeypatch, device, shares, named
):
    """With --gpu-only all of them are there."""
    monkeypatch.setattr(base, "shares_ram", lambda device: shares)
    assert module._models([model("a", 300, 300, device)]) == named
