"""OOM Guard in a real ComfyUI on the simulated GPU: what fails finishes, with the same result."""

import json
from pathlib import Path

import pytest

from devtools.client import PromptFailed
from devtools.graph import Graph

pytestmark = pytest.mark.host

PACK = Path(__file__).parent / "packs" / "headroom_oom_probe"
GUARD = {"free_other_models": True, "offload_weights": True, "split_batch": True,
         "tile_vae": True, "max_attempts": 8}
ONLY_SPLIT = {**GUARD, "free_other_models": False, "offload_weights": False}
# Returning memory answers the first failure, a split the second; loading cannot be split.
IN_STEPS = {"times": 2, "begins": "PREDICT_NOISE"}
SPLIT_TOLERANCE = 1e-3  # of the latent's range


@pytest.fixture(scope="module")
def gpu_args():
    return ["--force-fp32"]  # splitting is judged in float32 terms


@pytest.fixture
def gpu(sim, gpu_args):
    return sim(2048, *gpu_args, packs=(PACK,))


def add_guard(graph, model, **options):
    return graph.add("HeadroomOOMGuard", model=model, **{**GUARD, **options})


def checkpoint(graph):
    return graph.add("CheckpointLoaderSimple", ckpt_name="headroom_test_sd15.safetensors")


def text(graph, loader, words):
    return graph.add("CLIPTextEncode", clip=loader[1], text=words)


def latents(graph, batch=1, size=64):
    return graph.add("EmptyLatentImage", width=size, height=size, batch_size=batch)


def sweep_sampling(gpu, build, options=GUARD, batch=1, node="OomSweepSampling", **settings):
    """Run the sweep node over a graph that `build` may change; return its answer."""
    graph = Graph()
    loader = checkpoint(graph)
    wires = {
        "model": loader[0], "positive": text(graph, loader, "a red cube"),
        "negative": text(graph, loader, "blurry"), "latent": latents(graph, batch),
    }
    wires.update(build(graph, loader, wires) or {})
    model = wires.pop("model")
    guarded = add_guard(graph, model, **options)
    sweep = graph.add(node, guarded=guarded, plain=model, **{
        "steps": 2, "cfg": 4.0, "sampler": "euler_ancestral", "first": 1, "stride": 97,
        "times": 1, "kind": "oom", "begins": "OUTER_SAMPLE", **wires, **settings,
    })
    entry = gpu.client.run(graph.prompt, timeout=600)
    answer = json.loads(entry["outputs"][sweep.id]["text"][0])
    print(f"{answer['tried']} of {answer['allocations']} allocations failed in turn, "
          f"largest difference {answer['largest_difference']:.3g} "
          f"of a range of {answer['range']:.3g}")
    return answer


def nothing(graph, loader, wires):
    return {}


def regional(graph, loader, wires):
    masked = graph.add("ConditioningSetArea", conditioning=text(graph, loader, "a blue ball"),
                       width=64, height=64, x=0, y=64, strength=1.0)
    return {"positive": graph.add("ConditioningCombine", conditioning_1=wires["positive"],
                                  conditioning_2=masked),
            "latent": latents(graph, 1, size=128)}


def long_prompt(graph, loader, wires):
    return {"positive": graph.add("ConditioningConcat", conditioning_to=wires["positive"],
                                  conditioning_from=text(graph, loader, "a long tail"))}


def inpainting(graph, loader, wires):
    mask = graph.add("SolidMask", value=1.0, width=64, height=64)
    return {"latent": graph.add("SetLatentNoiseMask", samples=wires["latent"], mask=mask)}


def controlled(graph, loader, wires):
    net = graph.add("ControlNetLoader", control_net_name="headroom_test_controlnet.safetensors")
    image = graph.add("EmptyImage", width=64, height=64, batch_size=1, color=8421504)
    both = graph.add("ControlNetApplyAdvanced", positive=wires["positive"],
                     negative=wires["negative"], control_net=net, image=image, strength=0.7,
                     start_percent=0.0, end_percent=1.0)
    return {"positive": both[0], "negative": both[1]}


def hooked(graph, loader, wires):
    hooks = graph.add("CreateHookModelAsLora", ckpt_name="headroom_test_sd15_b.safetensors",
                      strength_model=0.3, strength_clip=0.0)
    return {"positive": graph.add("ConditioningSetProperties", cond_NEW=wires["positive"],
                                  strength=1.0, set_cond_area="default", hooks=hooks)}


def patched(graph, loader, wires):
    lora = graph.add("LoraLoaderModelOnly", model=wires["model"],
                     lora_name="headroom_test_lora.safetensors", strength_model=1.0)
    return {"model": graph.add("FreeU_V2", model=lora, b1=1.3, b2=1.4, s1=0.9, s2=0.2)}


VARIANTS = [nothing, regional, long_prompt, inpainting, controlled, hooked, patched]


@pytest.mark.parametrize("build", VARIANTS, ids=lambda build: build.__name__)
def test_one_failed_allocation_anywhere_in_sampling_gives_the_same_bits(gpu, build):
    answer = sweep_sampling(gpu, build)
    assert answer["problems"] == []
    assert answer["identical_unfailed"]
    assert answer["largest_difference"] == 0
    assert answer["tried"] >= 4


