"""What a door is made of, wherever it is made: in this process, or in a replica of Ray Serve."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .access import App
from .app import application
from .door import Door
from .errors import Errors, known_errors
from .seat import Work
from .servers import ServerSpec
from .store import Store
from .verdict import Limits
from .worker import Patience, Worker


@dataclass(frozen=True)
class Settings:
    """A door's servers, its folder, and what it lets through."""

    specs: Sequence[ServerSpec]
    patience: Patience
    results: Path
    after_oom: Literal["rescue", "move"] = "rescue"
    token: str = ""
    most_bytes: int = 100 << 20
    limits: Limits = Limits()
    guesses: bool = False
    ray: str = ""
    errors: Errors = field(default_factory=known_errors)

    def worker(self, spec: ServerSpec) -> Worker:
        return Worker(spec, self.patience, self.errors, self.results)

    @property
    def ray_address(self) -> str:
        """Where Ray chooses a server's machine, or ends and starts it by need; "" where nobody."""
        wants = any(spec.is_started and (spec.gpus or spec.resources or spec.idle_seconds)
                    for spec in self.specs)
        return self.ray or ("local" if wants else "")

    def app(
        self, work: Callable[["Settings", ServerSpec], Work], says: Callable[[str], None]
    ) -> App:
        """Return the door's application; FarmError where its store cannot be used."""
        door = Door(
            Store(self.results), {spec.name: work(self, spec) for spec in self.specs},
            says, self.after_oom, self.limits, self.guesses,
            {spec.name for spec in self.specs if spec.idle_seconds})
        return application(door, self.token, self.most_bytes)
