"""Memory Report: what every node of this prompt has used so far, as text, chart and data."""

from typing import Any

from comfy_api.latest import io

from ..headroom.advise.report import report_data, report_text, running_record
from ..headroom.record.chart import report_image
from ._schema import any_wire, named_output, report_output, schema


class MemoryReport(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        value, value_out = any_wire(
            "value", "Anything. The report covers everything that ran before this value was ready.",
            optional=True,
        )
        return schema(
            node_id="HeadroomMemoryReport",
            display_name="Memory Report",
            description="Show where the memory of this prompt went: time, VRAM and RAM of every "
                        "node up to this point.",
            search_aliases=["memory usage", "vram usage", "profile", "monitor", "benchmark",
                            "显存占用", "性能分析"],
            is_output_node=True,
            inputs=[value],
            outputs=[
                value_out,
                report_output(),
                named_output(io.Image, "chart", "VRAM and RAM over time, nodes as bands."),
                named_output(io.String, "data", "The same record as JSON, as "
                                                "from /headroom/runs/{prompt_id}."),
            ],
        )

    @classmethod
    def fingerprint_inputs(cls, **connected: Any) -> float | str:
        return "" if "value" in connected else float("nan")  # it is the report of each prompt

    @classmethod
    def execute(cls, value: Any = None) -> io.NodeOutput:
        run = running_record()
        text = report_text(run)
        return io.NodeOutput(
            value, text, report_image(run), report_data(run), ui={"text": [text]}
        )
