"""OOM Guard on a VAE, a text encoder and an upscale model, and where a GPU is too small."""

import pytest
from support.oom import assert_same_bits, checkpoint, latents, ran, run_sweep

from tools.graph import Graph, add_guard

pytestmark = pytest.mark.host


@pytest.mark.parametrize("encode", [False, True], ids=["decode", "encode"])
def test_one_failed_allocation_anywhere_in_the_vae_gives_the_same_bits(gpu, encode):
    graph = Graph()
    loader = checkpoint(graph)
    answer = run_sweep(gpu, graph, "OomSweepDecode", add_guard(graph, loader[2]), loader[2],
                       latent=latents(graph, 2), encode=encode, stride=11)
    assert_same_bits(answer, least=5)


def test_one_failed_allocation_anywhere_in_the_text_encoder_gives_the_same_bits(gpu):
    graph = Graph()
    loader = checkpoint(graph)
    guarded = add_guard(graph, loader[1])
    answer = run_sweep(gpu, graph, "OomSweepEncoder", guarded, loader[1], stride=97)
    assert_same_bits(answer, least=5)


def test_one_failed_allocation_while_a_text_encoder_with_a_lora_is_loaded_gives_the_same_bits(gpu):
    """ComfyUI catches what fails while it works out a LoRA, and would encode without it."""
    graph = Graph()
    loader = checkpoint(graph)
    clip = graph.add("LoraLoader", model=loader[0], clip=loader[1], strength_model=1.0,
                     strength_clip=1.0, lora_name="headroom_test_lora.safetensors")[1]
    answer = run_sweep(gpu, graph, "OomSweepEncoder", add_guard(graph, clip), clip, fresh=True,
                       last=290, stride=96)
    assert_same_bits(answer, least=4)


def upscaling(gpu, **settings):
    graph = Graph()
    net = graph.add("UpscaleModelLoader", model_name="headroom_demo_upscale.safetensors")
    return run_sweep(gpu, graph, "OomSweepUpscale", add_guard(graph, net), net,
                     batch=2, **settings)


def test_one_failed_allocation_anywhere_in_an_upscale_model_gives_the_same_bits(gpu):
    assert_same_bits(upscaling(gpu, stride=3))


def test_an_upscale_model_goes_on_to_one_image_and_to_tiles(gpu):
    answer = upscaling(gpu, first=14, stride=10_000, times=3)
    assert answer["problems"] == []
    assert answer["largest_difference"] < 0.15 * answer["range"]


def probed(gpu, stage, mib, guarded=True, **changed):
    """The answer of one try at a capacity, and the prompt's record."""
    graph = Graph()
    loader = checkpoint(graph)
    wires = [add_guard(graph, loader[i]) if guarded else loader[i] for i in range(3)]
    node = graph.add("OomCapacityProbe", model=wires[0], clip=wires[1], vae=wires[2], **{
        "stage": stage, "mib": mib, "size": 256, "batch": 2, "steps": 1, "computed": False,
        **changed})
    return ran(gpu, graph, node)


def test_a_text_encoder_with_a_layer_larger_than_the_gpu_still_encodes(gpu):
    """Of CLIP-L the largest takes 72.5 MiB. An older host puts it on the CPU by itself."""
    answer, _record = probed(gpu, "encode", 40, computed=True)
    assert answer["completed"]


@pytest.mark.parametrize(("stage", "mib", "size"), [("sample", 24, 256), ("decode", 6, 128)])
def test_the_second_prompt_of_a_kind_does_not_fail_first(gpu, stage, mib, size):
    """And neither fails at the end, where stock runs out of memory."""
    assert not probed(gpu, stage, mib, guarded=False, size=size)[0]["completed"]
    first, learned = probed(gpu, stage, mib, size=size)
    again, remembered = probed(gpu, stage, mib, size=size)
    assert first["completed"] and again["completed"]
    assert learned["oom"] and learned["actions"] == []
    assert remembered["oom"] == []
    (action,) = remembered["actions"]
    assert action["text"].endswith("remembered from an earlier call")


@pytest.mark.parametrize("stage", ["encode", "sample", "decode"])
def test_the_capacity_benchmark_needs_no_arithmetic_to_know_the_bytes(gpu, stage):
    def probe(computed):
        answer, _ = probed(gpu, stage, 2048, guarded=False, size=64, computed=computed)
        return answer

    real, shapes = probe(True), probe(False)
    assert real["completed"] and shapes["completed"]
    assert real["result"] != shapes["result"]
    assert real["peak_mib"] == shapes["peak_mib"] > 0


def test_weight_streaming_is_cleaned_up_and_the_model_loaded_again_before_the_retry(gpu):
    graph = Graph()
    streamed = graph.add("OomStreamed", model=checkpoint(graph)[0])
    events, _ = ran(
        gpu, graph, graph.add("OomStreamingEvents", guarded=add_guard(graph, streamed[0])))
    assert events.pop() == "failed: 1"
    assert events[events.index("step"):] == [
        "step", "cleanup_prefetch_queues", "reset_cast_buffers", "vbars_reset_watermark_limits",
        "load_models_gpu", "step",
    ]
