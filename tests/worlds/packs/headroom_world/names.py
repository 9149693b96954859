"""A loader whose pack gave it a new name; newer ComfyUIs replace the older one in prompts."""

from comfy_api.latest import io
from server import PromptServer

import nodes


class WorldLoader(nodes.CheckpointLoaderSimple):
    pass


if hasattr(PromptServer.instance, "node_replace_manager"):
    PromptServer.instance.node_replace_manager.register(io.NodeReplace(
        new_node_id="WorldLoader", old_node_id="WorldOlderLoader",
        input_mapping=[{"new_id": "ckpt_name", "old_id": "ckpt_name"}],
        output_mapping=[{"old_idx": output, "new_idx": output} for output in range(3)]))
