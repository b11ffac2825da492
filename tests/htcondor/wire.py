"""How the stand-in's processes talk to its schedd: one line of JSON there, one back."""

import json
import socket
from pathlib import Path
from typing import Any

from tests.deadlines import HANGS

__all__ = ["ADDRESS", "SOCKET", "ask", "read_request", "send_answer"]

ADDRESS = "<127.0.0.1:9618?addrs=127.0.0.1-9618&alias=standin.example.org&noUDP&sock=schedd_1_standin>"
SOCKET = "schedd"


def ask(folder: Path, /, **request: Any) -> Any:
    """Send the schedd of a pool a request, and return its answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(HANGS)
        connection.connect(str(folder / SOCKET))
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(_line(connection))
    if "error" in answer:
        raise LookupError(answer["error"])
    return answer["answer"]


def read_request(connection: socket.socket) -> dict[str, Any]:
    """Return what is asked."""
    connection.settimeout(HANGS)
    request: dict[str, Any] = json.loads(_line(connection))
    return request


def send_answer(connection: socket.socket, **answer: Any) -> None:
    """Send what is to be said: an answer or an error."""
    connection.sendall(json.dumps(answer).encode() + b"\n")


def _line(connection: socket.socket) -> bytes:
    pieces = [b""]
    while not pieces[-1].endswith(b"\n"):
        pieces.append(connection.recv(1 << 16))
        if not pieces[-1]:
            raise ConnectionError("the connection ended early")
    return b"".join(pieces)
