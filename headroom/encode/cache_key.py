"""Which prompts of one encoder are in the disk cache, and under which keys."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.file_identity import identities_of
from .ancestry import identify
from .disk_cache import EmbeddingCache
from .file_watch import SEEN
from .stored_value import Unstorable

KEY_FORMAT = 1


@dataclass
class EmbeddingLookup:
    """The cached embeddings of one encoder.

    `encoder` identifies it, empty if that is impossible. `problem` says why nothing is read from
    or written to the cache, `unwritten` why nothing is written, None where all is well.
    """

    cache: EmbeddingCache
    encoder: str
    problem: str | None = None
    unwritten: str | None = None
    found: dict[str, Any] = field(default_factory=dict)

    def has_all(self, prompts: Iterable[str]) -> bool:
        """Read what the cache has of `prompts`; return whether that is all of them."""
        if self.problem is not None:
            return False
        complete = True
        for prompt in dict.fromkeys(prompts):
            if prompt not in self.found:
                value = self.cache.get(self._key(prompt))
                if value is None:
                    complete = False
                else:
                    self.found[prompt] = value
        return complete

    def store(self, prompt: str, value: Any) -> None:
        """Keep an embedding; what cannot be kept is said in `unwritten` and is no error."""
        if self.problem is not None or self.unwritten is not None:
            return
        try:
            self.cache.put(self._key(prompt), value)
        except Unstorable as error:
            self.unwritten = str(error)
        except OSError as error:
            self.unwritten = f"the disk refused: {error.strerror or error}"

    def _key(self, prompt: str) -> str:
        parts = [KEY_FORMAT, self.encoder, prompt, embeddings_in(prompt)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def embeddings_in(prompt: str) -> list[dict[str, object]]:
    """Return the identities of the textual-inversion files that a prompt may name."""
    if "embedding:" not in prompt:
        return []
    from ..host import files as host_files

    return identities_of(path for path in host_files.embedding_files() if path.stem in prompt)


def look_up(prompt: Any, node_id: str, input: str = "clip") -> EmbeddingLookup:
    """Return the lookup for the encoder on `input` of a node in the running ComfyUI."""
    from ..host import files as host_files
    from ..host import graph as host_graph

    cache = EmbeddingCache(host_files.cache_folder())
    ancestry = identify(prompt, node_id, input)
    if ancestry.problem is not None:
        return EmbeddingLookup(cache, "", ancestry.problem)
    identity = json.dumps([ancestry.digest, host_graph.numerics()])
    encoder = hashlib.sha256(identity.encode()).hexdigest()
    return EmbeddingLookup(cache, encoder, None, _stale_files(ancestry.files))


def _stale_files(files: Iterable[Path]) -> str | None:
    """Say which file was replaced while its model may still be loaded from before, if any."""
    changed = SEEN.changed(files)
    if changed is None:
        return None
    return (
        f"{changed.name} changed while ComfyUI was running, so its loaded model may be the old "
        "one; restart ComfyUI to keep embeddings of the new one"
    )


def fingerprint() -> str:
    """Return what changes when a file above the asked node's encoder does; "" if unknown.

    ComfyUI's node cache then runs the node again, as it does when a widget changes.
    """
    from ..host import graph as host_graph

    running = host_graph.running_prompt()
    if running is None:
        return ""
    ancestry = identify(*running, "clip")
    return json.dumps(identities_of(ancestry.files))
