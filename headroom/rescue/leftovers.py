"""What a failed prompt leaves behind: it is collected before the next prompt begins."""

import gc


class Leftovers:
    """Called by the thread that runs prompts when an error was handled, and when a prompt is over.

    ComfyUI stores an error's traceback in a frame that the traceback refers to (`sys.exc_info()` in
    `execution.execute`). This cycle keeps what each frame of the failed node held, models and
    tensors on the GPU, until a garbage collection. ComfyUI collects once in ten seconds, so a queue
    that continues at once begins with less room. And if a collection happens while ComfyUI unloads
    such a model, the model disappears from ComfyUI's list during the loop ("IndexError: pop from
    empty list"; seen in 0.3.75 and 0.33.0).
    """

    def __init__(self) -> None:
        self._are_there = False

    def error_is_handled(self) -> None:
        self._are_there = True

    def prompt_is_over(self) -> None:
        """Collect garbage if an error was handled since the last call; else it costs nothing."""
        if self._are_there:
            self._are_there = False
            gc.collect()
