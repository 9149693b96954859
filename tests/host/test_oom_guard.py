"""OOM Guard in a real ComfyUI on the simulated GPU: what fails finishes, with the same result."""

import pytest
from support.oom import (
    IN_STEPS,
    ONLY_SPLIT,
    assert_same_bits,
    assert_split,
    checkpoint,
    latents,
    sweep_sampling,
    text,
)

from tools.graph import Graph, add_guard

pytestmark = pytest.mark.host


@pytest.fixture
def gpu(sim):
    return sim(2048, "--force-fp32")  # splitting is judged in float32 terms


def swept(gpu, build, options=None, batch=1, **settings):
    """The answer of a sweep over a graph that `build` may change."""
    graph = Graph()
    loader = checkpoint(graph)
    wires = {
        "model": loader[0], "positive": text(graph, loader, "a red cube"),
        "negative": text(graph, loader, "blurry"), "latent": latents(graph, batch),
    }
    wires.update(build(graph, loader, wires))
    return sweep_sampling(gpu, graph, options=options, **{
        "sampler": "euler_ancestral", "stride": 97, "begins": "OUTER_SAMPLE", **wires, **settings})


def nothing(graph, loader, wires):
    return {}


def regional(graph, loader, wires):
    masked = graph.add(
        "ConditioningSetAreaPercentage", conditioning=text(graph, loader, "a blue ball"),
        width=1.0, height=0.5, x=0.0, y=0.5, strength=1.0)
    return {"positive": graph.add("ConditioningCombine", conditioning_1=wires["positive"],
                                  conditioning_2=masked)}


def controlled(graph, loader, wires):
    net = graph.add("ControlNetLoader", control_net_name="headroom_test_controlnet.safetensors")
    image = graph.add("EmptyImage", width=64, height=64, batch_size=1, color=8421504)
    both = graph.add("ControlNetApplyAdvanced", positive=wires["positive"],
                     negative=wires["negative"], control_net=net, image=image, strength=0.7,
                     start_percent=0.0, end_percent=1.0)
    return {"positive": both[0], "negative": both[1]}


def conditioned(graph, loader, wires):
    """A long prompt, one for a region, a ControlNet and a mask."""
    joined = graph.add("ConditioningConcat", conditioning_to=wires["positive"],
                       conditioning_from=text(graph, loader, "a long tail"))
    both = regional(graph, loader, {"positive": joined})
    mask = graph.add("SolidMask", value=1.0, width=64, height=64)
    return {**controlled(graph, loader, {**wires, **both}),
            "latent": graph.add("SetLatentNoiseMask", samples=wires["latent"], mask=mask)}


def hooked(graph, loader, wires):
    hooks = graph.add("CreateHookModelAsLora", ckpt_name="headroom_test_sd15_b.safetensors",
                      strength_model=0.3, strength_clip=0.0)
    return {"positive": graph.add("ConditioningSetProperties", cond_NEW=wires["positive"],
                                  strength=1.0, set_cond_area="default", hooks=hooks)}


def patched(graph, loader, wires):
    lora = graph.add("LoraLoaderModelOnly", model=wires["model"],
                     lora_name="headroom_test_lora.safetensors", strength_model=1.0)
    return {"model": graph.add("FreeU_V2", model=lora, b1=1.3, b2=1.4, s1=0.9, s2=0.2)}


def nested(graph, loader, wires):
    """Patches around a patch, and one that samples once more in each step."""
    model = graph.add("OomNestedPatch", **patched(graph, loader, wires))
    return {"model": graph.add("SelfAttentionGuidance", model=model, scale=0.5, blur_sigma=2.0)}


def merged_tokens(graph, loader, wires):
    """A patch that draws random numbers in every call."""
    return {"model": graph.add("TomePatchModel", model=wires["model"], ratio=0.3)}


# Few allocations in turn take long enough; `bench --only oom_sweep` tries each.
STRIDES = {conditioned: 401, nested: 241, hooked: 701}


@pytest.mark.parametrize("build", STRIDES, ids=lambda build: build.__name__)
def test_one_failed_allocation_anywhere_in_sampling_gives_the_same_bits(gpu, build):
    assert_same_bits(swept(gpu, build, stride=STRIDES[build]), least=3)


def test_every_family_of_errors_is_survived_anywhere_in_sampling_with_the_same_bits(gpu):
    kinds = ["oom", "accelerator", "async_pool", "cublas", "cudnn", "host", "mps", "runtime"]
    answer = swept(gpu, nothing, stride=73, kind=" ".join(kinds))
    assert_same_bits(answer, least=len(kinds))


def test_one_failed_allocation_while_a_model_with_a_lora_is_loaded_gives_the_same_bits(gpu):
    """ComfyUI catches what fails while it works out a LoRA, and would sample without it."""
    answer = swept(gpu, patched, fresh=True, last=160, stride=31)
    assert_same_bits(answer, least=4)


