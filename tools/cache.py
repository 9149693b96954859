"""Where the development tools keep what they download and make, and locks between processes.

Two runs never build the same thing at once.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .errors import DevError

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


@contextmanager
def process_lock(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; says so once when another process has it, and waits.

    The system releases the lock when the process that has it ends, however it ends. DevError where
    the file cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise DevError(f"{path} cannot be made ({error.strerror}); set {HOME_VARIABLE} to a folder "
                       "that can be written.") from error
    with file as stream:
        if not _try_lock(stream):
            print(f"Waiting for another run to finish (lock {path})", flush=True)
            while not _try_lock(stream):
                time.sleep(0.5)
        try:
            yield
        finally:
            _unlock(stream)


def _try_lock(stream: IO[bytes]) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            stream.seek(0)
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _unlock(stream: IO[bytes]) -> None:
    if os.name == "nt":
        import msvcrt

        stream.seek(0)
        msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined]
    else:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_UN)