@pytest.mark.parametrize("build", VARIANTS, ids=lambda build: build.__name__)
def test_a_split_batch_agrees_within_a_thousandth_of_the_range(gpu, build):
    answer = sweep_sampling(gpu, build, ONLY_SPLIT, batch=3, first=150, stride=400, **IN_STEPS)
    assert answer["problems"] == []
    assert answer["largest_difference"] <= SPLIT_TOLERANCE * answer["range"]
    assert answer["tried"] >= 1


def test_sampling_at_cfg_1_recovers(gpu):
    answer = sweep_sampling(gpu, nothing, cfg=1.0, stride=131)
    assert answer["problems"] == []
    assert answer["largest_difference"] == 0


@pytest.mark.parametrize("batch", [1, 2])
def test_a_video_model_recovers_and_splits(gpu, batch):
    def wan(graph, loader, wires):
        video = graph.add("OomTinyWan", batch=batch)
        return {"model": video[0], "positive": video[1], "negative": video[2],
                "latent": video[3]}

    options, fault = (GUARD, {}) if batch == 1 else (ONLY_SPLIT, IN_STEPS)
    answer = sweep_sampling(gpu, wan, options, first=60, stride=41, sampler="euler", **fault)
    assert answer["problems"] == []
    assert answer["largest_difference"] <= (0 if batch == 1 else SPLIT_TOLERANCE * answer["range"])


@pytest.mark.parametrize(
    "kind", ["accelerator", "async_pool", "cublas", "cudnn", "host", "mps", "runtime"]
)
def test_every_family_of_errors_is_survived(gpu, kind):
    answer = sweep_sampling(gpu, nothing, first=200, stride=10_000, kind=kind)
    assert answer["problems"] == []
    assert answer["largest_difference"] == 0


def test_an_error_of_another_kind_is_not_retried(gpu):
    answer = sweep_sampling(gpu, nothing, first=200, stride=10_000, kind="illegal_access")
    [[_, problem]] = answer["problems"]
    assert "illegal memory access" in problem


@pytest.mark.parametrize("encode", [False, True], ids=["decode", "encode"])
def test_one_failed_allocation_anywhere_in_the_vae_gives_the_same_bits(gpu, encode):
    graph = Graph()
    loader = checkpoint(graph)
    guarded = add_guard(graph, loader[2])
    sweep = graph.add("OomSweepDecode", guarded=guarded, plain=loader[2], latent=latents(graph, 2),
                      encode=encode, first=1, stride=7, times=1, kind="oom")
    answer = json.loads(gpu.client.run(graph.prompt)["outputs"][sweep.id]["text"][0])
    assert answer["problems"] == []
    assert answer["identical_unfailed"]
    assert answer["largest_difference"] == 0


def test_one_failed_allocation_anywhere_in_the_text_encoder_gives_the_same_bits(gpu):
    graph = Graph()
    loader = checkpoint(graph)
    guarded = add_guard(graph, loader[1])
    sweep = graph.add("OomSweepEncoder", guarded=guarded, plain=loader[1], first=1, stride=53,
                      times=1, kind="oom")
    answer = json.loads(gpu.client.run(graph.prompt)["outputs"][sweep.id]["text"][0])
    assert answer["problems"] == []
    assert answer["largest_difference"] == 0


def prompt_of(seed, guarded=True, **options):
    graph = Graph()
    loader = checkpoint(graph)
    model = add_guard(graph, loader[0], **options) if guarded else loader[0]
    sample = graph.add(
        "KSampler", node_id="sampler", model=model, positive=text(graph, loader, "a red cube"),
        negative=text(graph, loader, "blurry"), latent_image=latents(graph), seed=seed, steps=2,
        cfg=4.0, sampler_name="euler", scheduler="normal", denoise=1.0,
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
    assert failed.value.exception_type.endswith("OomGuardError")
    message = failed.value.exception_message
    assert "OOM Guard could not finish" in message
    assert "Tried: returned cached and dead memory" in message
    assert "Most likely to help:" in message
    assert "you ran out of memory on your GPU" in message  # ComfyUI's own handling took place
    gpu.client.run(prompt_of(3))


def test_attempts_appear_in_the_run_of_the_prompt(gpu):
    gpu.client.run(prompt_of(11))
    gpu.arm_fault(at=400)
    entry = gpu.client.run(prompt_of(12))
    run = gpu.client.get_json(f"/headroom/runs/{entry['prompt_id']}")
    [attempt] = run["oom"]
    assert attempt["class_type"] == "KSampler"
    assert attempt["recovered"] is True
    assert attempt["attempt"] == 1


def test_a_guard_on_a_guard_and_a_lora_after_it_make_one_guard(gpu):
    def twice(graph, loader, wires):
        first = add_guard(graph, wires["model"], max_attempts=2)
        again = add_guard(graph, first, max_attempts=2)
        return {"model": graph.add("LoraLoaderModelOnly", model=again,
                                   lora_name="headroom_test_lora.safetensors", strength_model=1.0)}

    options = {**ONLY_SPLIT, "split_batch": False, "max_attempts": 2}
    answer = sweep_sampling(gpu, twice, options, first=300, stride=10_000, times=99)
    [[_, problem]] = answer["problems"]
    assert "after 1 attempt the call" in problem


def test_what_cannot_be_guarded_is_refused_in_one_sentence(gpu):
    graph = Graph()
    graph.add("PreviewImage", images=graph.add("HeadroomOOMGuard", model=graph.add(
        "EmptyImage", width=8, height=8, batch_size=1, color=0), **GUARD))
    with pytest.raises(PromptFailed, match="expects a MODEL, VAE, CLIP, CONTROL_NET"):
        gpu.client.run(graph.prompt)
