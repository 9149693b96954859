"""A ComfyUI on the simulated GPU that leaves out arithmetic which changes nothing.

For a film at real sizes (see `support.photographs`): the weights of its diffusion model and text
encoder are zeros, and a block of the tiny VAE gives on what came, as colours are. The bytes stay
the same.
"""

from torch.nn.modules import module

from simgpu.shapes import shapes_only

NODE_CLASS_MAPPINGS: dict[str, type] = {}
BLOCK = "Block"
LEFT_OUT = ("UNetModel", "SD1ClipModel", BLOCK)
_inside = []


def _begin(layer, args):
    if type(layer).__name__ in LEFT_OUT:
        _inside.append(shapes_only())
        _inside[-1].__enter__()


def _end(layer, args, result):
    kind = type(layer).__name__
    if kind in LEFT_OUT:
        _inside.pop().__exit__(None, None, None)
    return args[0] if kind == BLOCK and result is not None else result


module.register_module_forward_pre_hook(_begin)
module.register_module_forward_hook(_end, always_call=True)  # also where a call runs out of memory
