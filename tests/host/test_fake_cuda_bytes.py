"""What our nodes and routes say, byte for byte against the driver's ledger.

PyTorch's own allocators and ComfyUI's own pager run here, with ComfyUI's default flags and with
each other choice of allocator.
"""

import re

import pytest
from support import timed
from support.everything import ask_every_route, every_node, load_kept
from support.worlds import (
    CAPACITY_MIB,
    CLOSE,
    EVERYWHERE,
    FEWER,
    MIB,
    ROOM_MIB,
    USUAL,
    begun,
    mib,
    one_after_the_other,
    peaks,
    recovery,
    refused_until_told,
    sampled,
    streaming_bytes,
    torch_bytes,
    with_room,
)

from tools import advice
from tools.client import PromptFailed, node_texts
from tools.graph import (
    Graph,
    add_checkpoint,
    add_guard,
    add_ksampler,
    add_purge,
    add_sampler,
    forget_everything,
    picture,
)
from tools.models import TEST_CHECKPOINT, TEST_CHECKPOINT_FP16, TEST_LORA

pytestmark = [pytest.mark.host, pytest.mark.fakecuda]

PAGE_MIB = 32  # of comfy-aimdo's pager
# For what does not depend on how an allocator counts its bytes, or is limited.
IN_USUAL_WORLDS = pytest.mark.parametrize("started", USUAL, indirect=True)


@pytest.fixture(scope="module", params=FEWER)
def started(request, comfyui, models_dir, tmp_path_factory):
    """One server of a world at a time, and what was on the device before the first prompt."""
    base = tmp_path_factory.mktemp("comfyui")
    with begun(request, request.param, comfyui, models_dir, base) as device:
        yield device


@pytest.fixture
def device(started):
    """The server of the world, with nothing loaded."""
    started.restore()
    forget_everything(started.client)
    started.reset_peaks()
    return started


def test_the_memory_answer_and_the_pages_in_it_are_what_the_driver_knows(device):
    device.set_other_process(300)
    graph, _, latent = sampled()
    graph.add("ProbeTensor", value=latent)
    device.client.run(graph.prompt)
    now, (memory, torchs) = timed.of_one_moment(device.driver.device, lambda: (
        device.client.get_json("/headroom/memory"), device.ledger()))
    (told,) = memory["devices"]
    pages_bytes = (told["dynamic_mib"] or 0) * MIB
    assert told["total_mib"] == CAPACITY_MIB
    assert told["free_mib"] == mib(now.free_bytes)
    assert told["used_mib"] == mib(now.used_bytes + now.other_process_bytes)
    assert told["other_processes_mib"] == mib(now.other_process_bytes)
    assert told["reserved_mib"] == mib(torch_bytes(now, pages_bytes))
    assert now.used_bytes > 285 * MIB  # both models
    has_pages = device.world.startswith("newest") and "without" not in device.world
    assert (told["dynamic_mib"] is not None) == has_pages
    if has_pages:
        torchs_own = torchs.reserved_bytes if "expandable" in device.world else 0
        assert told["dynamic_mib"] == mib(now.handle_bytes - torchs_own)
        assert told["dynamic_mib"] > 0


def test_the_peak_of_a_run_is_the_drivers(device):
    device.set_other_process(50)
    graph, _, latent = sampled(size=512)
    graph.add("ProbeTensor", value=latent)
    entry = device.client.run(graph.prompt)
    run = device.client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    now = device.driver.device()
    peak_mib = (now.peak_used_bytes + now.other_process_bytes) / MIB
    low, high = run["peak_vram_mib"], run["peak_vram_at_most_mib"]
    assert run["vram_source"] == "driver" and run["vram_total_mib"] == CAPACITY_MIB
    assert low - CLOSE <= peak_mib <= high + CLOSE
    (told,) = device.client.get_json("/headroom/memory")["devices"]
    # Between two readings the pager may give pages back while PyTorch takes more.
    assert high - low <= (2 * PAGE_MIB if told["dynamic_mib"] is not None else CLOSE)


