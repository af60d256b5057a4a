"""What `sideband serve` serves, on a socket, in a thread of this process."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from sideband.cli.serve import _Server, _Wanted
from sideband.runtime.home import operator_token
from tests.unit.studio.raw_http import RawAnswer, raw_request, request_bytes

SECONDS: Final = 30.0


class StudioThread:
    """A running server with one session."""

    def __init__(self, folder: Path, peers: str | None) -> None:
        self.folder = folder
        self.peers = peers
        self.token = operator_token()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()
        # The socket takes the request before the server runs.
        self.session: str = self.program("POST", "/api/sessions", {})["id"]
        code = self.new_code()
        login = raw_request(
            self.port,
            request_bytes(
                "POST",
                "/api/login",
                (("Host", f"127.0.0.1:{self.port}"), ("Content-Type", "application/json")),
                json.dumps({"code": code}).encode(),
            ),
        )
        self.cookie: tuple[str, str] = ("Cookie", (login.header("set-cookie") or "").partition(";")[0])
        """The header of a browser that has logged in."""

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, self._listening:
            runner.run(self._serve())

    async def _serve(self) -> None:
        wanted = _Wanted(
            host="127.0.0.1",
            port=self.port,
            store_url=f"sqlite:///{self.folder}/store.db",
            model="scripted:Done.",
            workspace=str(self.folder),
            mcp_config=None,
            peers=self.peers,
            has_rehearsal=False,
            is_fast=True,
            opens=False,
        )
        async with AsyncExitStack() as stack:
            assert wanted.store_url is not None
            server = _Server(wanted, wanted.store_url, f"http://127.0.0.1:{self.port}", stack)
            await server.run(self._listening, self._stopping)

    def program(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - any value of JSON
        """The answer to a program of the operator."""
        headers = (
            ("Host", f"127.0.0.1:{self.port}"),
            ("Authorization", f"Bearer {self.token}"),
            ("Content-Type", "application/json"),
        )
        data = b"" if body is None else json.dumps(body).encode()
        answer: RawAnswer = raw_request(self.port, request_bytes(method, path, headers, data))
        assert answer.status in (200, 201), answer
        return json.loads(answer.body)

    def new_code(self) -> str:
        """A code that logs in once."""
        url: str = self.program("POST", "/api/links", {})["url"]
        return url.partition("#login=")[2]

    def reminders(self) -> int:
        """The number of pending items of the session."""
        return len(self.program("GET", f"/api/sessions/{self.session}/pending")["pending"])


@contextmanager
def a_studio_thread(folder: Path, *, peers: str | None = None) -> Iterator[StudioThread]:
    """A server that is there for this block, with a home directory in this folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder))
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SIDEBAND_MODEL", "SIDEBAND_STORE"):
            patch.delenv(name, raising=False)
        running = StudioThread(folder, peers)
        running.start()
        try:
            yield running
        finally:
            running.stop()
