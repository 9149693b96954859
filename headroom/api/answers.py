"""The answers to requests: JSON, and one short sentence for everything that goes wrong."""

import logging
from collections.abc import Awaitable

from aiohttp import web

from ..base.said import NotKnown, Refused, Said, said, said_json, sentence_of
from .requests import MAX_BODY_BYTES, BadRequest

log = logging.getLogger("headroom")

MAX_SENTENCE = 600
# Their texts are sentences for the sender. ValueError: BadRequest, a model that cannot be moved.
SENTENCES = (NotKnown, Refused, ValueError)


async def body_of(request: web.Request, most_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the body; BadRequest if it is broken or far too large."""
    body = bytearray()
    try:
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > most_bytes:
                raise BadRequest(said("Expected a request of at most {most} KiB, but this one is "
                                      "larger.", most=most_bytes // 1024))
    except web.RequestPayloadError as error:
        raise BadRequest(said("Expected a body as the request's headers announce it, but it ends "
                              "early or is encoded in another way.")) from error
    return bytes(body)


async def answered(work: Awaitable[web.Response]) -> web.Response:
    """Return the answer that `work` makes, or one sentence about its error."""
    try:
        return await work
    except SENTENCES as error:
        status = 404 if isinstance(error, NotKnown) else 409 if isinstance(error, Refused) else 400
        return _refusal(sentence_of(error), status)
    except Exception as error:
        log.exception("[Headroom] a request failed")
        return _refusal(failure(error), 409)


def _refusal(sentence: str, status: int) -> web.Response:
    """Return an answer of one sentence, with its key and figures if it has them."""
    keyed = {"said": said_json(sentence)} if isinstance(sentence, Said) else {}
    return web.json_response({"error": shortened(sentence), **keyed}, status=status)


def failure(error: Exception) -> str:
    """Return a sentence for an error of the system, of a driver or of another pack's model."""
    words = getattr(error, "strerror", None) or str(error).strip().split("\n")[0]
    detail = ": ".join(filter(None, (type(error).__name__, shortened(str(words)).rstrip("."))))
    return said("It could not be done ({detail}); the server's log says more.",
                detail=detail)


def shortened(sentence: str) -> str:
    """Return `sentence`, shortened if it quotes something long."""
    return sentence if len(sentence) <= MAX_SENTENCE else f"{sentence[: MAX_SENTENCE - 3]}..."
