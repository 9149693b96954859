"""`dev.py fit` on ComfyUI's own loading and PyTorch's own allocator, at real sizes."""

import pytest

from devtools.client import Client
from devtools.fit_prompt import fewer_steps
from devtools.workflows import published_prompt

pytestmark = [pytest.mark.host, pytest.mark.fakecuda]

CONTEXT_MIB = 400
UNET_MIB = 1640  # SD1.5's in float16
MIB = 1 << 20


@pytest.fixture(scope="module")
def fit(comfyui, tmp_path_factory):
    """The first bundled workflow on a dry server, with SD1.5's published file."""
    import fakecuda

    if reason := fakecuda.why_not():
        pytest.skip(reason)
    from devtools.dry_server import DryServer
    from devtools.fit_files import find_models
    from devtools.fit_run import Fit

    prompt = fewer_steps(published_prompt("start_here"))
    settings = {"context_mib": CONTEXT_MIB, "capability": "8.9", "cudnn_layout_copies": 1}
    with DryServer(comfyui, tmp_path_factory.mktemp("fit"), settings=settings,
                   flags=["--disable-dynamic-vram"] if has_dynamic(comfyui) else [],
                   env={"HEADROOM_DRY_RAM_MIB": "32768"}) as dry:
        dry.add_models(find_models(prompt, [], comfyui).files)
        yield Fit(dry, prompt, dry.client.get_json("/object_info"), guard=False,
                  context_mib=CONTEXT_MIB, show=False)


def has_dynamic(comfyui):
    from devtools.server import known_flags

    return "--disable-dynamic-vram" in known_flags(comfyui)


def plain(fit, gib):
    return fit.trial(gib, "as it is", fit.prompt)


def test_a_card_with_room_is_resident_and_its_verdict_comes_back_after_a_smaller_one(fit):
    first = plain(fit, 8)[0]
    assert first.verdict.word == "resident"
    small = plain(fit, 2)[0]
    assert small.verdict.word == "streams"
    assert 0.5 * UNET_MIB < small.verdict.mib <= UNET_MIB + 16
    assert plain(fit, 8)[0].verdict == first.verdict


def test_a_card_without_room_names_the_node_that_fails_and_stays_within_the_card(fit):
    found = plain(fit, 0.44)[0]
    assert found.verdict.word == "fails" and "(" in found.verdict.node
    assert found.verdict.mib is None or found.verdict.mib > 0
    assert found.peak_mib <= 0.44 * 1024


def test_the_peaks_are_those_of_the_packs_own_record_and_hold_the_context(fit):
    trial, prompt_id = plain(fit, 8)
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
