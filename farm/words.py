"""What the parts of a farm say to each other: plain data that travels between machines."""

from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
LARGEST = 10**15  # of the numbers that a client may send

# How an attempt to run a prompt ended.
Ending = Literal[
    "done", "out of memory", "no room", "refused", "error", "interrupted", "timeout", "lost"
]


def plain(name: str) -> str:
    """Return a name that a file may have, a folder or a deployment of Ray Serve."""
    return "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name)


class FarmError(ValueError):
    """What was asked cannot be done; the message is one sentence for the user."""


@dataclass(frozen=True)
class Asked:
    """A prompt as it was asked for; `key` is the hash of its content, `name` says whence."""

    key: str
    name: str
    prompt: Json
    extra_data: Json
    kind: str
    models: frozenset[str]


@dataclass
class Past:
    """What a prompt went through: servers that must not have it again, losses, errors of its own.

    `ended` counts its attempts that ended on each server, `moved` those that ran out of memory.
    """

    not_on: list[str] = field(default_factory=list)
    lost: int = 0
    errors: int = 0
    moved: int = 0
    ended: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """One attempt: a prompt for one server, under an id that a second look finds again.

    `room_mib` must be there before it begins (0: nobody knows what it needs). `rescue` lets the
    server run it again, guarded, when its memory ends; `guard` guards it from the start. `resumes`
    says that the server perhaps has it already, `abandoned` which ids it is to forget first.
    `elsewhere_mib` is the most room that a server of the farm has (0: nobody guesses). The server
    returns a prompt that by a guess needs more than this server has, but not more than that.
    """

    asked: Asked
    prompt_id: str
    room_mib: float = 0.0
    guard: bool = False
    rescue: bool = False
    elsewhere_mib: float = 0.0
    resumes: bool = False
    abandoned: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """What is known of a server between two prompts, in MiB; None where it does not tell.

    `room_mib` is what a prompt can have: free, or in models that no prompt uses. `url` is where
    the server answers.
    """

    total_mib: float | None = None
    room_mib: float | None = None
    has_headroom: bool = False
    url: str = field(default="", compare=False)


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended, and what it needed (MiB).

    `entry` is what the server's history says, or its answer where it refused the prompt; `attempt`
    the id that it stands under there, which is another where the server itself tried again.
    """

    ending: Ending
    text: str = ""
    facts: Facts | None = None
    needed_mib: float | None = None
    rescued: bool = False
    attempt: str = ""
    entry: Json = field(default_factory=dict)
