"""comfy/cli_args.py, newer than 0.33: weights come from a fast disk unless that is off."""

from argparse import Namespace

args = Namespace(fast_disk=False, disable_fast_disk=False)
