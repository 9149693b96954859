"""Development commands: `python dev.py demo`, `test`, `run`, `advise`, `fit`, `compare`, `bench`.

Needs nothing but Python 3.10 or newer; `python dev.py COMMAND --help` says more.
"""

import sys

# Name, module (imported only when asked for), and what the list of commands says about it.
# A module has `add_arguments(parser)` and `main(args) -> int`; one with PASS_THROUGH = True
# gets everything after the command's name unread, as `args.rest`.
PROG = "python dev.py {name}"
COMMANDS = (
    ("demo", "tools.demo", "run a real ComfyUI with this pack and print what it freed"),
    ("test", "tools.test", "run every check and test that can run on this machine"),
    ("run", "tools.run", "queue a workflow on any ComfyUI server and print its memory table"),
    ("advise", "tools.advise", "put the nodes into a workflow that make it fit a smaller GPU"),
    ("fit", "tools.fit", "say on which cards a workflow fits, without a card or its weights"),
    ("compare", "tools.compare", "say what another ComfyUI or another flag does to a workflow"),
    ("bench", "tools.bench", "measure the README's figures, on a simulated GPU or a real one"),
)


def usage():
    lines = ["usage: python dev.py COMMAND [arguments]", ""]
    lines += [f"  {name:8} {text}" for name, _, text in COMMANDS]
    return "\n".join(lines)


def load(name):
    import importlib

    for known, module, text in COMMANDS:
        if known == name:
            return importlib.import_module(module), text
    return None, ""


def parse(module, name, text, words):
    import argparse

    parser = argparse.ArgumentParser(prog=PROG.format(name=name), description=text)
    module.add_arguments(parser)
    if getattr(module, "PASS_THROUGH", False) and words[:1] not in (["-h"], ["--help"]):
        return argparse.Namespace(rest=words)
    return parser.parse_args(words)


def main(words):
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    # A file may have an encoding that lacks letters of a workflow's titles, as on Windows.
    sys.stdout.reconfigure(errors="replace")
    module, text = load(words[0])
    if module is None:
        print(f"Error: there is no command {words[0]!r}.\n\n{usage()}", file=sys.stderr)
        return 2
    from tools.errors import DevError
    from tools.processes import end_like_ctrl_c

    end_like_ctrl_c()
    try:
        return module.main(parse(module, words[0], text, words[1:]))
    except DevError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    if sys.version_info < (3, 10):  # noqa: UP036 - whoever starts it with an older one is told
        found = ".".join(str(part) for part in sys.version_info[:2])
        sys.exit(
            f"Error: this needs Python 3.10 or newer and was started with Python {found}; "
            "start it with a newer one."
        )
    sys.exit(main(sys.argv[1:]))
