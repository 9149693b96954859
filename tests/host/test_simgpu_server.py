"""A real ComfyUI server on the simulated GPU."""

import pytest

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


def test_equal_prompts_give_identical_pictures_and_figures(gpu):
    pictures, figures = set(), set()
    for _ in range(2):
        gpu.unload()
        gpu.reset_peaks()
        pictures.add(saved_png(gpu, gpu.client.run(picture(seed=7))))
        now = gpu.ledger()
        figures.add((now.allocated_bytes, now.peak_allocated_bytes, now.live_blocks))
    assert len(pictures) == 1 and len(figures) == 1
    assert saved_png(gpu, gpu.client.run(picture(seed=8))) not in pictures