def test_one_failed_allocation_while_streamed_weights_get_their_lora_gives_the_same_bits(gpu):
    gpu.set_capacity(400)  # ComfyUI keeps more than that free, so weights and LoRA are streamed
    answer = swept(gpu, patched, fresh=True, begins="SAMPLER_SAMPLE", stride=263)
    assert_same_bits(answer, least=4)


# Where what is split is of another shape; the allocation is one of the model's, not of its hooks.
@pytest.mark.parametrize(
    ("build", "first"), [(nothing, 150), (regional, 150), (controlled, 150), (hooked, 720),
                       (merged_tokens, 230)],
    ids=lambda value: getattr(value, "__name__", ""))
def test_a_split_batch_agrees_within_a_thousandth_of_the_range(gpu, build, first):
    answer = swept(gpu, build, ONLY_SPLIT, batch=3, first=first, stride=10_000, **IN_STEPS)
    assert_split(answer)


def test_offloading_its_own_weights_in_a_step_gives_the_same_bits(gpu):
    answer = swept(gpu, nothing, {"split_batch": False}, batch=2, first=150, stride=700,
                            **{**IN_STEPS, "times": 3})
    assert_same_bits(answer)
    assert any("of its own weights" in action for action in answer["actions"])


def test_sampling_at_cfg_1_recovers(gpu):
    assert_same_bits(swept(gpu, nothing, cfg=1.0, stride=400))


@pytest.mark.parametrize("guider", ["basic", "dual"])  # KSampler's own is the third
def test_a_custom_sampler_recovers_and_splits(gpu, guider):
    assert_same_bits(swept(gpu, nothing, guider=guider, sampler="dpmpp_2m_sde",
                                    stride=331))
    assert_split(swept(gpu, nothing, ONLY_SPLIT, batch=2, guider=guider, first=250,
                                stride=10_000, sampler="dpmpp_2m_sde", **IN_STEPS))


@pytest.mark.parametrize(("node", "settings", "part"), [
    ("WorldStepCache", {"threshold": 0.01}, {"steps": 3, "first": 400, "stride": 150}),
    ("EasyCache", {"reuse_threshold": 0.2, "start_percent": 0.0, "end_percent": 1.0,
                   "verbose": False}, {"steps": 6, "first": 961, "stride": 240}),
])
def test_a_failed_step_beside_a_step_cache_gives_the_same_bits(gpu, node, settings, part):
    """The cache has stored what the failed step saw, and would answer its repetition."""

    def cached(graph, loader, wires):
        return {"model": graph.add(node, model=wires["model"], **settings)}

    answer = swept(gpu, cached, sampler="euler", **part)
    assert_same_bits(answer, least=3)


@pytest.mark.parametrize("part", [
    pytest.param({"first": 100, "stride": 300}, id="a step"),
    pytest.param({"fresh": True, "begins": "SAMPLER_SAMPLE", "first": 489,
                  "stride": 305}, id="a LoRA"),
])
def test_a_failure_on_one_of_two_devices_that_share_each_step_gives_the_same_bits(
    sim, newest_comfyui, part
):
    """ComfyUI calls the model in threads, and keeps the other device's result for the next step."""
    gpu = sim(2048, "--force-fp32", "--disable-dynamic-vram", comfyui=newest_comfyui)
    gpu.set_capacity(400 if "fresh" in part else 2048)  # with less the LoRA is streamed

    def divided(graph, loader, wires):
        lora = graph.add("LoraLoaderModelOnly", model=wires["model"],
                         lora_name="headroom_test_lora.safetensors", strength_model=1.0)
        return {"model": graph.add("OomSplitOverCpu", model=lora)}

    answer = swept(gpu, divided, **{"steps": 3, "sampler": "euler", **part})
    assert_same_bits(answer, least=3)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_video_model_recovers_and_splits(gpu, batch):
    def wan(graph, loader, wires):
        video = graph.add("OomTinyWan", batch=batch)
        return {"model": video[0], "positive": video[1], "negative": video[2],
                "latent": video[3]}

    if batch == 1:
        assert_same_bits(swept(gpu, wan, first=60, stride=83, sampler="euler"))
    else:
        assert_split(swept(gpu, wan, ONLY_SPLIT, first=60, stride=83, sampler="euler",
                                    **IN_STEPS))


def test_an_error_of_another_kind_is_not_retried(gpu):
    answer = swept(gpu, nothing, first=200, stride=10_000, kind="illegal_access")
    [[_, problem]] = answer["problems"]
    assert "illegal memory access" in problem


def test_a_guard_on_a_guard_and_a_lora_after_it_make_one_guard(gpu):
    def twice(graph, loader, wires):
        first = add_guard(graph, wires["model"], max_attempts=2)
        again = add_guard(graph, first, max_attempts=2)
        return {"model": graph.add("LoraLoaderModelOnly", model=again,
                                   lora_name="headroom_test_lora.safetensors", strength_model=1.0)}

    options = {**ONLY_SPLIT, "split_batch": False, "max_attempts": 2}
    answer = swept(gpu, twice, options, first=300, stride=10_000, times=99)
    [[_, problem]] = answer["problems"]
    assert "after 1 attempt the call" in problem
