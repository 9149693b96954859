"""Let Headroom take ComfyUI's validation for one that it does not know: there are no reruns then.

ComfyUI itself calls it as always.
"""

import inspect

import execution

execution.validate_prompt.__signature__ = inspect.Signature()
