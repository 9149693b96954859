"""Who may ask a door, and how much at once."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse

COOKIE = "farm_token"
Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Access:
    """Stands before an ASGI application: token, origin and size of each request.

    With a `token` every request must have it: as `Authorization: Bearer`, as `X-Farm-Token`, or
    as the cookie that a browser gets which opens the page once with `?token=`.
    """

    def __init__(self, app: App, token: str, most_bytes: int) -> None:
        self._app, self._token, self._most = app, token, most_bytes

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        asked = HTTPConnection(scope)
        status, said = self._refusal(asked)
        if not status:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": said[:100]})
        elif self._opens(asked):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict")
            await answer(scope, receive, send)
        else:
            await JSONResponse({"error": said}, status)(scope, receive, send)

    def _refusal(self, asked: HTTPConnection) -> tuple[int, str]:
        headers = asked.headers
        if self._token and not self._has_token(asked):
            return 401, "This farm wants its token: send the header X-Farm-Token."
        if not _is_own_page(headers.get("origin"), headers.get("host", "")):
            return 403, "Another page's script sent this; open the farm's own page."
        if "transfer-encoding" in headers:
            return 411, "A body is expected to tell its Content-Length."
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most:
            return 413, f"A body of at most {self._most >> 20} MiB is expected (--upload-mib)."
        return 0, ""

    def _has_token(self, asked: HTTPConnection) -> bool:
        scheme, _, bearer = asked.headers.get("authorization", "").partition(" ")
        own = bearer if scheme.lower() == "bearer" else ""
        shown = asked.headers.get("x-farm-token") or own
        return self._is_token(shown.encode("latin-1")) or self._is_token(
            asked.cookies.get(COOKIE, "").encode())

    def _is_token(self, shown: bytes) -> bool:
        return bool(self._token) and hmac.compare_digest(shown, self._token.encode())

    def _opens(self, asked: HTTPConnection) -> bool:
        """Whether a browser opens the page with the token in its address."""
        is_page = asked.scope["method"] == "GET" and asked.scope["path"] == "/"
        return is_page and self._is_token(asked.query_params.get("token", "").encode())


def _is_own_page(origin: str | None, host: str) -> bool:
    """Whether a browser sends this from the door's own page; other programs tell no origin."""
    try:
        return origin is None or urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
