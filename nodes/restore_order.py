"""Restore Order: put a list that Size Sorter sorted back into its first order."""

from typing import Any

from comfy_api.latest import io

from ..headroom.sizes.work import restore_order
from ._schema import any_wire, schema


class RestoreOrder(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        items, items_out = any_wire(
            "items", "The list to put back, made from the outputs of a Size Sorter. It may have "
            "several items for each index, for example every picture of a batch.",
            output_tooltip="The same objects in the order they had before the Size Sorter.",
            is_output_list=True,
        )
        return schema(
            node_id="HeadroomRestoreOrder",
            display_name="Restore Order",
            description="Put results back into the order that the work had before Size Sorter.",
            search_aliases=["unsort", "original order", "sort back", "恢复顺序"],
            is_input_list=True,
            inputs=[
                items,
                io.Int.Input("index", force_input=True,
                             tooltip="The output `index` of the Size Sorter."),
            ],
            outputs=[items_out],
        )

    @classmethod
    def execute(cls, items: list[Any], index: list[int]) -> io.NodeOutput:
        return io.NodeOutput(restore_order(items, index))
