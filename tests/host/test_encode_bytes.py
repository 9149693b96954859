"""Encode to CPU and Move to CPU on the simulated GPU, counted to the byte."""


import pytest
from support.encodings import encode

from tools.client import PromptFailed, node_texts
from tools.graph import Graph, forget_everything

pytestmark = pytest.mark.host

CAPACITY_MIB = 4096


@pytest.fixture
def gpu(sim):
    return sim(CAPACITY_MIB)


@pytest.fixture
def all_on_gpu(sim):
    """A server that keeps intermediate results on the GPU, as `--gpu-only` asks."""
    return sim(CAPACITY_MIB, "--gpu-only")


@pytest.mark.parametrize("kind", ["sdxl", "flux", "t5"])  # "sd15": tests/gpu
def test_a_released_encoder_leaves_no_byte(gpu, kind):
    gpu.unload()
    report, _, after = encode(gpu, 3, kind)
    assert after.allocated_bytes == 0 and after.reserved_bytes == 0
    assert "of weights unloaded" in report and "0 MiB, it was not loaded" not in report


def test_what_stays_on_the_gpu_with_gpu_only_is_moved_and_counted(all_on_gpu):
    all_on_gpu.unload()
    _, told, after_one = encode(all_on_gpu, 1, release=False)
    report, told, after_all = encode(all_on_gpu, 20, release=False, start=1)
    moved = sum(item["bytes"] for item in told) / 2**20
    assert f"{moved:,.1f} MiB from" in report
    assert after_all.allocated_bytes == after_one.allocated_bytes


def test_a_run_from_the_disk_cache_uses_no_byte_of_the_gpu(gpu):
    import torch
    from safetensors.torch import save_file

    folder = gpu.server.base_dir / "models" / "text_encoders"
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"seed": torch.tensor(1)}, str(folder / "cached.safetensors"))

    def run():
        graph = Graph()
        clip = graph.add("ProbeEncoderFile", clip_name="cached.safetensors", kind="flux")
        ours = graph.add("HeadroomEncodeToCPU", clip=clip, text="a\nb", cache="disk",
                         split="one prompt per line", release_encoder=True)
        shown = graph.add("ProbeConditioning", a=ours)
        texts = node_texts(gpu.client.run(graph.prompt))
        return texts[ours.id], texts[shown.id]

    _, first = run()
    forget_everything(gpu.client)
    gpu.unload()
    gpu.reset_peaks()
    report, second = run()
    figures = gpu.collect()
    assert second == first and "2 of 2 prompts read" in report
    assert figures.peak_allocated_bytes == 0 and figures.peak_reserved_bytes == 0


def test_a_latent_on_the_gpu_is_moved_and_its_bytes_come_back(all_on_gpu):
    all_on_gpu.unload()
    graph = Graph()
    latent = graph.add("EmptyLatentImage", width=1024, height=1024, batch_size=8)
    moved = graph.add("HeadroomMoveToCPU", value=latent)
    same = graph.add("ProbeTensor", value=moved)
    texts = node_texts(all_on_gpu.client.run(graph.prompt))
    size = 8 * 4 * 128 * 128 * 4
    assert f"{size / 2**20:.1f} MiB from" in texts[moved.id] and texts[same.id]
    # ComfyUI's node cache still holds the first latent; nothing else is there.
    assert all_on_gpu.collect().allocated_bytes == size


def test_running_out_of_memory_anywhere_inside_leaves_nothing_wrong_behind(gpu):
    def run():
        return encode(gpu, 1, start=5)[1][0]["digest"]

    gpu.unload()
    allocations = gpu.ledger().allocations
    before = run()
    count = gpu.ledger().allocations - allocations
    failures = 0
    for quarter in range(4):
        gpu.unload()
        gpu.arm_fault(at=1 + quarter * count // 4)
        try:
            assert run() == before
        except PromptFailed as error:
            failures += 1
            assert error.out_of_memory, error
        gpu.disarm()
        assert gpu.unload().allocated_bytes == 0
    assert failures >= 1 and run() == before
