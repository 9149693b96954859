"""A pack that puts functions of its own in the place of ComfyUI's executor, as some packs do."""

import functools

import execution

NODE_CLASS_MAPPINGS = {}
CALLS = {}


def _replaced(name):
    original = getattr(execution, name)

    @functools.wraps(original)
    async def counted(*args, **kwargs):
        CALLS[name] = CALLS.get(name, 0) + 1
        return await original(*args, **kwargs)

    setattr(execution, name, counted)


_replaced("execute")
_replaced("get_output_data")
