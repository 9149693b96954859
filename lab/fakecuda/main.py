"""Start ComfyUI, or any Python script, on fake CUDA devices.

python lab/fakecuda/main.py [--capacity-mib N] [settings] COMFYUI_DIR -- <its arguments>
python lab/fakecuda/main.py [--capacity-mib N] [settings] SCRIPT.py -- <its arguments>

The settings are those of settings.py; README.md says what they do.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent))  # only here: the program gets a process of its own
sys.path.insert(0, str(HERE.parent))


def main() -> None:
    """Build what is missing, then run that program in the place of this one."""
    from fakecuda.build import CannotBuild
    from fakecuda.settings import parse_command

    settings, program, arguments = parse_command(sys.argv[1:])
    try:
        env = settings.environment(os.environ)
    except CannotBuild as error:
        sys.exit(f"{error}.")
    start = str(HERE / "start.py")
    os.execve(sys.executable, [sys.executable, start, str(program), *arguments], env)


if __name__ == "__main__":
    main()
