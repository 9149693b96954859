"""The package stands alone: without ComfyUI it imports, and imports little."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_package_imports_without_comfyui_and_does_not_import_it():
    code = "import headroom, sys; print([m for m in sys.modules if m == 'headroom.host.core'])"
    assert run_python(code) == "[]"


def test_nothing_heavy_comes_with_it():
    heavy = "{'matplotlib', 'transformers', 'diffusers', 'aiohttp', 'PIL'}"
    code = f"import headroom, sys; print(sorted({heavy} & set(sys.modules)))"
    assert run_python(code) == "[]"
