"""A real ComfyUI server on the simulated GPU."""

import pytest
from support.timed import wait_until

from tools.client import PromptFailed
from tools.graph import Graph

pytestmark = pytest.mark.host

CAPACITY_MIB = 1536
MIB = 1 << 20


def picture(seed: int = 1, size: int = 64) -> dict:
    """Checkpoint to picture with core nodes only."""
    graph = Graph()
    model = graph.add("CheckpointLoaderSimple", ckpt_name="headroom_test_sd15.safetensors")
    positive = graph.add("CLIPTextEncode", clip=model[1], text="a photo of a cat")
    negative = graph.add("CLIPTextEncode", clip=model[1], text="blurred")
    latent = graph.add("EmptyLatentImage", width=size, height=size, batch_size=1)
    sampled = graph.add(
        "KSampler",
        model=model,
        positive=positive,
        negative=negative,
        latent_image=latent,
        seed=seed,
        steps=2,
        cfg=7.0,
        sampler_name="euler",
        scheduler="normal",
        denoise=1.0,
    )
    image = graph.add("VAEDecode", samples=sampled, vae=model[2])
    graph.add("SaveImage", "save", images=image, filename_prefix="simgpu")
    return graph.prompt


def saved_png(gpu, entry: dict) -> bytes:
    (image,) = entry["outputs"]["save"]["images"]
    return gpu.client.get_bytes(f"/view?filename={image['filename']}&type=output")


@pytest.fixture
def gpu(sim):
    """The server that these tests share, with nothing loaded."""
    server = sim(CAPACITY_MIB)
    server.unload()
    return server


def test_comfyui_starts_in_gpu_mode(gpu):
    (device,) = gpu.client.get_json("/system_stats")["devices"]
    assert device["type"] == "cuda" and "Simulated GPU : native" in device["name"]
    assert device["vram_total"] == CAPACITY_MIB * MIB
    assert "Using pytorch attention" in gpu.log_text()


def test_a_prompt_ends_in_a_picture_and_moves_the_figures(gpu):
    before = gpu.reset_peaks()
    png = saved_png(gpu, gpu.client.run(picture()))
    after = gpu.ledger()
    assert png.startswith(b"\x89PNG")
    assert before.allocated_bytes == 0 < after.allocated_bytes
    assert after.allocated_bytes < after.peak_allocated_bytes <= after.peak_reserved_bytes
    assert after.free_bytes == after.capacity_bytes - after.reserved_bytes

    def is_told():  # ComfyUI empties the cache when a prompt has ended
        (device,) = gpu.client.get_json("/system_stats")["devices"]
        return device["torch_vram_total"] == gpu.ledger().reserved_bytes > 0

    wait_until(is_told)


def test_equal_prompts_give_identical_pictures_and_figures(gpu):
    pictures, figures = set(), set()
    for _ in range(3):
        gpu.unload()
        gpu.reset_peaks()
        pictures.add(saved_png(gpu, gpu.client.run(picture(seed=7))))
        now = gpu.ledger()
        figures.add((now.allocated_bytes, now.peak_allocated_bytes, now.live_blocks))
    assert len(pictures) == 1 and len(figures) == 1
    assert saved_png(gpu, gpu.client.run(picture(seed=8))) not in pictures


def test_free_empties_the_device(gpu):
    gpu.client.run(picture())
    figures = gpu.unload()
    assert figures.allocated_bytes == figures.live_blocks == 0


@pytest.mark.parametrize(
    ("kind", "text"), [("oom", "CUDA out of memory"), ("cublas", "CUBLAS_STATUS_ALLOC_FAILED")]
)
def test_an_armed_fault_fails_the_prompt_and_the_next_one_works(gpu, kind, text):
    armed = gpu.arm_fault(above_bytes=0, kind=kind)
    assert armed["failed"] == 0
    with pytest.raises(PromptFailed, match=text):
        gpu.client.run(picture())
    assert gpu.fault()["failed"] > 0
    gpu.disarm()
    assert gpu.fault() is None
    assert saved_png(gpu, gpu.client.run(picture()))


def test_only_the_chosen_allocation_fails(gpu):
    gpu.client.run(picture(seed=1))
    gpu.arm_fault(at=5)
    with pytest.raises(PromptFailed, match="KSampler.*CUDA out of memory"):
        gpu.client.run(picture(seed=2))
    assert (gpu.fault()["seen"] >= 5, gpu.fault()["failed"]) == (True, 1)
    gpu.client.run(picture(seed=2))
    assert gpu.fault()["failed"] == 1


def test_impossible_fault_settings_are_refused(gpu):
    for settings in ({"kind": "fire"}, {"at": 1, "every": 2}, {"when": 3}):
        with pytest.raises(ValueError, match="expected|unexpected"):
            gpu.arm_fault(**settings)
    assert gpu.fault() is None


def test_a_smaller_capacity_runs_out_and_the_server_survives(gpu):
    gpu.set_capacity(24)
    with pytest.raises(PromptFailed, match="total capacity of 24.00 MiB"):
        gpu.client.run(picture(size=256))
    failed = gpu.ledger()
    assert failed.ooms > 0 and failed.capacity_bytes == 24 * MIB
    gpu.restore()
    assert saved_png(gpu, gpu.client.run(picture()))


def test_a_failed_prompt_leaves_no_bytes_behind_that_free_cannot_return(gpu):
    gpu.client.run(picture(seed=1))
    gpu.arm_fault(at=30)
    with pytest.raises(PromptFailed):
        gpu.client.run(picture(seed=3))
    gpu.disarm()
    assert gpu.unload().allocated_bytes == 0


def test_another_process_takes_memory_from_comfyui(gpu):
    figures = gpu.set_other_process(1000)
    assert figures.free_bytes == (CAPACITY_MIB - 1000) * MIB - figures.reserved_bytes
    (device,) = gpu.client.get_json("/system_stats")["devices"]
    assert device["vram_free"] <= (CAPACITY_MIB - 1000) * MIB
