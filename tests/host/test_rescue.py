"""A prompt without any guard runs out of memory in a real ComfyUI and gets a rerun."""

import pytest
from support.rescue import (
    RESCUE,
    FirstAndRerun,
    chain,
    failing,
    key,
    pixels,
    ran_in,
    run_and_rerun,
    told,
    video,
    written,
)

from tools.client import PromptFailed
from tools.graph import picture
from tools.waiting import wait_until

pytestmark = pytest.mark.host
HOLDS_MODEL, HOLDS_NO_MODEL = (  # in a variable of a pack's module
    {"1": {"class_type": "ProbeHold", "inputs": {"where": where, "mib": 128}}}
    for where in ("module global", ""))


# ---------------------------------------------------------------- real models


def test_whatever_node_fails_the_pixels_are_those_of_the_unfailed_run(gpu):
    prompt = picture(1, extras=True).prompt
    gpu.unload()
    gpu.arm_fault(at=10**9)
    wanted = pixels(gpu.client, run_and_rerun(gpu.client, prompt).first)
    total = gpu.fault()["seen"]
    failed = set()
    for share in (0.012, 0.2, 0.45, 0.85, 0.93):
        gpu.unload()
        gpu.arm_fault(at=int(total * share))
        runs = run_and_rerun(gpu.client, prompt)
        assert gpu.fault()["failed"] == 1
        gpu.disarm()
        failed.add(runs.failed)
        if runs.failed is None:  # ComfyUI left a part of the LoRA out, and we say so
            assert runs.rerun is None
            assert [entry["attempt"] for entry in told(gpu, runs.first_id)["oom"]] == [0]
            continue
        assert runs.rerun is not None and runs.succeeded
        assert pixels(gpu.client, runs.rerun) == wanted
        assert runs.finished <= runs.cached
    assert {None, "sampler", "decode"} <= failed
    assert "positive" in failed


def test_only_the_failed_node_and_what_had_not_run_run_again_guarded(gpu):
    gpu.client.run(picture(3).prompt)  # everything before the sampler is cached
    runs = failing(gpu, picture(4).prompt)
    assert runs.failed == "sampler"
    assert ran_in(gpu, runs.rerun_id) == {
        "decode", "headroom-guard-1-0", "headroom-guard-1-2", "sampler", "save"}
    assert told(gpu, runs.rerun_id)["rescued_from"] == runs.first_id
    assert told(gpu, runs.first_id)["rescued_as"] == runs.rerun_id


def test_a_failure_while_ksampler_moves_its_sigmas_gets_a_rerun_too(gpu):
    """No guard on a wire covers this code of ComfyUI."""
    gpu.client.run(picture(5).prompt)
    runs = failing(gpu, picture(6).prompt, at=1)
    error = dict(runs.first["status"]["messages"])["execution_error"]
    assert any("in set_steps" in line for line in error["traceback"])
    assert (runs.failed, runs.succeeded) == ("sampler", True)
    assert runs.finished <= runs.cached


def test_a_controlnet_that_the_first_run_left_half_made_begins_anew(gpu):
    """ComfyUI cleans a ControlNet up only after a sampling that did not fail."""
    plain = picture(7, extras=True, size=64)  # that of the hint
    wanted = pixels(gpu.client, gpu.client.run(plain.prompt))
    half = picture(7, extras=True, size=64)
    for name, output in (("positive", 0), ("negative", 1)):
        made = half.add("OomHalfMadeHint", conditioning=["apply", output])
        half.prompt["sampler"]["inputs"][name] = made[0]
    guarded = {"headroom": {"guard": True}}
    assert pixels(gpu.client, gpu.client.run(half.prompt, extra_data=guarded)) == wanted
    half.prompt["sampler"]["inputs"]["seed"] = 8
    half.prompt["apply"]["inputs"]["strength"] = 0.6
    with pytest.raises(PromptFailed, match="should be the same"):
        gpu.client.run(half.prompt)


def test_a_sampler_fed_by_a_guider_is_guarded_through_it(gpu):
    graph = video(write="OomWrites", value=None, key=key())
    gpu.unload()
    runs = failing(gpu, graph.prompt, above_bytes=20_000, at=8)
    assert (runs.failed, runs.succeeded) == ("sample", True)
    assert ran_in(gpu, runs.rerun_id) == {
        "headroom-guard-wan-0", "headroom-copy-guider", "sample", "save"}


def test_a_node_that_expands_is_guarded_from_outside(gpu):
    graph = picture(11)
    expands = graph.add("OomExpands", "expands", model=["1", 0], positive=["positive", 0],
                        latent=["latent", 0], vae=["1", 2], seed=5)
    graph.prompt["save"]["inputs"]["images"] = expands[0]
    for unused in ("sampler", "decode", "negative"):
        del graph.prompt[unused]
    gpu.client.run(picture(12).prompt)
    runs = failing(gpu, graph.prompt)
    assert (runs.failed, runs.succeeded) == ("expands", True)
    assert {"headroom-guard-1-0", "headroom-guard-1-2"} <= {
        node["node_id"] for node in told(gpu, runs.rerun_id)["nodes"]}


