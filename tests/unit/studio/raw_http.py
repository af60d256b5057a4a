"""HTTP requests that no client library would send: every header as it is written, over a socket of its own."""

import socket
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

SECONDS: Final = 30.0


class RawAnswer(NamedTuple):
    """An answer; the names of its headers are in lower case, in the order in which they came."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header that may come once; None if it is absent."""
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, values
        return values[0] if values else None

    @property
    def reason(self) -> str:
        """The word by which programs tell refusals apart."""
        return str(msgspec.json.decode(self.body)["error"]["reason"])


def raw_request(port: int, request: bytes) -> RawAnswer:
    """The answer to these bytes; the connection is closed afterwards."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        # A server may answer, and close, before it has read all of a request that it refuses.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
        return _read_answer(connection, has_body=not request.startswith(b"HEAD "))


def request_bytes(method: str, path: str, headers: tuple[tuple[str, str], ...], body: bytes = b"") -> bytes:
    """A request with exactly these headers, except that it says how long its body is."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if body and not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _read_answer(connection: socket.socket, *, has_body: bool) -> RawAnswer:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65_536)
        assert piece, f"the server said no more after {received!r}"
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = tuple((name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines))
    length = next((int(value) for name, value in headers if name == "content-length"), 0) if has_body else 0
    while len(body) < length:
        piece = connection.recv(65_536)
        assert piece, f"{len(body)} of {length} bytes came"
        body += piece
    return RawAnswer(int(first.split(" ")[1]), headers, body)
