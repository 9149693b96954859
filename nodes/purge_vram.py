"""Purge VRAM: unload models, collect garbage and return the allocator's cache, measured."""

from typing import Any

from comfy_api.latest import io

from ..headroom import purge
from ._schema import any_wire, named_output, report_output, schema


class PurgeVRAM(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        value, value_out = any_wire(
            "value", "Anything. The purge runs when this value is ready.", optional=True
        )
        return schema(
            node_id="HeadroomPurgeVRAM",
            display_name="Purge VRAM",
            description="Free GPU memory at this point of the workflow and report how much.",
            search_aliases=["free memory", "unload", "unload models", "clear cache", "free vram",
                            "low vram", "save memory", "gpu", "cuda", "显存", "释放显存",
                            "清理显存"],
            is_output_node=True,
            inputs=[
                value,
                io.Combo.Input("unload", options=["all models", "all but keep", "no models"],
                               default="all models",
                               tooltip="Which loaded models leave the GPU."),
                io.AnyType.Input("keep", optional=True,
                                 tooltip="With 'all but keep': the model (or models) that stay."),
                io.Int.Input("only_below_free_mib", default=0, min=0, max=1_000_000,
                             tooltip="0: always purge. Otherwise purge only while less than this "
                                     "many MiB are free."),
                io.Boolean.Input("free_ram", default=False,
                                 tooltip="Also return unused heap pages of this server to the "
                                         "system."),
                io.Boolean.Input("reset_node_cache", default=False,
                                 tooltip="Also make ComfyUI forget all cached outputs after this "
                                         "prompt: the next run starts from the loaders."),
                io.Combo.Input("run", options=["when inputs change", "every time"],
                               default="when inputs change",
                               tooltip="'every time' also runs everything after this node again "
                                       "in every queue."),
            ],
            outputs=[
                value_out,
                report_output(),
                named_output(io.Float, "freed_mib", "MiB of GPU memory that this server freed; "
                                                   "0 if that is not known."),
            ],
        )

    @classmethod
    def fingerprint_inputs(cls, run: str = "when inputs change", **others: Any) -> float | str:
        return float("nan") if run == "every time" or "value" not in others else ""

    @classmethod
    def execute(
        cls, unload: Any, only_below_free_mib: int, free_ram: bool, reset_node_cache: bool,
        run: str, value: Any = None, keep: Any = None,
    ) -> io.NodeOutput:
        report = purge(unload, keep, only_below_free_mib, free_ram, reset_node_cache)
        freed_mib = report.freed_mib or 0.0
        return io.NodeOutput(value, report.text, freed_mib, ui={"text": [report.text]})
