"""Only embeddings are wanted: the text encoder does not stay, and need not come back."""

from ..canvas import Canvas
from . import files

TITLE = "Only embeddings: the text encoder stays behind"
PROBLEM = """\
Somebody who only wanted prompt embeddings called `encode_prompt` with model offloading on. The
offloading moves a model away when the next one is used; after the last text encoder nothing else
is used, so its 15 GB stayed on the GPU.
"""
SOLUTION = """\
**Encode to CPU** unloads the encoder after the last prompt, whatever comes next. With `cache` =
`disk` the embeddings are files: a prompt that was encoded once is taken from there, and then the
encoder is not even read from disk.
"""
USE = """\
1. Download the text encoder (ComfyUI offers that when it opens this workflow), or choose another.
2. Write your prompts, one a line, and run.
3. Change one prompt and run again: the report says how many came from the disk.

Any workflow with the same encoder and prompt uses the same files.
"""
PROMPTS = """\
a glass teapot on a wooden table, morning light
a glass teapot on a wooden table, candle light
a glass teapot on a wooden table, moonlight"""


def draw(c: Canvas, notes: str) -> None:
    with c.group("Read me", "#8A8", 480):
        c.note(notes)
    with c.group("Encode, keep, release", "#A88", 420):
        clip = c.add("CLIPLoader", models=[files.QWEN], clip_name=files.QWEN.name,
                     type="qwen_image")
        encoded = c.add("HeadroomEncodeToCPU", "Prompts, one a line", clip=clip, text=PROMPTS,
                        split="one prompt per line", cache="disk")
    with c.group("What is left on the GPU", "#88A", 440):
        c.add("PreviewAny", "What encoding did", source=encoded[2])
        report = c.add("HeadroomMemoryReport", "After encoding", value=encoded[2])
        c.add("PreviewAny", "Table", source=report[1])
