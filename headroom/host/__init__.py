"""The adapter to ComfyUI: the only folder that imports it."""
