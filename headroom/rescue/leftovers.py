"""What a failed prompt leaves behind: collected before the next one begins."""

import gc


class Leftovers:
    """Told by the thread that runs prompts that an error was handled, and that a prompt is over.

    ComfyUI notes an error's traceback in a frame that the traceback leads to (`sys.exc_info()` in
    `execution.execute`). That circle keeps what every frame of the failed node held, models and
    tensors on the GPU, until a collection, which ComfyUI does once in ten seconds: a queue that
    goes on at once begins with less room. A collection that comes while ComfyUI unloads such a
    model takes it out of ComfyUI's list under its feet ("IndexError: pop from empty list"; seen in
    0.3.75 and 0.33.0).
    """

    def __init__(self) -> None:
        self._are_there = False

    def error_is_handled(self) -> None:
        self._are_there = True

    def prompt_is_over(self) -> None:
        """Collect, where an error was handled since; costs nothing elsewhere."""
        if self._are_there:
            self._are_there = False
            gc.collect()
