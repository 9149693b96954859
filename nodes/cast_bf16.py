"""Cast bf16: a private copy of a model in another dtype, with what it saves and costs."""

from typing import Any

from comfy_api.latest import io

from ..headroom import cast
from ._schema import any_wire, report_output, schema


class CastBF16(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        model, model_out = any_wire(
            "model", "MODEL, CLIP, VAE, CONTROL_NET, CLIP_VISION, UPSCALE_MODEL or a pipeline.",
            output_tooltip="A copy in the chosen dtype, or the same object if there was nothing "
                           "to cast.",
        )
        return schema(
            node_id="HeadroomCastBF16",
            display_name="Cast bf16",
            description="Give this model a private copy of its weights in another dtype and report "
                        "what that saves. The input model does not change.",
            search_aliases=["bfloat16", "half precision", "fp16", "dtype", "convert weights",
                            "reduce vram", "半精度", "节省显存"],
            inputs=[
                model,
                io.Combo.Input("dtype", options=["bfloat16", "float16", "float32"],
                               default="bfloat16",
                               tooltip="bfloat16 has every float32 size with 3 digits; float16 "
                                       "has 4 digits but ends at 65504."),
                io.String.Input("keep_float32", default="",
                                tooltip="Parts of the names of weights that are not cast, "
                                        "separated by commas, for example: norm, time_embed"),
            ],
            outputs=[model_out, report_output()],
        )

    @classmethod
    def execute(cls, model: Any, dtype: Any, keep_float32: str) -> io.NodeOutput:
        done = cast(model, dtype, keep_float32)
        return io.NodeOutput(done.value, done.report.text, ui={"text": [done.report.text]})
