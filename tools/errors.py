"""The one kind of error that `dev.py` prints as a sentence instead of a traceback."""

import re


class DevError(RuntimeError):
    """An error that the user can fix; the message is one sentence that says how."""


DISK_FULL = ("No space left on device", "[Errno 28]", "not enough space on the disk", "[Errno 122]")
NETWORK_AWAY = (
    "Failed to establish a new connection",
    "Temporary failure in name resolution",
    "Name or service not known",
    "nodename nor servname",
    "getaddrinfo failed",
    "NameResolutionError",
    "Network is unreachable",
    "No route to host",
    "Connection refused",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "Read timed out",
    "RemoteDisconnected",
    "Connection reset by peer",
    "ConnectionResetError",
    "IncompleteRead",
    "IncompleteDownloadError",
    "incomplete-download",
    "Cannot connect to proxy",
    "error sending request for url",  # uv's
    "Failed to download",
)
NO_VENV = ("ensurepip is not available", "No module named venv", "No module named ensurepip")
NO_RELEASE = re.compile(r"(?:distribution found for|no version of|Because) (\S+==[^\s;]+)")


def explain_failure(output: str, doing: str) -> str:
    """One sentence for why a command of pip, uv or venv failed, from what it printed.

    `doing` completes "The … stopped", for example "installation of PyTorch".
    """
    if any(words in output for words in DISK_FULL):
        return f"The {doing} stopped because the disk is full; free some space and run this again."
    if any(words in output for words in NETWORK_AWAY):
        return (
            f"The {doing} stopped because the network is away or too slow; "
            "run this again when it is back, what is already done is kept."
        )
    if any(words in output for words in NO_VENV):
        return (
            f"The {doing} stopped because this Python cannot make virtual environments; "
            "install its venv package (on Debian and Ubuntu: python3-venv) and run this again."
        )
    if missing := NO_RELEASE.search(output):
        return (
            f"The {doing} stopped because there is no {missing.group(1)} for this Python and "
            "system; use Python 3.10 to 3.14 on 64-bit Linux, Windows or macOS on Apple silicon."
        )
    return f"The {doing} failed."


class NotHere(RuntimeError):
    """This machine or this ComfyUI cannot show what a benchmark measures; the text says why."""
