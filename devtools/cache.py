"""Where the development tools keep what they download and make."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

HOME_VARIABLE = "HEADROOM_DEV_HOME"


def cache_home(
    env: Mapping[str, str] | None = None, platform: str | None = None, home: Path | None = None
) -> Path:
    """The per-user cache folder; HEADROOM_DEV_HOME moves it. It is not created here."""
    env = os.environ if env is None else env
    platform = platform or sys.platform
    home = home or Path.home()
    if env.get(HOME_VARIABLE):
        return Path(env[HOME_VARIABLE]).expanduser().resolve()
    if platform == "win32":
        return Path(env.get("LOCALAPPDATA") or home / "AppData" / "Local") / "headroom"
    if platform == "darwin":
        return home / "Library" / "Caches" / "headroom"
    return Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "headroom"
