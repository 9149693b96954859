"""Advice after a run that nearly filled the RAM: what used it, and what lowers its peak."""

from dataclasses import replace

import pytest
from support.advice import CLIP, PROMPT, UNET, VAE, Registry

from headroom.advise.about_ram import Server, about_ram
from headroom.advise.from_run import case_of
from headroom.base.ceiling import Ceiling
from headroom.base.graph import Graph
from headroom.base.node_types import NodeType
from headroom.host.types import Held, NodeLabel
from headroom.measure.strain import Strain
from headroom.record.memory import Reading, Use
from headroom.record.nodes import NodeTable
from headroom.record.run import RamLow, Run

MIB = 1 << 20
VIDEO = {**PROMPT, "5": {"class_type": "EmptyHunyuanLatentVideo", "inputs": {
    "width": 1280, "height": 720, "length": 121, "batch_size": 1}}}


def run_of(peak_mib=900, prompt=PROMPT, models=(UNET, CLIP), low=None, swapped=(0, 0)):
    """Encoding, sampling and decoding, which takes 400 MiB of RAM."""
    def at(seconds, rss_mib, swap=0):
        return Reading(seconds, rss_mib * MIB, (Use(100 * MIB, 100 * MIB, None, 8192 * MIB),),
                       tuple(Held(one, "cuda:0", MIB) for one in models),
                       Strain(None, swap * MIB, 0))

    def label(node_id):
        return NodeLabel(node_id, prompt[node_id]["class_type"], f"Title {node_id}", node_id)

    began = at(0, 100)._replace(strain=None)  # swap is read only while a node runs
    run = Run("a", ("cuda:0",), began, 0.0, NodeTable(label))
    for number, (node_id, rss) in enumerate([("6", 100), ("3", 100), ("8", 500)], 1):
        run.node_starts(node_id, at(number, 100, swapped[0]))
        run.observe(at(number + 0.3, 100, swapped[1]))
        run.node_finishes(node_id, at(number + 0.5, rss))
    run.peak_rss_bytes = peak_mib * MIB
    if low is not None:
        run.held_then(low, RamLow(50 * MIB, 1000 * MIB))
    run.end(at(9, 100))
    return run


def low(models=(), cached=(), packs=()):
    return {"models": [
        {"id": one.id, "file": None, "class": one.class_name, "mib": mib} for one, mib in models],
        "cached": [{"node_id": node_id, "class_type": "VAEDecode", "mib": mib}
                   for node_id, mib in cached],
        "packs": [{"pack": "leaky", "holder": "kept", "mib": mib} for mib in packs]}


def server(*flags, **more):
    return Server(1000 * MIB, set(flags).__contains__, **more)


def kinds(found):
    return [one["kind"] for one in found]


@pytest.mark.parametrize("flags, wanted", [
    (set(), []), ({"--cache-none"}, ["ram_cache"]), ({"--cache-none", "--fast-disk"}, ["ram_disk",
     "ram_cache"]),
])
def test_flags_that_keep_less_in_ram_are_advised_where_its_peak_speaks_for_them(flags, wanted):
    run = run_of(models=(replace(UNET, is_dynamic=True),))
    found = about_ram(run, server(*flags))
    assert kinds(found) == wanted
    assert all("900 MiB of 1 GiB" in one["text"] for one in found)
    assert about_ram(run_of(899), server(*flags)) == []
    assert "ram_disk" not in kinds(about_ram(run, server(*flags, "--disable-fast-disk")))


def test_pinned_ram_is_named_where_it_is_a_quarter_of_what_the_run_had():
    flag = "--disable-pinned-memory"
    (found,) = about_ram(run_of(), server(flag, pinned_bytes=225 * MIB))
    assert found["kind"] == "ram_pinned" and "225 MiB of it pinned" in found["text"]
    assert about_ram(run_of(), server(flag, pinned_bytes=224 * MIB)) == []


@pytest.mark.parametrize("swapped, count", [((100, 400), 1), ((400, 400), 0), ((0, 200), 0)])
def test_a_run_that_swapped_is_advised_however_little_it_had(swapped, count):
    assert len(about_ram(run_of(200, swapped=swapped), server("--cache-none"))) == count


def test_the_three_largest_users_of_ram_are_named():
    (held,) = about_ram(run_of(200, low=low([(UNET, 300), (VAE, 10)], [("8", 200)], [400])),
                        server())
    assert held["kind"] == "ram_held" and held["text"].endswith(
        f"leaky: kept 400 MiB, {UNET.class_name} 300 MiB, VAEDecode #8 200 MiB.")


