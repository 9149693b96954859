"""How the next try of an image computation runs: whole, in fewer images, in tiles, on the CPU."""

from dataclasses import dataclass

from ..base.said import said

ON_CPU = said("guard_on_cpu", "encoded on the CPU")
EMPTY = said("guard_empty", "began with none of its own weights on the GPU")


@dataclass
class Plan:
    """How the next try of an image computation runs; sizes in pixels of its input, `unit` times
    as many in the picture.

    `images`, `tile` and `frames` of None mean: as many, and as large, as they come. `room` is how
    many times the usual estimate is kept free of weights. `alone`: with no other model loaded.
    `empty`: with none of its own weights loaded at first. `fresh`: with an empty cache.
    `has_failed`: larger parts than these were tried in vain. `on_cpu`: not on the GPU at all.
    `seen` is the largest batch that the network was called with.
    """

    images: int | None = None
    tile: int | None = None
    frames: int | None = None
    room: int = 1
    alone: bool = False
    empty: bool = False
    fresh: bool = False
    has_failed: bool = False
    on_cpu: bool = False
    seen: int = 0
    unit: int = 1

    def words(self) -> list[str]:
        """Return in short phrases how this plan runs."""
        if self.on_cpu:
            return [ON_CPU]
        words: list[str] = []
        if self.fresh:
            words.append(said("guard_tidied", "returned cached and dead memory"))
        if self.alone:
            words.append(said("guard_unloaded_all", "unloaded other models"))
        if self.empty:
            words.append(EMPTY)
        if self.room > 1:
            words.append(said("guard_weights_in_ram", "kept its own weights in RAM"))
        if self.images is not None:
            text = f"computed {self.images} of {self.seen} images at a time"
            words.append(said("guard_images", text, images=self.images, seen=self.seen))
        if self.tile is not None:
            words.append(self._tiles())
        return words

    def _tiles(self) -> str:
        pixels, frames = (self.tile or 0) * self.unit, self.frames
        text = f"computed in tiles of {pixels} pixels"
        if frames is None:
            return said("guard_tiles", text, pixels=pixels)
        text = f"{text} and {frames} frames"
        return said("guard_tiles_frames", text, pixels=pixels, frames=frames)
