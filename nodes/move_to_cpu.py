"""Move to CPU: copy every tensor inside any value to RAM of its own."""

from typing import Any

from comfy_api.latest import io

from ..headroom.actions import to_cpu as moving
from ._schema import any_wire, report_output, schema


class MoveToCPU(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        value, value_out = any_wire(
            "value", "CONDITIONING, LATENT, IMAGE, or any structure of another pack.",
            output_tooltip="The same structure with every tensor in RAM.",
        )
        return schema(
            node_id="HeadroomMoveToCPU",
            display_name="Move to CPU",
            description="Copy every tensor inside a value into RAM of its own, so that nothing of "
                        "it stays on the GPU.",
            search_aliases=["to cpu", "offload latent", "offload conditioning", "embeds to cpu",
                            "移到内存", "节省显存"],
            inputs=[value],
            outputs=[value_out, report_output()],
        )

    @classmethod
    def execute(cls, value: Any) -> io.NodeOutput:
        moved, report = moving.move_to_cpu(value)
        return io.NodeOutput(moved, report.text, ui={"text": [report.text]})
