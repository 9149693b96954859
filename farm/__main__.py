"""`python -m farm`."""

import sys

REQUIRED = ("aiohttp", "ray", "starlette", "tqdm", "uvicorn")


def start() -> int:
    """Run the command line; one sentence where a requirement is not installed."""
    try:
        from .cli import main

        return main()
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in REQUIRED:
            raise
        sys.stderr.write(f"Error: the farm needs {name}, which this Python does not have; "
                         "run: pip install -r farm/requirements.txt\n")
        return 2


if __name__ == "__main__":
    raise SystemExit(start())
