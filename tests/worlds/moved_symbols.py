"""Hide a symbol of ComfyUI from the pack, or show it another one, for moved_host.py."""

import sys

NAME = "moved_pack"  # what the pack's modules are called here


def hide(path, name, instead=None):
    """Let the pack see no `name` on what `path` names, or `instead`; whether that changes a thing.
    """
    def look_of(plain):
        def look(self, asked):
            if asked == name and sys._getframe(1).f_globals.get("__name__", "").startswith(NAME):
                if instead is None:
                    raise AttributeError(asked)
                return instead
            return plain(self, asked)
        return look

    def hidden(kind):
        return type(kind.__name__, (kind,), {"__getattribute__": look_of(kind.__getattribute__)})

    symbols = sys.modules[f"{NAME}.headroom.host.symbols"]
    _, owner = symbols._find(path)
    if instead is not None and not hasattr(owner, name):
        return False
    if isinstance(owner, type):
        for method in ("__getattribute__", "__getattr__"):
            if hasattr(owner, method):
                setattr(owner, method, look_of(getattr(owner, method)))
    else:
        owner.__class__ = hidden(type(owner))
    get, has = (vars(symbols).get(one.__name__, one) for one in (getattr, hasattr))
    symbols.getattr = lambda one, asked, *default: (
        default[0] if one is owner and asked == name and instead is None else
        instead if one is owner and asked == name else get(one, asked, *default))
    symbols.hasattr = lambda one, asked: (
        not (one is owner and asked == name and instead is None) and has(one, asked))
    if instead is None:
        is_set = symbols._is_set
        symbols._is_set = lambda module, one, asked: (
            not (one is owner and asked == name) and is_set(module, one, asked))
    return True


def is_there(path, name, is_call):
    """Whether this ComfyUI has it: what it lacks anyway needs no hiding."""
    symbols = sys.modules[f"{NAME}.headroom.host.symbols"]
    module, owner = symbols._find(path)
    return owner is not None and (
        hasattr(owner, name) or not is_call and symbols._is_set(module, owner, name))


def otherwise(*, moved):
    """A function that accepts no argument."""
