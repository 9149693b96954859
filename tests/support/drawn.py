"""Pictures that look like pictures, on a machine without a trained model: our own drawing.

A checkpoint of SD1.5 at its real sizes, but for the VAE: that is the tiny one, which hands colours
on. The UNet's weights are zeros, so that it predicts no noise: what goes in as a picture comes out
as one, a little softer. The bytes are those of SD1.5; arithmetic that changes nothing is left out
(the pack headroom_noise_shapes).
"""

import math

from PIL import Image, ImageDraw, ImageFilter

FINE = 3
PUBLISHED = "checkpoints/v1-5-pruned-emaonly-fp16.safetensors"
FILE, VAE = "checkpoints/sd15_drawn.safetensors", "first_stage_model."
SCALE = 0.01  # of the latents: so small a divisor makes the sampler's noise invisible
BLUR = ((0.0625, 0.125, 0.0625), (0.125, 0.25, 0.125), (0.0625, 0.125, 0.0625))
POINT = ((0.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 0.0))
SHRINK, GROW = ("taesd_encoder.2.", "taesd_encoder.6.", "taesd_encoder.10."), (
    "taesd_decoder.7.", "taesd_decoder.12.", "taesd_decoder.17.")
# Sky above, sky at the horizon, near hills: at night, in the morning, at noon, in the evening.
HOURS = (
    ((14, 20, 52), (44, 52, 98), (12, 22, 34)), ((96, 120, 190), (255, 190, 150), (46, 66, 70)),
    ((74, 148, 226), (198, 230, 250), (52, 120, 74)), ((92, 60, 130), (255, 140, 90), (50, 46, 60)),
)
RIDGES = ((0.56, 0.13, 3.1, 0.4, 0.55), (0.64, 0.10, 4.3, 2.0, 0.30), (0.74, 0.06, 5.2, 1.1, 0.0))


def _mixed(one, other, part):
    return tuple(round(a + (b - a) * part) for a, b in zip(one, other, strict=True))


def landscape(hour: float, side: int) -> Image.Image:
    """A lake between hills; `hour` goes from 0 (night) over morning, noon and evening to 4."""
    first, part = HOURS[int(hour) % 4], hour % 1
    high, low, hill = (_mixed(a, b, part) for a, b in zip(first, HOURS[int(hour + 1) % 4],
                                                          strict=True))
    size = side * FINE
    image = Image.new("RGB", (size, size))
    draw = ImageDraw.Draw(image)
    for y in range(size):
        draw.line([(0, y), (size, y)], _mixed(high, low, min(1.0, y / size / 0.62)))
    angle = math.pi * (hour - 0.5) / 3
    x, y, radius = size * (0.5 - 0.42 * math.cos(angle)), size * (0.62 - 0.46 * math.sin(angle)), \
        size * 0.055
    if hour < 0.5 or hour > 3.5:  # the moon, and some stars
        x, y = size * 0.72, size * 0.2
        for star in range(26):
            sx, sy = (star * 137 % 97) / 97 * size, (star * 71 % 53) / 53 * size * 0.45
            draw.circle((sx, sy), size * 0.004, (230, 235, 255))
    glow = _mixed(low, (255, 250, 220), 0.75)
    draw.circle((x, y), radius, glow)
    for base, swing, waves, shift, haze in RIDGES:
        colour = _mixed(hill, low, haze)
        line = [(at, size * (base - swing * (math.sin(waves * at / size + shift)
                                             + 0.4 * math.sin(3.7 * waves * at / size))))
                for at in range(0, size + FINE, FINE)]
        draw.polygon([(0, size), *line, (size, size)], colour)
    shore = round(size * 0.8)
    above = image.crop((0, 2 * shore - size, size, shore))
    above = above.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    water = Image.blend(above.filter(ImageFilter.GaussianBlur(FINE * 2)),
                        Image.new("RGB", above.size, _mixed(high, hill, 0.4)), 0.35)
    image.paste(water, (0, shore))
    return image.resize((side, side), Image.Resampling.LANCZOS)


def save_day(path, pictures: int, side: int) -> None:
    """One file with that many pictures of a day; Load Image makes a batch of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *others = [landscape(4 * (n + 0.5) / pictures, side) for n in range(pictures)]
    first.save(path, save_all=True, append_images=others, lossless=True)


def make_drawn_checkpoint(models_dir):
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
