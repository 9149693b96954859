"""Write down what a file of Headroom causes in the log at WARNING or above, and what is deprecated.

ComfyUI runs this before it imports anything large. "Causes": a frame of ours is on the stack, also
where ComfyUI itself writes the line or gives the warning. Coroutines of ours do not count: they
wait for others, such as the handler of a request that they pass on.
"""

import inspect
import json
import logging
import os
import sys
import warnings

OURS = os.path.join("custom_nodes", "headroom", "")
DEPRECATED = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


def note(text):
    """Add one line of JSON to the file that HEADROOM_WITNESS names: the text, and who caused it."""
    frame, ours = sys._getframe(1), []
    while frame is not None:
        before, mark, file = frame.f_code.co_filename.rpartition(OURS)
        if mark and not frame.f_code.co_flags & inspect.CO_COROUTINE:
            ours.append(f"{file}:{frame.f_lineno}")
        frame = frame.f_back
    if ours:
        with open(os.environ["HEADROOM_WITNESS"], "a", encoding="utf-8") as notes:
            notes.write(json.dumps({"text": text, "by": ours}) + "\n")


class Witness(logging.Handler):
    def emit(self, record):
        note(f"{record.levelname}: {record.getMessage()}")


def show(message, category, filename, lineno, file=None, line=None):
    if issubclass(category, DEPRECATED):
        note(f"{category.__name__}: {message} ({filename}:{lineno})")
    else:
        shown(message, category, filename, lineno, file, line)


logging.getLogger().addHandler(Witness(logging.WARNING))
shown, warnings.showwarning = warnings.showwarning, show
for kind in DEPRECATED:
    warnings.simplefilter("always", kind)
