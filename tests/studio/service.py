"""A model service that the tests answer themselves: each request waits until a reply is given."""

import queue
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import msgspec

from sideband.core.messages import ToolCall
from tests.loopback import sse
from tests.service_replies import chat_events

SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.02
MODEL: Final = "openai-compatible:tested"


class ModelService:
    """Chat Completions on this machine. The bodies of all requests are kept as they arrived."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.replies: queue.Queue[Sequence[bytes]] = queue.Queue()
        self.url = ""

    @property
    def env(self) -> dict[str, str]:
        """The variables with which a server uses this service."""
        return {"OPENAI_COMPATIBLE_URL": self.url, "OPENAI_COMPATIBLE_KEY": "none"}

    def reply(self, text: str = "", *calls: ToolCall) -> None:
        """Answer the request that waits longest, or the next one."""
        self.replies.put(sse(*chat_events(text, calls), done=True))

    def request(self, number: int) -> str:
        """The body of a request, the first is 1, as soon as it has arrived."""
        until = time.monotonic() + SECONDS
        while len(self.bodies) < number:
            assert time.monotonic() < until, f"{len(self.bodies)} requests came, not {number}"
            time.sleep(_LOOK_SECONDS)
        return self.bodies[number - 1].decode()

    def said(self, number: int) -> list[str]:
        """The texts of the messages in a request."""
        messages: list[dict[str, Any]] = msgspec.json.decode(self.request(number))["messages"]
        return [_text(message.get("content")) for message in messages]

    @property
    def handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                service.bodies.append(self.rfile.read(int(self.headers["content-length"])))
                reply = service.take(self.connection)
                if reply is None:
                    self.close_connection = True
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for event in (*reply, b""):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))

            def log_message(self, *_said: object) -> None:
                """Nobody reads it."""

        return Handler

    def take(self, connection: socket.socket) -> Sequence[bytes] | None:
        """The next reply; None if the client has gone."""
        while True:
            try:
                return self.replies.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if select.select([connection], [], [], 0)[0] and not connection.recv(1, socket.MSG_PEEK):
                    return None


def _text(content: object) -> str:
    match content:
        case str():
            return content
        case list():
            return "\n".join(str(block.get("text", "")) for block in content)
        case _:
            return ""


@contextmanager
def a_model_service() -> Iterator[ModelService]:
    """A service that is there for this block."""
    service = ModelService()
    server = ThreadingHTTPServer(("127.0.0.1", 0), service.handler)
    server.daemon_threads = True
    service.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