def test_the_peak_of_a_node_that_gives_all_of_it_back_is_the_drivers(device):
    device.client.run({"1": timed.node("TimedMemory", 0.0, mib=1500, keep=False)})
    device.reset_peaks()
    prompt = {"1": timed.node("TimedMemory", 0.0, mib=700, keep=False)}
    _, nodes = timed.record(device.client, device.client.run(prompt))
    true = mib(device.driver.device().peak_used_bytes)
    assert nodes["1"]["peak_vram_mib"] == nodes["1"]["peak_vram_at_most_mib"] == true


@IN_USUAL_WORLDS
def test_followed_advice_lowers_the_drivers_peak_as_it_said(device):
    graph = one_after_the_other()
    before, _, prompt_id = peaks(device, graph.prompt)
    steps = [one for one in advice.of(device.client, prompt_id, into_gib=0.001)
             if one["kind"] != "oom_guard"]
    assert steps and not any(one["changes_picture"] for one in steps)
    after, told, _ = peaks(device, advice.applied(graph.prompt, steps))
    assert after == mib(told * MIB) and after < before - 50
    low, high = steps[-1]["expected_mib"]
    assert low - 2 * PAGE_MIB <= after <= high + 2 * PAGE_MIB


@IN_USUAL_WORLDS
def test_a_guarded_sampler_survives_refusals_of_the_driver(device):
    graph, checkpoint, latent = sampled(seed=7, size=512)
    graph.prompt[latent.id]["inputs"]["model"] = [add_guard(graph, checkpoint[0]).id, 0]
    graph.add("ProbeTensor", value=latent)
    device.client.run(graph.prompt)  # its texts are in the node cache from here on
    device.client.post_when_idle("/headroom/purge", {})
    attempts = refused_until_told(device, graph.prompt, latent.id)
    assert attempts and attempts[-1]["recovered"]


@pytest.mark.parametrize(  # the pool of the oldest keeps what a prompt took at its peak
    "started", ["newest, default", "newest, without dynamic VRAM"], indirect=True)
def test_a_recovery_repeats_nothing_in_vain_and_leaves_nothing_behind(device):
    """At the largest device of those tried, each a tenth smaller, on which memory runs out.

    The next prompt of its kind does not fail. With room again, a prompt copies as many bytes and
    keeps as many pages as before: no limit of the pager and no buffer is left.
    """
    before, mib = with_room(device), ROOM_MIB
    enough_mib = device.driver.device().peak_used_bytes / MIB
    while mib > enough_mib or not (first := recovery(device, mib, 1)):
        mib *= 0.9
    assert len(first) <= 2 and all(attempt["recovered"] for attempt in first), first
    assert all(abs(one["freed_mib"]) < 1 for one in first if one["action"].startswith("split"))
    assert streaming_bytes(device) == 0
    assert recovery(device, mib, 2) == []
    assert with_room(device) == before


@pytest.mark.parametrize("started", ["newest, default"], indirect=True)
def test_pages_of_a_layer_whose_buffer_found_no_room_do_not_stay_pinned(device):
    """The text encoder's largest layer: 3 pages of 32 MiB, and 72 MiB for its cast."""
    forget_everything(device.client)
    for capacity_mib in (ROOM_MIB, 250, 150):
        graph = picture(size=64)
        graph.prompt["positive"]["inputs"]["text"] = f"on {capacity_mib} MiB"
        device.set_capacity(capacity_mib)
        device.client.run(graph.prompt, extra_data={"headroom": {"guard": True}})
        device.client.post_when_idle("/headroom/purge", {"free_ram": True})
        assert device.driver.device().handle_bytes == 0


def eight_pictures(seed, guarded):
    """A graph of eight pictures of 512 pixels, with every model guarded or none."""
    graph = Graph()
    checkpoint = add_checkpoint(graph, TEST_CHECKPOINT)
    model, clip, vae = (add_guard(graph, checkpoint[index]) if guarded else checkpoint[index]
                        for index in range(3))
    latent = add_sampler(graph, model, clip, seed=seed, size=512)
    empty = graph.prompt[latent.id]["inputs"]["latent_image"][0]
    graph.prompt[empty]["inputs"]["batch_size"] = 8
    graph.add("ProbeTensor", value=graph.add("VAEDecode", samples=latent, vae=vae))
    return graph.prompt


