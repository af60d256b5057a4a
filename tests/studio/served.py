"""`sideband serve` as a process of its own, on a free port, with a home directory of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self
from urllib.parse import urldefrag, urlsplit

import httpx

SIDEBAND: Final = Path(sys.executable).with_name("sideband")
# Far more than it takes; two cores may have other work.
SECONDS: Final = 60.0
# The tests of its project run several times, and watchers wait for files.
REHEARSAL_SECONDS: Final = 120.0
LAST_TURN: Final = 15
LINK: Final = re.compile(r"http://\S+#login=\S+")
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Served:
    """A server that can be ended and started again, on the same port and store.

    `arguments` are those of `sideband serve`. Everything that it prints is kept in a file, from all its lives.
    """

    def __init__(
        self, folder: Path, *arguments: str, store: str | None = None, env: Mapping[str, str] = NOTHING
    ) -> None:
        self.folder = folder
        self.store = store or f"sqlite:///{folder}/store.db"
        self.port = 0
        self._arguments = arguments
        self._env = {
            **os.environ,
            "XDG_DATA_HOME": str(folder / "home"),
            "HOME": str(folder / "home"),
            "PYTHONUNBUFFERED": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            **env,
        }
        self._env.pop("SIDEBAND_STORE", None)
        self._output = folder / "output"
        (folder / "home").mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.link = ""
        """The link that was printed last; it logs in once."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        """Start it, and return when it answers."""
        already = len(self.printed)
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [SIDEBAND, "serve", "--port", str(self.port), "--no-open", "--store", self.store, *self._arguments],
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # What its tools start has to end with it.
                start_new_session=True,
            )
        until = time.monotonic() + SECONDS
        while (link := LINK.search(self.printed, already)) is None:
            assert self._process.poll() is None, self.printed
            assert time.monotonic() < until, self.printed
            time.sleep(0.01)
        self.link = link[0]
        self.port = urlsplit(self.link).port or 0
        self.get("/info")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, and return its exit code."""
        assert self._process is not None
        self._process.send_signal(how)
        code = self._process.wait(SECONDS)
        self._process = None
        return code

    def kill(self) -> None:
        """End it without a chance to write anything, and all that it has started."""
        assert self._process is not None
        # It may have ended by itself.
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    @property
    def printed(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace") if self._output.exists() else ""

    @property
    def url(self) -> str:
        return urldefrag(self.link).url.rstrip("/")

    @property
    def token(self) -> str:
        return (self.folder / "home" / "sideband" / "token").read_text(encoding="utf-8").strip()

    @property
    def client(self) -> httpx.Client:
        """A program of the operator."""
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=SECONDS, trust_env=False
        )

    def get(self, path: str) -> Any:  # noqa: ANN401 - any value of JSON
        with self.client as client:
            return client.get(f"/api{path}").raise_for_status().json()

    def post(self, path: str, body: object) -> Any:  # noqa: ANN401 - any value of JSON
        with self.client as client:
            answer = client.post(f"/api{path}", json=body)
            assert answer.is_success, answer.text
            return answer.json() if answer.content else None

    def new_link(self) -> str:
        url: str = self.post("/links", {})["url"]
        return url

    def timeline(self, session: str) -> dict[str, Any]:
        timeline: dict[str, Any] = self.get(f"/sessions/{session}/timeline")
        return timeline

    # The rehearsal.

    @property
    def rehearsal(self) -> str:
        """The session of the rehearsal."""
        cards = self.get("/sessions")["sessions"]
        return next(str(card["id"]) for card in cards if card.get("rehearsal") and not card.get("parent"))

    def until_rehearsed(self) -> None:
        """Wait until the rehearsal has been played to its end."""
        until = time.monotonic() + REHEARSAL_SECONDS
        while True:
            cards = self.get("/sessions")["sessions"]
            ended = [
                card
                for card in cards
                if card.get("rehearsal") and card["turn"] >= LAST_TURN and card["state"] == "idle"
            ]
            if ended:
                return
            assert time.monotonic() < until, cards
            time.sleep(0.1)
