"""The ground floor: devices, tensors, files and prompts; torch at most, no ComfyUI."""
