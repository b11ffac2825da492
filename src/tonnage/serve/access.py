"""Access control: the token, the login cookie, the server's host names, and the security headers.

Clients send ``Authorization: Bearer TOKEN``, or are logged in with a cookie. Since a browser also sends cookies with
requests made by other sites, the cookie allows writing only from our own pages. A public server lets anyone read.
"""

import hashlib
import hmac
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlsplit

from fastapi import Security
from fastapi.security import HTTPBearer
from starlette.datastructures import MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tonnage.serve.responses import refuse, wants_page
from tonnage.serve.settings import Settings

__all__ = ["COOKIE", "Access", "Guard", "cookie_value", "token_wanted"]

COOKIE = "tonnage"
_READING = ("GET", "HEAD", "OPTIONS")
_FOR_ALL = ("/login", "/static/")  # needed before logging in
_QUESTIONS = ("/login", "/api/past")  # use POST, but store nothing and take little computation
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

token_wanted = Security(HTTPBearer(auto_error=False, description="The server's token."))
"""For a route's `dependencies`: makes the OpenAPI description say that it needs the token. `Guard` checks it."""


def cookie_value(token: str) -> str:
    """Return the value of the login cookie: proof that the client knew the token, without revealing it."""
    return hmac.digest(token.encode(), b"tonnage: logged in", hashlib.sha256).hex()


class Access:
    """What a request's headers say about the client."""

    def __init__(self, settings: Settings, headers: Mapping[bytes, bytes]) -> None:
        self._settings = settings
        self._headers = headers

    @property
    def named(self) -> bool:
        """Whether a token was sent, right or wrong."""
        return b"authorization" in self._headers

    @property
    def by_token(self) -> bool:
        """Whether the right token was sent."""
        kind, _, token = self._headers.get(b"authorization", b"").partition(b" ")
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._settings.token.encode())

    @property
    def by_cookie(self) -> bool:
        """Whether the browser is logged in."""
        try:
            found = SimpleCookie(self._headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
        except CookieError:
            return False
        right = cookie_value(self._settings.token)
        return found is not None and hmac.compare_digest(found.value.encode(), right.encode())

    @property
    def from_here(self) -> bool:
        """Whether the browser says that the request comes from one of our own pages."""
        site = self._headers.get(b"sec-fetch-site")
        if site is not None:
            return site == b"same-origin"
        origin = urlsplit(self._headers.get(b"origin", b"").decode("latin-1"))
        return bool(origin.netloc) and origin.netloc.encode("latin-1") == self._headers.get(b"host")


class Guard:
    """Middleware that checks every request first, and adds security headers to every response."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                # Unless a route says otherwise, caches must not store what needs the token.
                headers.setdefault("Cache-Control", "no-cache" if self._is_open(scope) else "no-store")
            await send(message)

        problem = self._wrong_host(scope) or _wrong_head(scope)
        if problem:
            return await refuse(scope, receive, safely, *problem)
        return await self._checked(scope, receive, safely)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        access = Access(self._settings, dict(scope["headers"]))
        reading = scope["method"] in _READING or scope["path"] in _QUESTIONS
        if access.by_token or (reading and (self._is_open(scope) or access.by_cookie)):
            return await self._app(scope, receive, send)
        if access.by_cookie and not access.named:
            if access.from_here:
                return await self._app(scope, receive, send)
            hint = "the browser says that the request comes from another site; scripts send Authorization: Bearer TOKEN"
            return await refuse(scope, receive, send, 403, "only pages of this server may write", hint)
        if reading and wants_page(scope):
            query = scope["query_string"].decode("latin-1")
            wanted = f"{scope['path']}?{query}" if query else str(scope["path"])
            answer = RedirectResponse(f"/login?next={quote(wanted)}", 303)
            return await answer(scope, receive, send)
        error = "the token is wrong" if access.named else "the token is missing"
        hint = "send Authorization: Bearer TOKEN; the server printed at its start where the token is"
        return await refuse(scope, receive, send, 401, error, hint, {"WWW-Authenticate": "Bearer"})

    def _is_open(self, scope: Scope) -> bool:
        """Whether anyone may read this path."""
        return self._settings.public or str(scope["path"]).startswith(_FOR_ALL)

    def _wrong_host(self, scope: Scope) -> tuple[int, str, str | None] | None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1:
            return 400, "a request must have exactly one Host header", None
        text = hosts[0].decode("latin-1")
        name = text.rpartition(":")[0] if text.rpartition(":")[2].isdigit() and ":" in text else text
        if self._settings.called_by(name):
            return None
        # DNS rebinding: another name points at this address, so that a browser takes its pages and ours for one site.
        return 421, f"this server is not called {name}", "to allow this name: tonnage serve --allow-host NAME"


def _wrong_head(scope: Scope) -> tuple[int, str, str | None] | None:
    if "\0" in scope["path"]:
        return 400, "the URL contains a NUL", None
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
        # Request smuggling: a proxy may trust one header and we the other, so that a body is taken for a request.
        return 400, "Content-Length and Transfer-Encoding cannot be combined", None
    return None
