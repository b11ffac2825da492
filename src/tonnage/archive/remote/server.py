"""An archive on a server: its URL, token and local folder, and the HTTP calls to it."""

import http.client
import os
import re
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

from tonnage import __version__
from tonnage.archive.codec import parsed, text_of
from tonnage.archive.token import find_token
from tonnage.archive.url import data_folder, remote_url
from tonnage.atomic import make_private_folder, private_opener
from tonnage.errors import AccessDeniedError, InputError, ServerRejectedError, ServerUnreachableError, TonnageError

__all__ = ["Server", "ask", "call", "read"]

_CONNECTING = 5.0  # seconds
_SILENCE = 30.0  # seconds without a byte after which the server is considered unavailable
_LONGEST_ANSWER = 2**20
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Server:
    """A server, identified by its URL."""

    url: str

    @classmethod
    def of(cls, text: str | None = None) -> "Server":
        """Return the server at a URL, by default $TONNAGE_ARCHIVE."""
        return cls(remote_url(text))

    def __str__(self) -> str:
        return self.url

    @property
    def host(self) -> str:
        """The server's host name or address."""
        return str(urlsplit(self.url).hostname)

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine, so that the token is not sent over a network."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def folder(self) -> Path:
        """The local folder for the mirror of its archive and the outbox."""
        readable = re.sub(r"[^a-z0-9.-]", "_", self.url.partition("://")[2].lower())[:40]
        return data_folder() / "remote" / f"{readable}-{blake2b(self.url.encode(), digest_size=6).hexdigest()}"

    def token(self) -> str | None:
        """Return the token for this server, from $TONNAGE_TOKEN or a file; None if there is none.

        The user's default token file is the secret of servers on this machine, and is never sent to other machines.
        """
        own = self.folder / "token"
        if os.environ.get("TONNAGE_TOKEN") or (self.is_here and not own.exists()):
            return find_token()
        return find_token(own) if own.exists() else None

    def make_folder(self) -> Path:
        """Return the local folder, private to this user; created if necessary."""
        try:
            make_private_folder(self.folder)
            with open(self.folder / "url", "w", encoding="utf-8", opener=private_opener) as file:
                file.write(f"{self.url}\n")
        except OSError as error:
            raise InputError(f"cannot create the folder: {error.strerror}", path=self.folder) from None
        return self.folder


def ask(server: Server, path: str, body: object, *, seconds: float = 60.0) -> Any:  # noqa: ANN401 (any JSON)
    """Post a value as JSON, and return the JSON answer."""
    with call(server, "POST", path, text_of(body).encode(), seconds=seconds) as response:
        answer = b"".join(read(server, response, most=_LONGEST_ANSWER))
    try:
        return parsed(answer)
    except InputError:
        raise _nonsense(server) from None


@contextmanager
def call(
    server: Server,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    query: Sequence[tuple[str, str]] = (),
    seconds: float = 600.0,
) -> Iterator[http.client.HTTPResponse]:
    """Call a server and yield its response once the headers have arrived; the whole call may take `seconds`."""
    target = urlsplit(server.url).path + path + (f"?{urlencode(query)}" if query else "")
    connection, target = _connection(server, target)
    alarm = threading.Timer(seconds, _hang_up, [connection])  # sockets never time out if a byte arrives now and then
    alarm.daemon = True
    alarm.start()
    try:
        with _in_words(server):
            connection.request(method, target, body, _headers(server, body))
            response = connection.getresponse()
        with closing(response):  # the socket is the response's where the server keeps no connection open
            if response.status != 200:
                raise _refusal(server, response)
            yield response
    finally:
        alarm.cancel()
        connection.close()


def read(server: Server, response: http.client.HTTPResponse, *, most: int | None = None) -> Iterator[bytes]:
    """Yield a response's body, piece by piece; raises ServerUnreachableError if the connection is lost."""
    length = 0
    while True:
        with _in_words(server):
            piece = response.read1(2**16)
        if not piece:
            break
        length += len(piece)
        if most is not None and length > most:
            raise _nonsense(server)
        yield piece
    if response.length:  # announced but not sent: read1 does not report it
        raise _away(server, "the connection was lost during the response")


class _Patient:
    """Connects with a short timeout, waits longer for a response, and reads one that comes early."""

    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc] # of http.client's connections
        self.sock.settimeout(_SILENCE)

    def send(self, data: Any) -> None:  # noqa: ANN401 (as http.client has it)
        # A server that stops reading a body may have sent the reason before it closed the connection.
        with suppress(BrokenPipeError, ConnectionResetError):
            super().send(data)  # type: ignore[misc]


class _Plain(_Patient, http.client.HTTPConnection):
    pass


class _Secure(_Patient, http.client.HTTPSConnection):
    pass


