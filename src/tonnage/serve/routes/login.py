"""Logging in: the user enters the token once, then the browser has a cookie."""

import hmac
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tonnage.serve.access import COOKIE, cookie_value
from tonnage.serve.pages import render
from tonnage.serve.settings import Site, site_of

__all__ = ["router"]

router = APIRouter(include_in_schema=False)
_MONTH = 30 * 24 * 3600


@router.get("/login")
def ask(site: Annotated[Site, Depends(site_of)], next: str = "/") -> HTMLResponse:
    """Ask for the token."""
    return HTMLResponse(_page(site, next, wrong=False))


@router.post("/login")
def log_in(
    request: Request,
    site: Annotated[Site, Depends(site_of)],
    token: Annotated[str, Form()],
    next: Annotated[str, Form()] = "/",
) -> Response:
    """Set the cookie if the token is right."""
    if not hmac.compare_digest(token.strip().encode(), site.settings.token.encode()):
        return HTMLResponse(_page(site, next, wrong=True), 403)
    answer = RedirectResponse(_own(next), 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(
        COOKIE, cookie_value(site.settings.token), _MONTH, httponly=True, samesite="strict", secure=secure
    )
    return answer


@router.post("/logout")
def log_out() -> Response:
    """Delete the cookie."""
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _page(site: Site, next: str, *, wrong: bool) -> str:
    return render("login.html", public=site.settings.public, next=_own(next), wrong=wrong)


def _own(path: str) -> str:
    """Return a path on this server only, so that a link from another site cannot redirect back there."""
    own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if own else "/"
