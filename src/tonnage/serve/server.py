"""The server process: a socket, uvicorn, and an orderly shutdown."""

import logging
import socket
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import uvicorn
from fastapi import FastAPI

from tonnage.archive import Archive
from tonnage.errors import InputError
from tonnage.serve.app import make_app
from tonnage.serve.limits import Punctual
from tonnage.serve.settings import Settings

__all__ = ["listen", "make_server", "serve"]

_GRACE = 3
_MOST_CONNECTIONS = 500
_BACKLOG = 512
_LONGEST_HEAD = 256 * 1024  # bytes of a request's headers, including the URL


def serve(settings: Settings, ready: Callable[[str, Archive], None], *, verbose: bool = False) -> None:
    """Serve an archive until interrupted; `ready` is called with the address and the archive."""
    with closing(listen(settings)) as listening, Archive.open(settings.archive, create=True) as archive:
        port = int(listening.getsockname()[1])
        app = make_app(replace(settings, port=port), archive)
        logging.basicConfig(
            level=logging.INFO if verbose else logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
        )
        server = make_server(app, verbose=verbose)
        app.state.site.overview.begun()  # a large archive is counted before the first request
        ready(_address(settings.host, port), archive)
        try:
            server.run(sockets=[listening])
        finally:
            app.state.site.close()


def make_server(app: FastAPI, *, http: type[Punctual] = Punctual, verbose: bool = False) -> uvicorn.Server:
    """Return the HTTP server of an application."""
    config = uvicorn.Config(
        app,
        http=http,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        access_log=verbose,
        log_config=None,
        server_header=False,
        proxy_headers=False,  # headers such as X-Forwarded-For are not trusted
        lifespan="off",
        ws="none",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE,
    )
    return uvicorn.Server(config)


def listen(settings: Settings) -> socket.socket:
    """Return a socket that already accepts connections."""
    host, port = settings.host.removeprefix("[").removesuffix("]"), settings.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # The protocol is given because asyncio sets TCP_NODELAY only then; without it, a response may wait for 40 ms.
        listening = socket.socket(found[0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(found[4])
        listening.listen(_BACKLOG)
    except (OSError, UnicodeError, OverflowError) as error:
        message = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        hint = "another server uses this port: --port 0 picks a free one" if "in use" in message else None
        raise InputError(f"cannot listen on {host}, port {port}: {message}", hint=hint) from None
    return listening


def _address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host and not host.startswith("[") else f"http://{host}:{port}/"
