"""What a server refused, or why none answers, in one sentence for who runs a command."""

import http.client
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager

from .client import PromptInvalid, Unexpected
from .errors import DevError
from .events import Unfinished


@contextmanager
def explained(server: str) -> Iterator[None]:
    """Say in one sentence, as DevError, what a server refused or why none answers."""
    try:
        yield
    except PromptInvalid as error:
        raise DevError(refusal(error)) from error
    except (urllib.error.URLError, ConnectionError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise DevError(
            f"No server answers at {server} ({reason}); start ComfyUI there, or name another "
            "address."
        ) from error
    except Unexpected as error:
        first_line = str(error).split("\n")[0][:200]
        raise DevError(
            f"What answers at {server} is no working ComfyUI: {first_line}"
        ) from error
    except Unfinished as error:
        raise DevError(
            f"{error} It goes on at {server}: stop it there, or wait longer with --timeout SECONDS."
        ) from error
    except TimeoutError as error:
        raise DevError(f"The server at {server} does not answer: {error}.") from error


def refusal(error: PromptInvalid) -> str:
    """The server's refusal, node by node, as one text."""
    details = error.details if isinstance(error.details, dict) else {}
    lines = []
    for node_id, node in (details.get("node_errors") or {}).items():
        for problem in node.get("errors", []):
            reason = f"{problem.get('message')}: {problem.get('details')}"
            lines.append(f"node {node_id} ({node.get('class_type')}): {reason}")
    if not lines:
        problem = details.get("error")
        first_line = str(error.details).strip().split("\n")[0][:200]
        lines = [problem.get("message", "") if isinstance(problem, dict)
                 else f"status {error.status}: {first_line}"]
    return "The server refused the prompt; " + "; ".join(lines)
