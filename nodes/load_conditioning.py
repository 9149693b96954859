"""Load Conditioning: a conditioning from a file, without its text encoder."""

from typing import Any

from comfy_api.latest import io, ui

from ..headroom.encode import named_nodes
from ._schema import named_output, report_output, schema


class LoadConditioning(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        return schema(
            node_id="HeadroomLoadConditioning",
            display_name="Load Conditioning",
            description="Load what Save Conditioning saved. No text encoder is needed; a warning "
                        "says if the workflow has a different one.",
            search_aliases=["import conditioning", "load embeddings", "load prompt",
                            "加载条件", "导入条件"],
            inputs=[
                io.Combo.Input("name", options=named_nodes.names(),
                               tooltip="The files that Save Conditioning wrote. Press R to see "
                                       "new ones."),
            ],
            outputs=[
                named_output(io.Conditioning, "conditioning", "The conditioning, in RAM."),
                report_output("Which encoder made it, and whether the workflow has another one."),
            ],
        )

    @classmethod
    def validate_inputs(cls, name: Any) -> bool | str:
        return named_nodes.problem_with(name) or True

    @classmethod
    def fingerprint_inputs(cls, name: Any) -> str:
        return named_nodes.fingerprint(name)

    @classmethod
    def execute(cls, name: str) -> io.NodeOutput:
        conditioning, text = named_nodes.load_named(name)
        return io.NodeOutput(conditioning, text, ui=ui.PreviewText(text))
