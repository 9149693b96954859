"""Prompts with Encode to CPU and its disk cache, on small encoders made from files."""

import json
import os
import shutil

from tools.client import cached_nodes, node_texts
from tools.graph import Graph

CHECKPOINT, LORA = "headroom_test_sd15.safetensors", "headroom_test_lora.safetensors"
SMALL = "headroom_probe_encoder.safetensors"
LINES = "a cat\na (dog:1.3)"


def write_encoder(folder, seed, name=SMALL, pad_bytes=0):
    """Write a file that the probe's loader makes a small encoder of; return its path.

    `pad_bytes` lie before and behind the seed.
    """
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    pad = torch.full((pad_bytes // 2,), 7, dtype=torch.uint8)
    seed_and_pads = {"a": pad, "seed": torch.tensor(seed), "z": pad.clone()} if pad_bytes else {
        "seed": torch.tensor(seed)}
    save_file(seed_and_pads, str(folder / name))
    return folder / name


def encoders_of(server):
    return server.base_dir / "models" / "text_encoders"


def give(server, other, name, kind="text_encoders"):
    """Copy a model of one server to the other one, which has it from then on."""
    there = other.base_dir / "models" / kind / name
    there.parent.mkdir(parents=True, exist_ok=True)
    if not there.exists():
        shutil.copy2(server.base_dir / "models" / kind / name, there)


def edit_in_the_middle(path):
    """Other weights with the size and the time of the old ones, far from both ends."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    at = data.rindex(bytes([3]) + bytes(7), 0, len(data))
    data[at] = 4
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size and path.stat().st_mtime_ns == status.st_mtime_ns


def write_changed_lora(models_dir, path, factor):
    """Write the test LoRA with its weights times `factor`."""
    from safetensors.torch import load_file, save_file

    [source] = models_dir.rglob(LORA)
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = load_file(str(source))
    save_file({key: weight * factor for key, weight in weights.items()}, str(path))


def write_word(server, name, vectors):
    """Write a textual inversion embedding, (tokens, width), that prompts call by `name`."""
    from safetensors.torch import save_file

    folder = server.base_dir / "models" / "embeddings"
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"emb_params": vectors}, str(folder / f"{name}.safetensors"))


def write_text_lora(server):
    """Write a LoRA on the text encoder of the small SD1.5-class model; return its name."""
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(9)
    name = "lora_te_text_model_encoder_layers_0_mlp_fc1"
    weights = {f"{name}.lora_up.weight": torch.randn((128, 2), generator=generator),
               f"{name}.lora_down.weight": torch.randn((2, 64), generator=generator),
               f"{name}.alpha": torch.tensor(2.0)}
    folder = server.base_dir / "models" / "loras"
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, str(folder / "headroom_text_lora.safetensors"))
    return "headroom_text_lora.safetensors"


class Run:
    """One prompt: what its nodes told, which nodes ran, and which came from the node cache."""

    def __init__(self, client, graph):
        self.ran = []
        with client.events() as events:
            self.prompt_id = client.queue(graph.prompt, client_id=events.client_id)
            for event in events.until_finished(self.prompt_id):
                data = event["data"]
                if event["type"] == "executing" and data["node"] is not None:
                    self.ran.append(data["node"])
        self.entry = client.wait(self.prompt_id)
        assert self.entry["status"]["status_str"] == "success", self.entry["status"]
        self.texts = node_texts(self.entry)
        self.cached = cached_nodes(self.entry)

    def report(self, node):
        return self.texts[node.id]

    def digests(self, node):
        return [json.loads(line)["digest"] for line in self.texts[node.id].splitlines()]


class Encoding:
    """A loader, an Encode to CPU node behind it, and a look at the result."""

    def __init__(self, file=SMALL, text=LINES, cache="disk", lora=None,
                 lora_name=LORA):
        self.graph = Graph()
        if file == CHECKPOINT:
            self.loader = self.graph.add("CheckpointLoaderSimple", ckpt_name=file)
            clip = self.loader[1]
        else:
            self.loader = self.graph.add("ProbeEncoderFile", clip_name=file, kind="flux")
            clip = self.loader[0]
        if lora is not None:
            clip = self.graph.add("LoraLoader", model=self.loader, clip=clip, lora_name=lora_name,
                                  strength_model=1.0, strength_clip=lora)[1]
        self.encode = self.graph.add(
            "HeadroomEncodeToCPU", clip=clip, text=text, split="one prompt per line",
            release_encoder=True, cache=cache,
        )
        self.shown = self.graph.add("ProbeConditioning", a=self.encode)

    def run(self, client):
        run = Run(client, self.graph)
        self.report = run.texts.get(self.encode.id, "")
        self.digest = run.digests(self.shown)
        self.loaded = self.loader.id in run.ran
        self.encoded = self.encode.id in run.ran
        return self


def files(user_folder):
    return sorted((user_folder / "__headroom" / "embeddings").glob("*"))


def encode(gpu, count, kind="sd15", release=True, start=0):
    """Encode `count` different prompts; return (report, facts of each, figures afterwards)."""
    graph = Graph()
    clip = graph.add("ProbeEncoder", kind=kind, seed=0)
    lines = "\n".join(f"prompt number {number}" for number in range(start, start + count))
    ours = graph.add("HeadroomEncodeToCPU", clip=clip, text=lines, split="one prompt per line",
                     release_encoder=release, cache="off")
    shown = graph.add("ProbeConditioning", a=ours)
    texts = node_texts(gpu.client.run(graph.prompt, timeout=1200))
    told = [json.loads(line) for line in texts[shown.id].splitlines()]
    assert len(told) == count and all(item["cpu"] and item["numpy_backed"] for item in told)
    return texts[ours.id], told, gpu.collect()
