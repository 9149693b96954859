"""Who may ask a door, and how much at once."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse

COOKIE = "farm_token"
HEADER = b"x-farm-token"
Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Guard:
    """Stands before an ASGI application: token, origin and size of each request.

    With a `token` every request must have it: as `Authorization: Bearer`, as `X-Farm-Token`, or
    as the cookie that a browser gets which opens the page once with `?token=`.
    """

    def __init__(self, app: App, token: str, most_bytes: int) -> None:
        self._app, self._token, self._most = app, token, most_bytes

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        status, said = self._refusal(scope, headers)
        if not status:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": said[:100]})
        elif self._opens(scope):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict")
            await answer(scope, receive, send)
        else:
            await JSONResponse({"error": said}, status)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[int, str]:
        if self._token and not self._has_token(headers):
            return 401, "This farm wants its token: send the header X-Farm-Token."
        if not _is_own_page(headers):
            return 403, "Another page's script sent this; open the farm's own page."
        if b"transfer-encoding" in headers:
            return 411, "A body is expected to tell its Content-Length."
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._most:
            return 413, f"A body of at most {self._most >> 20} MiB is expected (--upload-mib)."
        return 0, ""

    def _has_token(self, headers: Mapping[bytes, bytes]) -> bool:
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        cookies = cookie_parser(headers.get(b"cookie", b"").decode("latin-1"))
        shown = [headers.get(HEADER, b""), bearer if scheme.lower() == b"bearer" else b"",
                 cookies.get(COOKIE, "").encode()]
        return any(self._is_token(one) for one in shown)

    def _is_token(self, shown: bytes) -> bool:
        return bool(self._token) and hmac.compare_digest(shown, self._token.encode())

    def _opens(self, scope: Scope) -> bool:
        """Whether a browser opens the page with the token in its address."""
        shown = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])
        is_page = scope["method"] == "GET" and scope["path"] == "/"
        return is_page and self._is_token(shown[0].encode())


def _is_own_page(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser sends this from the door's own page; other programs tell no origin."""
    origin = headers.get(b"origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == headers.get(b"host", b"").lower()
    except ValueError:
        return False
