"""Size Sorter: run a list of work from large to small, in fewer distinct shapes if wanted."""

from typing import Any

from comfy_api.latest import io

from ..headroom.sizes import work as size_lists
from ._schema import named_output, report_output, schema


class SizeSorter(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        return schema(
            node_id="HeadroomSizeSorter",
            display_name="Size Sorter",
            description="Sort a list of sizes, or of pictures and latents, so that the largest "
                        "runs first and equal sizes run one after the other.",
            search_aliases=["sort by size", "resolution list", "batch sizes", "bucket",
                            "fragmentation", "torch compile", "尺寸排序", "分辨率"],
            is_input_list=True,
            inputs=[
                io.String.Input("sizes", multiline=True, default="",
                                placeholder="1024x1152\n1360x1536\nor heights=[...] widths=[...]",
                                tooltip="One size in each line, width first; # starts a comment. "
                                        "Leave it empty to use the sizes of `items`."),
                io.AnyType.Input("items", optional=True,
                                 tooltip="A list of IMAGE, MASK, LATENT or anything with a shape, "
                                         "sorted together with the sizes. Without text their own "
                                         "sizes count."),
                io.Combo.Input("order", options=["largest first", "smallest first"],
                               default="largest first",
                               tooltip="Largest first lets later sizes reuse the memory."),
                io.Combo.Input("fit", options=["keep each size", "pad up to largest",
                                               "round up to bucket"],
                               default="keep each size",
                               tooltip="Fewer distinct shapes mean fewer graphs to compile, at the "
                                       "price of more pixels. Items are not changed: width and "
                                       "height say which size they should get."),
                io.Int.Input("bucket", default=64, min=1, max=8192,
                             tooltip="With 'round up to bucket': both sides become multiples of "
                                     "this many pixels."),
            ],
            outputs=[
                named_output(io.Int, "width", "Widths in pixels, in the new order.", True),
                named_output(io.Int, "height", "Heights in pixels, in the new order.", True),
                named_output(io.AnyType, "item", "The items in the new order, unchanged.", True),
                named_output(io.Int, "index", "The original place of each; connect it to Restore "
                                              "Order.", True),
                report_output("Distinct shapes before and after, and pixels added."),
            ],
        )

    @classmethod
    def execute(
        cls, sizes: list[str], order: list[Any], fit: list[Any], bucket: list[int],
        items: list[Any] | None = None,
    ) -> io.NodeOutput:
        return io.NodeOutput(*size_lists.sorted_lists(sizes, items, order, fit, bucket))
