"""A prompt that completed completes again, on a device on which it only just fits."""

import pytest

from tools.graph import Graph, add_checkpoint, add_guard, add_ksampler

pytestmark = [pytest.mark.host, pytest.mark.fakecuda]

FILE = "v1-5-pruned-emaonly-fp16.safetensors"
JUST_ENOUGH_MIB = 678  # for the first of two prompts of stock ComfyUI 0.33.0


@pytest.fixture
def dry(newest_comfyui, tmp_path):
    import fakecuda

    if reason := fakecuda.why_not():
        pytest.skip(reason)
    from tools.dry_server import DryServer
    from tools.public_models import sparse_files

    with DryServer(newest_comfyui, tmp_path, JUST_ENOUGH_MIB) as dry:
        dry.add_models(sparse_files((f"checkpoints/{FILE}",), dry.shapes))
        dry.empty(JUST_ENOUGH_MIB)
        yield dry


def prompt(seed):
    graph = Graph()
    checkpoint = add_checkpoint(graph, FILE)
    model, clip, vae = (add_guard(graph, checkpoint[output])[0] for output in range(3))
    texts = [graph.add("CLIPTextEncode", clip=clip, text=f"{text} {seed}")
             for text in ("a red cube on a table", "blurry")]
    latent = graph.add("EmptyLatentImage", width=512, height=512, batch_size=8)
    sampled = add_ksampler(graph, model, *texts, latent, seed=seed, steps=2)
    graph.add("PreviewAny", source=graph.add("VAEDecode", samples=sampled, vae=vae))
    return graph.prompt


def test_the_buffers_of_streamed_weights_find_room_in_the_second_prompt_as_in_the_first(dry):
    """They grow while torch's cache holds what is free, and the pager cannot take it back."""
    for seed in (1, 2):
        entry = dry.client.run(prompt(seed))
        record = dry.client.get_json(f"/headroom/runs/{entry['prompt_id']}")
        assert record["status"] == "success" and record["oom"] == []
