"""`dev.py fit` on ComfyUI's own loading and PyTorch's own allocator, at real sizes."""

import json

import pytest

from tools.client import Client
from tools.fit_steps import fewer_steps
from tools.jobs import read_prompt
from tools.templates import template_file
from tools.workflows import API_FOLDER, WORKFLOWS

pytestmark = [pytest.mark.host, pytest.mark.fakecuda]

CONTEXT_MIB = 400
UNET_MIB = 1640  # SD1.5's in float16
MIB = 1 << 20
CARD_GIB = 8
VIDEO = "diffsynth_prompt_loop"  # its steps copy positions on any card
# What a card of 8 GiB makes of each, and the most that a step can have to move: its model's size.
BUNDLED = {
    "start_here": ("resident", 0), "diffsynth_prompt_loop": ("resident", 0),
    "infiniteyou_720p_bf16": ("streams", 30000),
    "diffusers_encode_only": ("resident", 0), "sd_controlnet_switch": ("resident", 0),
}
TEMPLATES = {
    "default": ("resident", 0), "sdxlturbo_example": ("resident", 0),
    "flux_schnell": ("streams", 11500),
}


@pytest.fixture(scope="module")
def dry(comfyui, tmp_path_factory):
    """One server for all, with the published files that they name."""
    import fakecuda

    if reason := fakecuda.why_not():
        pytest.skip(reason)
    from tools.dry_server import DryServer
    from tools.fit_files import find_models
    from tools.fit_inputs import add_inputs

    base = tmp_path_factory.mktemp("fit")
    data = [json.loads(file(name).read_text()) for name in (*BUNDLED, *TEMPLATES)]
    add_inputs(data, None, base / "input")
    settings = {"context_mib": CONTEXT_MIB, "capability": "8.9", "cudnn_layout_copies": 1}
    with DryServer(comfyui, base, settings=settings,
                   flags=["--disable-dynamic-vram"] if has_dynamic(comfyui) else [],
                   env={"HEADROOM_DRY_RAM_MIB": "32768"}) as dry:
        dry.add_models(find_models(data, {}, dry.shapes).files)
        yield dry


@pytest.fixture(scope="module")
def info(dry):
    return dry.client.get_json("/object_info")


def file(name):
    return API_FOLDER / f"{name}.json" if name in WORKFLOWS else template_file(name)


def fit_of(name, dry, info):
    from tools.fit_run import Fit

    prompt = fewer_steps(read_prompt(file(name), dry.client))
    return Fit(dry, prompt, info, guard=False, context_mib=CONTEXT_MIB, show=False)


@pytest.fixture(scope="module")
def fit(dry, info):
    return fit_of("default", dry, info)


def has_dynamic(comfyui):
    from tools.server import known_flags

    return "--disable-dynamic-vram" in known_flags(comfyui)


def plain(fit, gib):
    return fit.trial(gib, "as it is", fit.prompt)


# The first: a run of the same prompt would already have taught what it needs.
@pytest.mark.parametrize("name", ["default", "flux_schnell"])
def test_the_panels_estimate_holds_the_peak_of_a_run_with_room_and_is_no_wider_than_its_half(
    dry, info, name
):
    fit = fit_of(name, dry, info)

    def asked():
        status, found = dry.client.post_json("/headroom/estimate", {"prompt": fit.prompt})
        assert status == 200, found
        return found["kind"], found["needs_mib"]

    kind, (low, high) = asked()
    _, prompt_id = plain(fit, 24)
    peak = dry.client.get_json(f"/headroom/runs/{prompt_id}")["peak_vram_mib"]
    assert kind == "headers" and 0.5 * peak < low <= peak <= high < 1.5 * peak
    assert asked() == ("measured", [pytest.approx(low, rel=0.2), peak])


@pytest.mark.parametrize("name", (*BUNDLED, *TEMPLATES))
def test_a_workflow_at_its_real_size_gets_its_verdict_on_a_card_of_eight_gib(dry, info, name):
    word, most_mib = {**BUNDLED, **TEMPLATES}[name]
    fit = fit_of(name, dry, info)
    if name == VIDEO:
        fit.look_at_room()
    found = plain(fit, CARD_GIB)[0]
    assert found.verdict.word == word, found.verdict
    assert word == "resident" or 0.1 * most_mib < found.verdict.mib <= most_mib
    assert CONTEXT_MIB < found.peak_mib <= CARD_GIB * 1024


def test_nothing_of_one_run_is_left_for_the_next(dry, info):
    encodes = fit_of("diffusers_encode_only", dry, info)
    first, again = (plain(encodes, CARD_GIB)[0] for _ in range(2))
    assert [node.class_type for node in again.nodes] == [node.class_type for node in first.nodes]
    assert again.peak_mib == first.peak_mib


@pytest.fixture(scope="module")
def with_room(fit):
    return plain(fit, 8)


def test_a_card_with_room_is_resident_and_its_verdict_comes_back_after_a_smaller_one(
        fit, with_room):
    first = with_room[0]
    assert first.verdict.word == "resident"
    small = plain(fit, 2)[0]
    assert small.verdict.word == "streams"
    assert 0.5 * UNET_MIB < small.verdict.mib <= UNET_MIB + 16
    assert plain(fit, 8)[0].verdict == first.verdict


@pytest.mark.parametrize("gib, limit", [(0.44, ""), (8, "0.44")])
def test_a_card_or_limit_without_room_names_the_node_that_fails_and_stays_within(fit, gib, limit):
    fit.limit = limit
    try:
        found = plain(fit, gib)[0]
    finally:
        fit.limit = ""
        fit.dry.limit("off")
    assert found.verdict.word == "fails" and "(" in found.verdict.node
    assert found.verdict.mib is None or found.verdict.mib > 0
    assert found.peak_mib <= 0.44 * 1024


def test_the_peaks_are_those_of_the_packs_own_record_and_hold_the_context(fit, with_room):
    trial, prompt_id = with_room
    client: Client = fit.dry.client
    record = client.get_json(f"/headroom/runs/{prompt_id}")
    told = {node["node_id"]: node["peak_vram_mib"] for node in record["nodes"]}
    assert [node.node_id for node in trial.nodes]
    for node in trial.nodes:
        # The record says what was certainly reached; the driver says exactly what was.
        assert CONTEXT_MIB <= told[node.node_id] <= node.peak_mib + 0.1
        assert node.need_mib <= node.peak_mib
    top = max(trial.nodes, key=lambda node: node.peak_mib)
    assert trial.peak_mib == top.peak_mib >= UNET_MIB + CONTEXT_MIB
