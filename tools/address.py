"""The address of a ComfyUI server as the command line names it."""

import argparse
from urllib.parse import urlsplit

DEFAULT_SERVER = "http://127.0.0.1:8188"


def server_url(word: str) -> str:
    """Return an http(s) address as it was given; ArgumentTypeError for anything else."""
    try:
        parts = urlsplit(word)
        is_whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is no number, half of an IPv6 address
        is_whole = False
    if not is_whole or any(letter.isspace() for letter in word):
        raise argparse.ArgumentTypeError(
            f"a server is named as in {DEFAULT_SERVER}, not {word[:80]!r}"
        )
    return word


def add_server(parser: argparse.ArgumentParser) -> None:
    """Let a command be given `--server URL`."""
    parser.add_argument("--server", type=server_url, default=DEFAULT_SERVER, metavar="URL",
                        help=f"default: {DEFAULT_SERVER}")