def _connection(server: Server, target: str) -> tuple[http.client.HTTPConnection, str]:
    """Return a connection, over a proxy if necessary, and the target to request."""
    parts = urlsplit(server.url)
    secure = parts.scheme == "https"
    make = _Secure if secure else _Plain
    proxy = None if server.is_here or proxy_bypass(server.host) else getproxies().get(parts.scheme)
    if not proxy:
        return make(server.host, parts.port, timeout=_CONNECTING), target
    between = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    connection = make(str(between.hostname), between.port or 8080, timeout=_CONNECTING)
    if secure:
        connection.set_tunnel(server.host, parts.port or 443, _for_proxy(between.username, between.password))
        return connection, target
    return connection, f"http://{parts.netloc}{target}"


def _for_proxy(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    credentials = f"{unquote(user)}:{unquote(password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(credentials.encode()).decode()}"}


def _headers(server: Server, body: bytes | None) -> dict[str, str]:
    token = server.token()
    return {
        "Host": urlsplit(server.url).netloc,
        "User-Agent": f"tonnage/{__version__}",
        "Connection": "close",
        **({"Content-Type": "application/json"} if body is not None else {}),
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }


def _hang_up(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError, AttributeError):  # it may be closed already
        connection.sock.shutdown(socket.SHUT_RDWR)


# Error messages


@contextmanager
def _in_words(server: Server) -> Iterator[None]:
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        problem = f"{server}: its certificate is not trusted: {error.verify_message}"
        raise AccessDeniedError(problem, hint="set SSL_CERT_FILE to a file with your site's certificates") from None
    except TimeoutError:
        raise _away(server, "timed out") from None
    except socket.gaierror as error:
        raise _away(server, f"no such host: {error.strerror}") from None
    except (http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionError) as error:
        refused = isinstance(error, ConnectionRefusedError)
        raise _away(server, "connection refused" if refused else "the connection was lost") from None
    except OSError as error:
        raise _away(server, str(error.strerror or error)[:_SHOWN]) from None
    except (http.client.HTTPException, ValueError) as error:  # not valid HTTP
        raise _away(server, f"its response is not HTTP ({type(error).__name__})") from None


def _away(server: Server, problem: str) -> ServerUnreachableError:
    return ServerUnreachableError(f"{server}: {problem}")


def _nonsense(server: Server) -> ServerUnreachableError:
    return ServerUnreachableError(f"{server}: invalid response", hint="is it tonnage serve?")


def _refusal(server: Server, response: http.client.HTTPResponse) -> TonnageError:
    """Return the error for a response that is not a success."""
    status, facts = response.status, _problem(server, response)
    known = "error" in facts
    message = (
        f"{server}: {_plain(facts['error'])} ({status})" if known else f"{server}: {status} {_plain(response.reason)}"
    )
    hint = _plain(facts["hint"]) if facts.get("hint") else None
    if status in (401, 403):
        file = server.folder / "token"
        hint = f"put the server's token into the variable TONNAGE_TOKEN or the file {file}"
        return AccessDeniedError(message if server.token() else f"{server}: a token is required ({status})", hint=hint)
    if 300 <= status < 400:
        place = _plain(response.headers.get("Location", "nowhere"))
        return AccessDeniedError(f"{server}: redirects to {place}", hint="if that is the archive, pass it to --archive")
    if status == 413 or (status == 422 and known):
        refused = ServerRejectedError(message, hint=hint)
        refused.places = _places(facts.get("refused"))
        return refused
    if status in (408, 425, 429) or status >= 500:
        away = ServerUnreachableError(message, hint=hint)
        away.wait = _wait(response.headers.get("Retry-After"))
        return away
    return AccessDeniedError(message, hint=hint or "is it tonnage serve, and of this version?")


def _problem(server: Server, response: http.client.HTTPResponse) -> dict[str, object]:
    """Return the JSON object in an error response; empty if it is not in the format of tonnage serve."""
    with suppress(TonnageError):
        facts = parsed(b"".join(read(server, response, most=_LONGEST_ANSWER)))
        if isinstance(facts, dict):
            return facts
    return {}


def _plain(text: object) -> str:
    """Return a server's text on one line and not too long, for an error message."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in str(text)).split())[:_SHOWN]


def _places(refused: object) -> dict[int, str] | None:
    if not isinstance(refused, list):
        return None
    found = {}
    for one in refused:
        if not isinstance(one, dict) or type(one.get("place")) is not int:
            return None
        found[one["place"]] = _plain(one.get("error"))
    return found or None


def _wait(text: str | None) -> float | None:
    """Return the seconds to wait according to a Retry-After header, which is a number or a date."""
    if text is None:
        return None
    with suppress(ValueError):
        return max(0.0, min(float(text), 86_400.0)) if text.strip().isdigit() else _until(text)
    return None


def _until(date: str) -> float:
    return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
