"""Save Conditioning: keep a conditioning as a file with a name."""

from typing import Any

from comfy_api.latest import io, ui

from ..headroom.encode import named_nodes
from ._schema import named_output, schema


class SaveConditioning(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        return schema(
            node_id="HeadroomSaveConditioning",
            display_name="Save Conditioning",
            description="Save a conditioning as a safetensors file that says which text encoder "
                        "made it, for workflows that load it instead of an encoder.",
            search_aliases=["export conditioning", "save embeddings", "save prompt",
                            "保存条件", "导出条件"],
            is_output_node=True,
            inputs=[
                io.Conditioning.Input("conditioning", tooltip="The result of a text encode node."),
                io.String.Input("name", default="",
                                tooltip="The name of the file. An existing file is replaced; the "
                                        "items of a list get numbers."),
            ],
            outputs=[
                named_output(io.Conditioning, "conditioning_out", "The same object that came in."),
                named_output(io.String, "file", "Where the file is."),
            ],
            hidden=[io.Hidden.dynprompt],
        )

    @classmethod
    def execute(cls, conditioning: Any, name: str) -> io.NodeOutput:
        file, text = named_nodes.save_named(conditioning, name, cls.hidden.dynprompt)
        return io.NodeOutput(conditioning, str(file), ui=ui.PreviewText(text))
