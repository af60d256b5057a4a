#!/usr/bin/env python3
"""Runs `make run` as a user does: waits for the address, opens the page, logs in, and ends the server with SIGINT.

The server has to end with exit code 0. Its output is shown if something fails.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any, Final
from urllib.parse import urldefrag

ROOT: Final = Path(__file__).parents[1]
# The set-up may be part of it.
START_SECONDS: Final = 600
ANSWER_SECONDS: Final = 30
LINK: Final = re.compile(r"http://127\.0\.0\.1:\d+/\S*#login=(\S+)")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="sideband-") as folder:
        printed = Path(folder, "output")
        # Nothing of the user's own store and token is touched.
        environment = {**os.environ, "XDG_DATA_HOME": folder, "PYTHONUNBUFFERED": "1"}
        environment.pop("SIDEBAND_STORE", None)
        with printed.open("wb") as output:
            made = subprocess.Popen(
                ["make", "run"],  # noqa: S607 - the make of the user
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            link = _link(made, printed)
            _look_around(link)
            os.kill(_server_of(made.pid), signal.SIGINT)
            code = made.wait(ANSWER_SECONDS)
            if code != 0:
                raise SystemExit(f"make run ended with exit code {code}")  # noqa: TRY301 - shown below, with the output
        except BaseException:
            sys.stderr.write(printed.read_text(encoding="utf-8", errors="replace"))
            if made.poll() is None:
                os.killpg(made.pid, signal.SIGKILL)
                made.wait()
            raise
    print("make run: the page answers, the login works, and SIGINT ends it")  # noqa: T201 - a command line prints
    return 0


def _link(made: subprocess.Popen[bytes], printed: Path) -> "re.Match[str]":
    """The link that the server prints when it is ready."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and made.poll() is None:
        if (link := LINK.search(printed.read_text(encoding="utf-8", errors="replace"))) is not None:
            return link
        time.sleep(0.1)
    raise SystemExit("make run printed no link")


def _look_around(link: "re.Match[str]") -> None:
    address = urldefrag(link[0]).url
    client = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(CookieJar())
    )

    def answer(path: str, body: object = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - the address of the server
            address + path, data=data, headers={"Content-Type": "application/json"} if data else {}
        )
        with client.open(request, timeout=ANSWER_SECONDS) as response:
            content: bytes = response.read()
        return content

    if b"<html" not in answer(""):
        raise SystemExit("the address shows no page")
    answer("api/login", {"code": link[1]})
    sessions: list[Any] = json.loads(answer("api/sessions"))["sessions"]
    if not sessions:
        raise SystemExit("no session was begun")


def _server_of(make: int) -> int:
    """The first program in Python among the processes of make; the rehearsal may have started others below it."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,args="],  # noqa: S607 - the one of the system
        capture_output=True,
        text=True,
        check=True,
    )
    processes = [line.split(maxsplit=2) for line in listing.stdout.splitlines()]
    family = [make]
    for parent in family:
        for pid, ppid, *args in processes:
            if int(ppid) != parent:
                continue
            if args and Path(args[0].split()[0]).name.startswith("python"):
                return int(pid)
            family.append(int(pid))
    raise SystemExit("make run has no process")


if __name__ == "__main__":
    raise SystemExit(main())
