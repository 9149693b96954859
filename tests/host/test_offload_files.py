"""Offload Model to disk and the files around it: the model's own, the scratch file, the folder."""

import os
import shutil

import pytest
from safetensors.torch import load_file, save_file

from tools.client import PromptFailed, node_texts
from tools.graph import Graph, add_checkpoint, add_offload, add_sampler
from tools.models import TEST_CHECKPOINT

pytestmark = pytest.mark.host


@pytest.mark.parametrize("accident", ["truncated", "overwritten"])
def test_a_checkpoint_that_changes_after_its_offload_harms_neither_queue_nor_picture(
    client, cpu_server, models_dir, accident
):
    path = cpu_server.base_dir / "models" / "checkpoints" / f"{accident}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = load_file(models_dir / TEST_CHECKPOINT)
    save_file({key: weight.float() for key, weight in weights.items()}, path)  # as a CPU keeps them
    graph = Graph()
    checkpoint = add_checkpoint(graph, f"checkpoints/{path.name}")
    latent = add_sampler(graph, checkpoint[0], checkpoint[1], seed=6)
    add_offload(graph, model=checkpoint[0], after=latent, to="disk")
    client.run(graph.prompt)
    if accident == "truncated":
        os.truncate(path, 4096)
    else:
        with path.open("r+b") as file:
            file.seek(path.stat().st_size // 4)
            file.write(b"\x11" * (path.stat().st_size // 2))
    whole = add_checkpoint(graph, TEST_CHECKPOINT)
    latents = [add_sampler(graph, loader[0], loader[1], seed=7) for loader in (checkpoint, whole)]
    digests = [graph.add("ProbeTensor", value=latent) for latent in latents]
    shown = node_texts(client.run(graph.prompt))
    assert shown[digests[0].id] == shown[digests[1].id]


def test_offloading_thrice_leaves_no_file_in_the_temp_folder(client, cpu_server):
    graph = Graph()
    checkpoint = add_checkpoint(graph, TEST_CHECKPOINT)
    after = None
    for seed in range(3):
        latent = add_sampler(graph, checkpoint[0], checkpoint[1], seed=seed)
        after = add_offload(graph, model=checkpoint[0], after=latent, to="disk")
    assert "MiB mapped" in node_texts(client.run(graph.prompt))[after.id]
    assert list((cpu_server.base_dir / "temp").glob("*.safetensors")) == []


def test_to_cpu_needs_no_temp_folder_and_to_disk_says_what_to_do(client, cpu_server):
    temp = cpu_server.base_dir / "temp"
    shutil.rmtree(temp, ignore_errors=True)
    temp.write_text("a file where the folder should be")
    try:
        for to in ("CPU", "disk"):
            graph = Graph()
            add_offload(graph, model=add_checkpoint(graph, TEST_CHECKPOINT)[0], to=to)
            if to == "CPU":
                client.run(graph.prompt)
            else:
                with pytest.raises(PromptFailed, match="could not write to ComfyUI's temp folder"):
                    client.run(graph.prompt)
    finally:
        temp.unlink()
