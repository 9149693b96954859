"""Offload Model: unload exactly this model, or every other one, from the GPU."""

from typing import Any

from comfy_api.latest import io

from ..headroom import offload
from ._schema import any_wire, report_output, schema


class OffloadModel(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        model, model_out = any_wire(
            "model", "MODEL, CLIP, VAE, CONTROL_NET, any other model, or a pipeline."
        )
        after, after_out = any_wire(
            "after", "Anything that must be ready before the model is unloaded.", optional=True
        )
        return schema(
            node_id="HeadroomOffloadModel",
            display_name="Offload Model",
            description="Unload exactly the model on this wire (or every other one) and report "
                        "what left the GPU. It is loaded again when something uses it.",
            search_aliases=["unload", "unload model", "free memory", "offload", "model to cpu",
                            "low vram", "save memory", "gpu", "cuda", "卸载模型", "节省显存"],
            is_output_node=True,
            inputs=[
                model,
                after,
                io.Combo.Input("scope", options=["this model", "every other model"],
                               default="this model", tooltip="What leaves the GPU."),
                io.Combo.Input("to", options=["CPU", "disk"], default="CPU",
                               tooltip="CPU keeps the weights in RAM. disk frees the RAM too: they "
                                       "are read from a file when the model is used again."),
            ],
            outputs=[model_out, after_out, report_output()],
        )

    @classmethod
    def execute(
        cls, model: Any, scope: Any, to: Any, after: Any = None
    ) -> io.NodeOutput:
        report = offload(model, scope, to)
        return io.NodeOutput(model, after, report.text, ui={"text": [report.text]})
