"""Pictures that look like pictures, on a machine without a trained model: photographs, decoded.

The photographs are four of scikit-image's that are in the public domain. The checkpoint is SD1.5
at its real sizes, but for the VAE: that is the tiny one, which hands colours on. The UNet's weights
are zeros, so that it predicts no noise: what is encoded comes out of the sampler and is decoded,
softer. The bytes are those of SD1.5; arithmetic that changes nothing is left out (the pack
headroom_noise_shapes).
"""

from PIL import Image, ImageOps

PUBLISHED = "checkpoints/v1-5-pruned-emaonly-fp16.safetensors"
FILE, VAE = "checkpoints/sd15_photographs.safetensors", "first_stage_model."
SCALE = 0.01  # of the latents: so small a divisor makes the sampler's noise invisible
BLUR = ((0.0625, 0.125, 0.0625), (0.125, 0.25, 0.125), (0.0625, 0.125, 0.0625))
POINT = ((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0))
SHRINK, GROW = ("taesd_encoder.2.", "taesd_encoder.6.", "taesd_encoder.10."), (
    "taesd_decoder.7.", "taesd_decoder.12.", "taesd_decoder.17.")
BORDERS = (0.0, 0.2, 0.1, 0.25)  # what each round of the four leaves out at the sides


def save_photographs(path, pictures: int, side: int) -> None:
    """One file with that many square pictures; Load Image makes a batch of them."""
    from skimage import data

    photographs = (data.chelsea, data.coffee, data.rocket, data.hubble_deep_field)
    shown = []
    for number in range(pictures):
        turn, which = divmod(number, len(photographs))
        picture = ImageOps.fit(Image.fromarray(photographs[which]()), (side, side),
                               bleed=BORDERS[turn])
        shown.append(ImageOps.mirror(picture) if turn % 2 else picture)
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *others = shown
    first.save(path, save_all=True, append_images=others, lossless=True)


def make_handing_checkpoint(models_dir):
    """Make the checkpoint in a models folder, a MiB on disk, and return its path."""
    import torch

    from tools import models, public_models
    from tools.sparse_files import SparseFile, Weight, write_sparse

    ask = models.asking(None, public_models.SCRIPT)
    [published] = public_models.sparse_files([PUBLISHED], ask).values()
    [tiny] = models.read_shapes([{VAE: ("taesd",)}])
    weights = {name: weight for name, weight in published.weights.items()
               if not name.startswith(VAE)}
    values = {}
    for name, shape in tiny.items():
        weight = torch.zeros(shape, dtype=torch.float16)
        _hand_on(name.removeprefix(VAE), weight)
        weights[name], values[name] = Weight("F16", shape), weight.numpy().tobytes()
    return write_sparse(models_dir / FILE, SparseFile(weights, values))


def _hand_on(name, weight):
    """Set a layer of the tiny VAE, all zeros, so that it passes its first three channels on.

    Its blocks add what they compute to what came: as zeros they change nothing.
    """
    import torch

    if name == "vae_scale":
        weight.fill_(SCALE)
    elif weight.ndim == 4 and ".conv." not in name:
        kernel = torch.tensor(BLUR if name.startswith((*SHRINK, *GROW)) else POINT)
        for channel in range(3):
            weight[channel, channel] = kernel
