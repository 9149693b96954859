"""What each step of a sampler copied, from what its progress bar tells."""


class Steps:
    """Writes the bytes that each step copied into `found`; `copied_bytes` counts up."""

    def __init__(self, found: list[int], copied_bytes: int) -> None:
        self.found = found
        self._copied_bytes = copied_bytes
        self._bar: tuple[int, int] | None = None  # where it stood, and its length

    def told(self, value: int, most: int, copied_bytes: int) -> None:
        """The bar stands at `value` of `most`.

        One that stands still tells of no step. ComfyUI 0.33 leaves out what follows within 0.1 s
        (`ProgressBar.update_absolute`); what was copied meanwhile is divided among the steps left
        out.
        """
        if self._bar is not None and value == self._bar[0]:
            return
        steps = 1
        if self._bar is not None and most == self._bar[1] and value > self._bar[0]:
            steps = int(value - self._bar[0])
        copied = copied_bytes - self._copied_bytes
        self.found += [copied // steps] * (steps - 1) + [copied - copied // steps * (steps - 1)]
        self._bar, self._copied_bytes = (value, most), copied_bytes
