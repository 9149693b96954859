"""comfy/model_prefetch.py, since ComfyUI 0.35: allocations of a model are recorded."""

from contextlib import nullcontext


def pause_malloc_graph(sync=False):
    return nullcontext(sync)


def cleanup_prefetch_queues(): ...


def cleanup_prefetched_modules(module, comfy_modules): ...
