"""OOM Guard: return the same model; if it runs out of memory it recovers and finishes."""

from typing import Any

from comfy_api.latest import io

from ._schema import any_wire, schema


class OOMGuard(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        model, model_out = any_wire(
            "model", "MODEL, VAE, CLIP, CONTROL_NET or UPSCALE_MODEL.",
            output_tooltip="The same model, guarded. The input does not change.",
        )
        return schema(
            node_id="HeadroomOOMGuard",
            display_name="OOM Guard",
            description="Let a workflow that runs out of memory finish anyway: free memory, "
                        "offload, split or tile, and repeat just the call that failed.",
            search_aliases=["out of memory", "oom", "retry", "allocation on device", "low vram",
                            "save memory", "gpu", "cuda", "OOM 显存不足", "爆显存"],
            inputs=[
                model,
                io.Boolean.Input("free_other_models", default=True,
                                 tooltip="May unload models that the failed call does not use."),
                io.Boolean.Input("offload_weights", default=True,
                                 tooltip="May move this model's own weights to RAM and stream "
                                         "them: slower steps, same picture."),
                io.Boolean.Input("split_batch", default=True,
                                 tooltip="May run a joined batch in smaller pieces: same picture "
                                         "up to rounding."),
                io.Boolean.Input("tile_vae", default=True,
                                 tooltip="May decode, encode or upscale in tiles: can change a "
                                         "picture slightly. Off: a VAE is never tiled, not even "
                                         "by ComfyUI."),
                io.Int.Input("max_attempts", default=8, min=1, max=100,
                             tooltip="Retries of one failing call before it is an error."),
                io.Combo.Input("prefer", options=["same bits", "speed"],
                               default="same bits", optional=True,
                               tooltip="If several ways fit: take one that keeps every bit of "
                                       "the picture, or smaller parts, which are faster."),
            ],
            outputs=[model_out],
        )

    @classmethod
    def execute(
        cls, model: Any, free_other_models: bool, offload_weights: bool, split_batch: bool,
        tile_vae: bool, max_attempts: int, prefer: str = "same bits",
    ) -> io.NodeOutput:
        # This import is a quarter of the pack's import time; a ComfyUI without this node saves it.
        from ..headroom.guard.call import GuardOptions
        from ..headroom.guard.guard import guard

        options = GuardOptions(
            free_other_models, offload_weights, split_batch, tile_vae, max_attempts, prefer
        )
        return io.NodeOutput(guard(model, options))
