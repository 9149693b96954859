"""The bundled workflows, each drawn by one module: five published problems and a first one."""

from __future__ import annotations

from types import ModuleType

from . import (
    diffsynth_prompt_loop,
    diffusers_encode_only,
    infiniteyou_720p_bf16,
    onediff_mixed_sizes,
    sd_controlnet_switch,
    start_here,
)

WORKFLOWS: dict[str, ModuleType] = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        start_here,
        diffsynth_prompt_loop,
        onediff_mixed_sizes,
        infiniteyou_720p_bf16,
        diffusers_encode_only,
        sd_controlnet_switch,
    )
}
