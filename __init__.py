"""Headroom: GPU memory nodes for ComfyUI that do what they say and report what they measured."""

from comfy_api.latest import ComfyExtension, io

from .headroom.start import start, turned_off
from .nodes import NODES

WEB_DIRECTORY = None if turned_off() else "./js"


class HeadroomExtension(ComfyExtension):
    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        return NODES


async def comfy_entrypoint() -> HeadroomExtension:
    start()
    return HeadroomExtension()
