"""comfy/model_prefetch.py of ComfyUI 0.21.0 to 0.32.0: no block is named with its layers."""


def cleanup_prefetch_queues(): ...


def cleanup_prefetched_modules(comfy_modules): ...
