"""Around a recovery in a real queue: what the user is told, and what the next prompt finds."""

import json

import pytest
from support.oom import checkpoint, latents, ran, text
from support.rescue import key, pictures, written

from tools.client import PromptFailed, PromptInterrupted, failure_of, was_interrupted
from tools.graph import Graph, add_guard
from tools.waiting import wait_until

pytestmark = pytest.mark.host


@pytest.fixture
def gpu(sim):
    return sim(2048, "--force-fp32")


def prompt_of(seed, guarded=True, **options):
    graph = Graph()
    loader = checkpoint(graph)
    model = add_guard(graph, loader[0], **options) if guarded else loader[0]
    sample = graph.add(
        "KSampler", "sampler", model=model, positive=text(graph, loader, "a red cube"),
        negative=text(graph, loader, "blurry"), latent_image=latents(graph, size=64),
        seed=seed, steps=2, cfg=4.0, sampler_name="euler", scheduler="normal", denoise=1.0,
    )
    image = graph.add("VAEDecode", samples=sample, vae=loader[2])
    graph.add("PreviewImage", images=image)
    return graph.prompt


def test_an_error_that_stays_ends_in_one_sentence_and_the_queue_goes_on(gpu):
    gpu.client.run(prompt_of(1))
    gpu.arm_fault(every=1, above_bytes=100_000, times=10_000)
    with pytest.raises(PromptFailed) as failed:
        gpu.client.run(prompt_of(2, max_attempts=3))
    gpu.disarm()
    assert failed.value.node_id == "sampler"
    assert failed.value.exception_type == "headroom.OomGuardError"
    message = failed.value.exception_message
    assert "OOM Guard could not finish" in message
    assert "Tried: returned cached and unused memory" in message
    assert "Most likely to help:" in message
    assert "you ran out of memory on your GPU" in message  # ComfyUI's own handling took place
    gpu.client.run(prompt_of(3))


def loaded(gpu):
    devices = gpu.client.get_json("/headroom/memory")
    return sorted((m["kind"], m["class"], m["loaded_mib"]) for m in devices["models"])


@pytest.mark.parametrize("times", [1, 3])
def test_after_a_recovery_the_host_is_as_after_any_prompt(gpu, times):
    before = pictures(gpu.client, gpu.client.run(prompt_of(20 + times, guarded=False)))
    models, allocated = loaded(gpu), gpu.collect().allocated_bytes
    gpu.arm_fault(at=400, times=times)
    gpu.client.run(prompt_of(25))
    gpu.disarm()
    again = gpu.client.run(prompt_of(20 + times, guarded=False))
    assert pictures(gpu.client, again) == before
    assert loaded(gpu) == models
    assert gpu.collect().allocated_bytes == allocated


def test_an_interrupt_in_the_call_that_fails_is_not_swallowed(gpu):
    prompt = prompt_of(31)
    [guard] = [node for node in prompt.values() if node["class_type"] == "HeadroomOOMGuard"]
    model = {"model": guard["inputs"]["model"]}
    prompt["interrupting"] = {"class_type": "OomInterruptOnce", "inputs": model}
    guard["inputs"]["model"] = ["interrupting", 0]
    with pytest.raises(PromptInterrupted):
        gpu.client.run(prompt)
    graph = Graph()
    counted = graph.add("OomInterruptCalls")
    assert ran(gpu, graph, counted)[0] == 1
    gpu.client.run(prompt_of(32))


def test_another_error_inside_a_guarded_step_is_no_occasion_to_recover(gpu):
    before = pictures(gpu.client, gpu.client.run(prompt_of(40)))
    gpu.arm_fault(at=10**9)
    gpu.client.run(prompt_of(41))
    count = gpu.fault()["seen"]
    for number in (1, 4, 9):
        gpu.arm_fault(at=count * number // 10, kind="illegal_access")
        with pytest.raises(PromptFailed) as failed:
            gpu.client.run(prompt_of(42 + number))
        gpu.disarm()
        assert "illegal memory access" in failed.value.exception_message
        assert not failed.value.exception_type.endswith("OomGuardError")
        run = gpu.client.get_json(f"/headroom/runs/{failed.value.entry['prompt_id']}")
        assert run["oom"] == []
    gpu.unload()
    assert pictures(gpu.client, gpu.client.run(prompt_of(40))) == before


def test_8_interrupts_during_recoveries_leave_the_host_as_it_was(gpu):
    before = pictures(gpu.client, gpu.client.run(prompt_of(50, guarded=False)))
    models, allocated = loaded(gpu), gpu.collect().allocated_bytes
    ended = []
    for number in range(8):
        gpu.arm_fault(every=5 + 54 * number, times=6)
        prompt_id = gpu.client.queue(prompt_of(100 + number))
        wait_until(lambda asked=prompt_id: gpu.fault()["failed"] or gpu.client.history(asked))
        gpu.client.interrupt()
        entry = gpu.client.wait(prompt_id)
        ended.append(was_interrupted(entry))
        assert entry["status"]["status_str"] == "success" or failure_of(entry)
    gpu.disarm()
    assert sum(ended) >= 4
    again = gpu.client.run(prompt_of(50, guarded=False))
    assert pictures(gpu.client, again) == before
    assert loaded(gpu) == models and gpu.collect().allocated_bytes == allocated


@pytest.mark.parametrize(("node", "failures", "words"), [
    ("OomLoraLeftOut", 2, "first"),
    ("OomControlLeftOut", 1, "control could not be applied"),
    ("OomExtractLeftOut", 1, "Could not generate lora weights"),
])
def test_parts_that_comfyui_leaves_out_without_a_guard_are_told_once_for_the_node(
    gpu, node, failures, words
):
    graph = Graph()
    node = graph.add(node, "unguarded")
    entry = gpu.client.run(graph.prompt)
    told = json.loads(entry["outputs"][node.id]["text"][0])
    assert told == {"failed": failures, "patched": False}  # and the prompt succeeds
    (event,) = gpu.client.get_json(f"/headroom/runs/{entry['prompt_id']}")["oom"]
    assert (event["node_id"], event["attempt"], event["recovered"]) == ("unguarded", 0, False)
    assert "continued without a part of a LoRA" in event["action"]
    assert words in event["error"]


@pytest.mark.parametrize("interrupted", [False, True])
def test_memory_that_a_failed_node_held_is_freed_before_the_next_prompt(gpu, interrupted):
    """This holds for every error; ComfyUI itself collects garbage once in ten seconds."""
    def asked():
        graph = Graph()
        graph.add("OomAllocated", "asked", key=key())
        return graph.prompt

    def told(prompt_id):
        return written(gpu.client, gpu.client.wait(prompt_id), "asked")

    before = told(gpu.client.queue(asked()))
    failing = Graph()
    failing.add("OomHolds", "holds", mib=64, interrupted=interrupted)
    failed, following = gpu.client.queue(failing.prompt), gpu.client.queue(asked())
    entry = gpu.client.wait(failed)
    assert was_interrupted(entry) is interrupted
    assert interrupted or "cannot go on with 67108864 bytes" in str(failure_of(entry))
    assert told(following) == before