@pytest.mark.parametrize("share", [0.7, 0.4, 0.25] if EVERYWHERE else [0.4])
def test_a_prompt_that_needs_more_completes_below_the_limit_and_never_has_more(device, share):
    """At most the limit and a page of the pager, or a slab of the pool, as the driver counts."""
    device.client.run(eight_pictures(1, guarded=False))
    need_bytes = device.driver.device().peak_used_bytes
    limit_mib = int(need_bytes * share / MIB)
    limit = f"{limit_mib / 1024:.3f} GiB"
    assert device.client.post_when_idle("/headroom/limit", {"limit": limit})["set_by"] == "HTTP"
    try:
        assert device.driver.device().used_bytes <= limit_mib * MIB  # what was above it is unloaded
        device.reset_peaks()
        device.client.run(eight_pictures(2, guarded=True))
        now = device.driver.device()
        assert now.peak_used_bytes <= (limit_mib + PAGE_MIB + 1) * MIB < need_bytes
        (memory,) = device.client.get_json("/headroom/memory")["devices"]
        assert memory["limit_mib"] == pytest.approx(limit_mib, abs=1)
        assert memory["left_mib"] <= memory["limit_mib"]
    finally:
        device.client.post_when_idle("/headroom/limit", {"limit": "off"})
    assert device.client.get_json("/headroom/memory")["devices"][0]["limit_mib"] is None


@IN_USUAL_WORLDS
def test_every_node_and_every_route_leaves_the_device_as_it_was(device):
    client = device.client
    client.run(every_node().prompt, timeout=300)
    graph, shown = load_kept()
    prompt_id = client.run(graph.prompt)["prompt_id"]
    assert shown.id in {node["node_id"] for node in client.get_json("/headroom/runs")["runs"][0][
        "nodes"]}
    ask_every_route(device, prompt_id)
    forget_everything(client)  # ComfyUI's node cache may hold some hundred bytes on the device
    client.post_when_idle("/headroom/purge", {})
    assert device.driver.device().used_bytes == device.fresh_bytes


@IN_USUAL_WORLDS
def test_a_purge_leaves_no_byte_of_a_model_that_sampled_with_a_lora_hook(device):
    """Dynamic VRAM samples with hooks on a copy of the model, which it keeps on the device."""
    graph = Graph()
    checkpoint = add_checkpoint(graph, TEST_CHECKPOINT_FP16)
    hooks = graph.add("CreateHookLora", lora_name=TEST_LORA.split("/")[1], strength_model=1.0,
                      strength_clip=0.0)
    text = graph.add("CLIPTextEncode", clip=checkpoint[1], text="a red cube")
    positive = graph.add("ConditioningSetProperties", cond_NEW=text, strength=1.0,
                         set_cond_area="default", hooks=hooks)
    latent = graph.add("EmptyLatentImage", width=64, height=64, batch_size=1)
    sampled = add_ksampler(graph, checkpoint[0], positive, text, latent)
    purge = add_purge(graph, value=sampled)
    report = node_texts(device.client.run(graph.prompt))[purge.id]
    weights = re.search(r"models: BaseModel: ([\d.]+) MiB of weights unloaded", report)
    assert float(weights[1]) > 10
    assert device.driver.device().used_bytes == device.fresh_bytes


@IN_USUAL_WORLDS
def test_a_text_encoder_whose_embedding_is_larger_than_the_device_ends_on_the_cpu(device):
    """As umT5-XXL's on a small card; here it has 251 MiB. An older ComfyUI may do so by itself."""
    graph = Graph()
    clip = graph.add("SmallTextEncoder", kind="wan")
    text = graph.add("CLIPTextEncode", clip=add_guard(graph, clip), text="a cat")
    graph.add("ProbeTensor", value=text)
    device.set_capacity(200)
    prompt_id = device.client.run(graph.prompt)["prompt_id"]
    run = device.client.get_json(f"/headroom/runs/{prompt_id}")
    if device.world.startswith("newest"):
        assert run["oom"][-1]["recovered"] and "encoded on the CPU" in run["oom"][-1]["action"]
        graph.prompt[text.id]["inputs"].update(clip=[clip.id, 0], text="a dog")
        with pytest.raises(PromptFailed):
            device.client.run(graph.prompt)
