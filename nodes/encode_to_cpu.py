"""Encode to CPU: encode prompts, keep only the results, and free the encoder."""

from typing import Any

from comfy_api.latest import io

from ..headroom.encode import cache_key as embedding_lookup
from ..headroom.encode import encode
from ..headroom.encode import turn as encode_turn
from ._schema import named_output, report_output, schema


class EncodeToCPU(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        return schema(
            node_id="HeadroomEncodeToCPU",
            display_name="Encode to CPU",
            description="Encode one prompt or many as CLIP Text Encode does, keep the results in "
                        "RAM and free the text encoder.",
            search_aliases=["text encode", "prompt list", "clip to cpu", "cache text encoder",
                            "t5 offload", "prompt cache", "文本编码", "提示词"],
            inputs=[
                io.Clip.Input("clip", lazy=True,
                              tooltip="The text encoder. It is not even loaded when the disk "
                                      "cache has every prompt."),
                io.String.Input("text", multiline=True, dynamic_prompts=True,
                                tooltip="The prompt, or one prompt in each line."),
                io.Combo.Input("split", options=["one prompt", "one prompt per line"],
                               default="one prompt",
                               tooltip="'one prompt per line' gives a list; blank lines are "
                                       "dropped."),
                io.Boolean.Input("release_encoder", default=True,
                                 tooltip="Unload the text encoder from the GPU afterwards."),
                io.Combo.Input("cache", options=["off", "disk"], default="off",
                               tooltip="disk keeps the embeddings as files in ComfyUI's user "
                                       "folder and uses them instead of the encoder."),
            ],
            outputs=[
                named_output(io.Conditioning, "conditioning",
                             "One conditioning for each prompt, in RAM.", is_output_list=True),
                named_output(io.String, "prompt", "The prompts, in the same order.",
                             is_output_list=True),
                report_output(),
            ],
            hidden=[io.Hidden.dynprompt],
        )

    @classmethod
    def fingerprint_inputs(cls, cache: Any = None, **_: Any) -> str:
        return embedding_lookup.fingerprint() if cache == "disk" else ""

    @classmethod
    def check_lazy_status(
        cls, text: str, split: Any, cache: Any, clip: Any = None, **_: Any
    ) -> list[str]:
        prompts = encode.split_prompts(text, split)
        return encode_turn.wanted_inputs(cls.hidden.dynprompt, clip, prompts, cache)

    @classmethod
    def execute(
        cls, text: str, split: Any, release_encoder: bool, cache: Any, clip: Any = None
    ) -> io.NodeOutput:
        prompts = encode.split_prompts(text, split)
        done = encode_turn.run(cls.hidden.dynprompt, clip, prompts, release_encoder, cache)
        text = done.report.text
        return io.NodeOutput(done.conditionings, done.prompts, text, ui={"text": [text]})
