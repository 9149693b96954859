"""A simulated GPU: a real, unmodified ComfyUI runs on it, and its memory figures are exact."""
