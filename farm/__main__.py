"""`python -m farm`."""

import sys

REQUIRED = ("filelock", "ray", "requests", "tqdm")


def start() -> int:
    """Run the command line; one sentence where a requirement is not installed."""
    try:
        from .cli import main

        return main()
    except ModuleNotFoundError as error:
        if error.name not in REQUIRED:
            raise
        sys.stderr.write(f"Error: the farm needs {error.name}, which this Python does not have; "
                         "run: pip install -r farm/requirements.txt\n")
        return 2


if __name__ == "__main__":
    raise SystemExit(start())
