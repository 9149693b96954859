"""What each step of a sampler copied, from what its progress bar tells."""


class Steps:
    """Writes the bytes that each step copied into `found`; `copied_bytes` counts up."""

    def __init__(self, found: list[int], copied_bytes: int) -> None:
        self.found = found
        self._copied_bytes = copied_bytes
        self._bar: tuple[float, float] | None = None  # where it stood, and its length

    def told(self, value: float, most: float, copied_bytes: int) -> None:
        """The bar stands at `value` of `most`.

        A bar that does not move reports no step. ComfyUI 0.33 leaves out what follows within 0.1 s
        (`ProgressBar.update_absolute`): the step told then shares what was copied with those left
        out.
        """
        stood, length = self._bar or (None, None)
        if value == stood:
            return
        steps = max(int(value - stood), 1) if stood is not None and most == length else 1
        copied = copied_bytes - self._copied_bytes
        self.found += [copied // steps] * (steps - 1) + [copied - copied // steps * (steps - 1)]
        self._bar, self._copied_bytes = (value, most), copied_bytes