def test_a_node_in_a_loop_is_named_and_not_the_begin_of_the_loop(gpu):
    prompt = chain(fails=True)
    prompt["start"] = {"class_type": "OomStartsLoop",
                       "inputs": {"value": ["image", 0], "body": "once"}}
    prompt["once"]["inputs"]["value"] = ["start", 0]
    runs = run_and_rerun(gpu.client, prompt)
    assert (runs.failed, runs.succeeded) == ("start", True)
    record = told(gpu, runs.first_id)
    assert record["failure"]["node_id"] == "once"
    assert record["failure"]["text"].startswith("OomOnce (node once) ran out of GPU memory")
    assert {node["display_node_id"] for node in record["nodes"] if node["status"] == "failed"} == {
        "once"}


# ---------------------------------------------------------------- what is written, and when


@pytest.mark.parametrize("writer", ["OomWrites", "OomWritesAlways"])
def test_saved_files_are_not_written_twice(gpu, writer):
    prompt = chain(fails=True)
    prompt["first"]["class_type"] = writer
    runs = run_and_rerun(gpu.client, prompt)
    assert (runs.failed, runs.succeeded) == ("once", True)
    wrote = [written(gpu.client, entry, "first") for entry in (runs.first, runs.rerun)]
    assert wrote in ([1, None], [None, 1])
    assert written(gpu.client, runs.rerun, "last") == 1


def test_the_rerun_comes_before_everything_else_that_waits(gpu):
    slow = gpu.client.queue(picture(21, size=128).prompt)
    first_id = gpu.client.queue(chain(fails=True), extra_data=RESCUE)
    other_id = gpu.client.queue(chain(fails=False))
    gpu.client.wait(slow)
    gpu.client.wait(other_id)
    rerun_id = told(gpu, first_id)["rescued_as"]
    order = list(gpu.client.get_json("/history"))
    assert order[-3:] == [first_id, rerun_id, other_id]
    numbers = [gpu.client.history(one)["prompt"][0] for one in order[-3:]]
    assert numbers == sorted(numbers)


def test_the_error_of_a_guard_in_a_rerun_is_told_with_the_first(gpu):
    gpu.client.run(HOLDS_MODEL)
    gpu.client.run(picture(26).prompt)
    runs = failing(gpu, picture(27).prompt, every=1, above_bytes=100_000, times=10_000)
    assert runs.failed == "sampler" and not runs.succeeded
    message = dict(runs.rerun["status"]["messages"])["execution_error"]["exception_message"]
    assert "OOM Guard could not finish" in message
    text = told(gpu, runs.rerun_id)["failure"]["text"]
    assert f"The rerun of prompt {runs.first_id} ran out of memory as well" in text
    assert "In the first run, KSampler (node sampler)" in text
    assert "128.0 MiB of the GPU are in headroom_probe (Linear), which ComfyUI does not" in text
    gpu.client.run(HOLDS_NO_MODEL)


def test_where_a_guard_gave_up_because_the_gpu_is_too_small_nothing_runs_again(sim):
    gpu = sim(1)
    runs = run_and_rerun(gpu.client, picture(28).prompt, extra_data={
        "headroom": {"guard": True, "rescue": True}})
    assert runs.failed == "sampler" and runs.rerun is None
    assert "A rerun would not help: OOM Guard" in told(gpu, runs.first_id)["failure"]["text"]


def test_another_error_ends_the_prompt_as_ever(gpu):
    prompt = chain(fails=True, error="CUDA error: an illegal memory access")
    runs = run_and_rerun(gpu.client, prompt)
    assert runs.rerun is None and not runs.succeeded
    status, answer = gpu.client.post_json("/headroom/rescue", {"prompt_id": runs.first_id})
    assert status == 409 and "out-of-memory" in answer["error"]


def test_an_interrupt_that_comes_after_the_error_prevents_the_rerun(gpu):
    prompt = picture(25).prompt
    prompt["interrupting"] = {"class_type": "OomInterruptOnce", "inputs": {"model": ["1", 0]}}
    prompt["sampler"]["inputs"]["model"] = ["interrupting", 0]
    runs = run_and_rerun(gpu.client, prompt)
    assert runs.failed == "sampler" and runs.rerun is None
    assert run_and_rerun(gpu.client, chain(fails=True)).succeeded  # the next one is another matter


def test_a_queue_that_was_cleared_stays_empty(gpu):
    slow = gpu.client.queue(picture(31, size=512).prompt, extra_data=RESCUE)
    wait_until(lambda: gpu.client.get_json("/queue")["queue_running"])
    gpu.client.post_json("/queue", {"clear": True})
    gpu.arm_fault(every=1, above_bytes=100_000, times=10_000)
    runs = FirstAndRerun(slow, gpu.client.wait(slow))
    gpu.disarm()
    assert not runs.succeeded
    assert told(gpu, slow)["rescued_as"] is None
    assert gpu.client.get_json("/queue") == {"queue_running": [], "queue_pending": []}