def test_frames_that_a_video_decodes_at_once_are_told_by_their_bytes():
    run = run_of(2000, VIDEO)
    (frames,) = about_ram(run, Server(2000 * MIB, set().__contains__), Graph(VIDEO, Registry()))
    assert frames["node_ids"] == ["8"]
    assert "decodes 121 frames of 1280x720 at once: 1.2 GiB of RAM" in frames["text"]
    share = run_of(6000, VIDEO)  # the frames are a fifth of its peak
    assert about_ram(share, Server(6000 * MIB, set().__contains__),
                     Graph(VIDEO, Registry())) == []
    picture = {**PROMPT, "5": {**PROMPT["5"], "inputs": {"width": 8192, "height": 8192}}}
    assert about_ram(run_of(), server(), Graph(picture, Registry())) == []


def test_a_run_at_the_limit_of_this_server_had_a_full_device(monkeypatch):
    monkeypatch.setattr("headroom.advise.from_run.ceiling_of", lambda device: {
        "cuda:0": Ceiling(100 * MIB, 100 * MIB, 100 * MIB)}[str(device)])
    case = case_of(run_of(models=(replace(CLIP, is_dynamic=True),)), PROMPT, Registry())
    [sampling] = [step for step in case.steps if step.node_id == "3"]
    assert case.total_bytes == 100 * MIB and case.idle(sampling)[CLIP.id].low == 0


def test_a_model_that_only_earlier_nodes_use_may_go_to_disk_before_the_next():
    def advised(*models):
        run = run_of(low=low(models))
        case = case_of(run, PROMPT, Registry())
        return [one for one in about_ram(run, server(), case=case) if one["kind"] == "ram_models"]

    (found,) = advised((CLIP, 300), (UNET, 400))
    assert found["node_ids"] == ["6"]
    assert "(300 MiB) after Title 6 #6" in found["text"] and "`to` = `disk`" in found["text"]
    assert advised((CLIP, 80), (UNET, 400)) == advised((UNET, 400)) == []


@pytest.mark.parametrize("kept_free, gib", [(0.0, 1), (4.0, 8)])
def test_the_value_of_cache_ram_is_advised_as_headroom_where_the_cache_is_large(kept_free, gib):
    """A node takes 400 MiB and a tenth of the RAM more than the flag kept free."""
    def advised(cached):
        return about_ram(run_of(low=low(cached=[("8", cached)])), server(
            "--cache-ram", "--cache-none", kept_free_gib=kept_free))[1:]

    (found,) = advised(90)
    assert found["kind"] == "ram_headroom" and f"--cache-ram {gib}:" in found["text"]
    assert kinds(advised(89)) == ([] if kept_free else ["ram_cache"])


def test_a_decoder_of_sound_gives_no_advice_about_frames():
    """A VAE for sound behind a sampler of both."""
    prompt = {**VIDEO, "8": {**VIDEO["8"], "class_type": "VAEDecodeAudio"}}

    class Both(Registry):
        def node_type(self, class_type):
            is_sound = class_type == "VAEDecodeAudio"
            return (NodeType({"samples": "LATENT", "vae": "VAE"}, ("AUDIO",)) if is_sound
                    else super().node_type(class_type))

    run = run_of(2000, prompt)
    assert about_ram(run, Server(2000 * MIB, set().__contains__), Graph(prompt, Both())) == []


@pytest.mark.parametrize("flag, cached, wanted", [
    ("--high-ram", 0, ["ram_without"]), ("--high-ram", 500, ["ram_without"]),
    ("--cache-lru", 500, ["ram_without"]), ("--cache-lru", 0, []),
    ("--cache-classic", 500, ["ram_without"])])
def test_a_flag_that_keeps_more_in_ram_is_advised_away_and_none_that_comfyui_refuses_beside_it(
    flag, cached, wanted
):
    run = run_of(low=low(cached=[("8", cached)]))
    found = about_ram(run, server("--cache-ram", "--cache-none", cache_flag=flag))
    assert kinds(found)[1:] == wanted
    assert not wanted or f"without {flag}, which" in found[1]["text"]


def test_with_cache_none_and_gpu_only_what_is_left_to_advise_is_said_and_nothing_twice():
    """Neither results nor weights are in RAM, and the flag is set already."""
    (held,) = about_ram(run_of(low=low(packs=[700])), server("--cache-ram"))
    assert held["kind"] == "ram_held"
