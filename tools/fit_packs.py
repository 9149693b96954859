"""The user's own node packs, where a workflow needs them: a dry server starts with them then."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .dry_server import DryServer
from .errors import DevError
from .jobs import read_prompt
from .server import PACK_ROOT

NO_NODE = "The server has no node"


@contextmanager
def with_packs(
    start: Callable[[Sequence[Path]], DryServer], workflow: Path, comfyui: Path | None
) -> Iterator[DryServer]:
    """A running server; with all packs of `comfyui` where the workflow names a node of theirs."""
    packs = own_packs(comfyui)
    with start(()) as dry:
        if not packs or not _lacks_a_node(dry, workflow):
            yield dry
            return
    with start(packs) as dry:
        yield dry


def _lacks_a_node(dry: DryServer, workflow: Path) -> bool:
    try:
        prompt = read_prompt(workflow, dry.client)
    except DevError as error:
        return str(error).startswith(NO_NODE)
    known = dry.client.get_json("/object_info")
    return any(node["class_type"] not in known for node in prompt.values())


def own_packs(comfyui: Path | None) -> list[Path]:
    """The packs in a ComfyUI's custom_nodes, without this one."""
    folder = comfyui / "custom_nodes" if comfyui else None
    if folder is None or not folder.is_dir():
        return []
    return [path for path in sorted(folder.iterdir())
            if (path / "__init__.py").is_file() and not _is_ours(path)]


def _is_ours(path: Path) -> bool:
    return path.resolve() == PACK_ROOT or (path / "headroom" / "rescue").is_dir()
