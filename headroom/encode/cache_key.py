"""Which prompts of one encoder are in the disk cache, and under which keys."""

import hashlib
import json
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.file_identity import State, identities_of, state_of
from ..base.stored_value import Unstorable
from ..host.features import lost
from .ancestry import identify
from .conditioning import is_conditioning
from .disk_cache import EmbeddingCache

KEY_FORMAT = 3

# The state of each file when its encoder was first looked up. ComfyUI keeps a loaded model after
# its file is replaced; embeddings of the old model must not be stored under the new file's key.
_first_seen: dict[Path, State] = {}


@dataclass
class EmbeddingLookup:
    """The cached embeddings of one encoder.

    `encoder`: its identity, empty if that is impossible; `files`: those it is loaded from.
    `problem`: why nothing is read from or written to the cache; `unwritten`: why an embedding is
    not in it; both None if all is well. `is_stale`: nothing is read any more.
    """

    cache: EmbeddingCache
    encoder: str
    problem: str | None = None
    unwritten: str | None = None
    files: tuple[Path, ...] = ()
    is_stale: bool = False
    found: dict[str, Any] = field(default_factory=dict)
    _keys: dict[str, str] = field(default_factory=dict)

    def has_all(self, prompts: Iterable[str]) -> bool:
        """Read `prompts` from the cache; return whether it has all of them."""
        if not self._is_fresh():
            return False
        complete = True
        for prompt in dict.fromkeys(prompts):
            if prompt not in self.found:
                key = self._key(prompt)
                value = None if key is None else self.cache.get(key)
                if key is not None:
                    self._keys[prompt] = key
                if is_conditioning(value):
                    self.found[prompt] = value
                else:
                    complete = False
        return complete

    def store(self, prompt: str, value: Any) -> None:
        """Keep an embedding; if that fails, `unwritten` says why, and it is no error."""
        if not self._is_fresh() or self.unwritten is not None:
            return
        key = self._key(prompt)
        if key is None:
            return
        if self._keys.get(prompt, key) != key:
            self.unwritten = "a file that it names changed while it was encoded"
            return
        try:
            self.cache.put(key, value)
        except Unstorable as error:
            self.unwritten = str(error)
        except OSError as error:
            self.unwritten = f"the disk refused: {error.strerror or error}"

    def _is_fresh(self) -> bool:
        """Return whether the cache may be used; this checks the files again, they can change."""
        if self.problem is None and not self.is_stale:
            reason = _stale_files(self.files)
            self.is_stale = reason is not None
            self.unwritten = reason or self.unwritten
        return self.problem is None and not self.is_stale

    def _key(self, prompt: str) -> str | None:
        """Return the key of a prompt; None if a file that it names cannot be read."""
        try:
            parts = [KEY_FORMAT, self.encoder, prompt, embeddings_in(prompt)]
        except OSError as error:
            self.unwritten = f"a file that it names cannot be read: {error.strerror or error}"
            return None
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def embeddings_in(prompt: str) -> list[dict[str, object]]:
    """Return the identities of the textual-inversion files that a prompt may name.

    Some file systems find a name in other letters, or with its accents as letters of their own, and
    in a prompt brackets have backslashes.
    """
    if "embedding:" not in prompt:
        return []
    from ..host import files as host_files

    text = _folded(prompt.replace("\\", ""))
    return identities_of(
        path for path in host_files.embedding_files() if _folded(path.stem) in text)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def look_up(prompt: Any, node_id: str, input: str = "clip") -> EmbeddingLookup:
    """Return the lookup for the encoder on `input` of a node in the running ComfyUI."""
    if why := lost("files"):
        return EmbeddingLookup(EmbeddingCache(Path()), "", why)
    from ..host import files as host_files
    from ..host import graph as host_graph

    cache = EmbeddingCache(host_files.cache_folder())
    ancestry = identify(prompt, node_id, input)
    if ancestry.problem is not None:
        return EmbeddingLookup(cache, "", ancestry.problem)
    identity = json.dumps([ancestry.digest, host_graph.numerics()])
    encoder = hashlib.sha256(identity.encode()).hexdigest()
    return EmbeddingLookup(cache, encoder, files=ancestry.files)


def _stale_files(files: Iterable[Path]) -> str | None:
    """Return which file was replaced while its old model may still be loaded, in a sentence."""
    try:
        states = {path: state_of(path) for path in files}
    except OSError as error:
        return f"a file of the encoder cannot be read: {error.strerror or error}"
    changed = next((path for path, state in states.items()
                    if _first_seen.setdefault(path, state) != state), None)
    if changed is None:
        return None
    return (f"{changed.name} changed while ComfyUI was running, so its loaded model may be the "
            "old one; restart ComfyUI to keep embeddings of the new one")


def fingerprint() -> str:
    """Return a text that changes when a file above the node's encoder changes; "" if unknown.

    ComfyUI's node cache then runs the node again, as after a change of a widget.
    """
    if lost("files"):
        return ""
    from ..host import graph as host_graph

    running = host_graph.running_prompt()
    if running is None:
        return ""
    ancestry = identify(*running, "clip")
    try:
        return json.dumps(identities_of(ancestry.files))
    except OSError as error:
        return str(error)
