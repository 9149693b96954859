"""A simulated GPU in the place of a real one, to rehearse what is done on that."""

import os
from pathlib import Path

VARIABLE = "HEADROOM_REHEARSE_GPU"  # the simulated GPU's MiB
LAB = Path(__file__).resolve().parent.parent / "lab"
LAUNCHER = LAB / "simgpu" / "main.py"
FAKE_CUDA_LAUNCHER = LAB / "fakecuda" / "main.py"


def rehearsed_mib() -> int | None:
    """The size of the simulated GPU that stands for this machine's own; None outside rehearsals."""
    asked = os.environ.get(VARIABLE)
    return int(asked) if asked else None


def simulated(mib: int) -> list[str]:
    """What to give Python before a ComfyUI folder or a script: then it runs on a simulated GPU."""
    return [str(LAUNCHER), "--capacity-mib", str(mib)]
