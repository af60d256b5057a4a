"""`sideband acp-proxy` in a process that kills itself at a certain moment.

    python -m tests.proxy_victim MOMENT N ARGUMENT...

MOMENT is `before` or `after` its N-th commit, or `sent`: directly after it has written its N-th frame.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from sideband.cli.acp_proxy import acp_proxy
from sideband.protocols.frames import LineTransport
from sideband.store.sqlite.store import SqliteStore


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying_at(moment: str, last: int) -> None:
    counted = 0

    def is_last() -> bool:
        nonlocal counted
        counted += 1
        return counted == last

    if moment == "sent":
        send = LineTransport.send

        def send_and_die(self: LineTransport, frame: bytes) -> None:
            send(self, frame)
            if is_last():
                _die()

        LineTransport.send = send_and_die  # type: ignore[method-assign] # the same signature
        return
    commit: Callable[..., Awaitable[Any]] = SqliteStore.commit

    async def commit_and_die(self: SqliteStore, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - as they are
        dies = is_last()
        if dies and moment == "before":
            _die()
        value = await commit(self, *args, **options)
        if dies:
            _die()
        return value

    SqliteStore.commit = commit_and_die  # type: ignore[method-assign] # passes everything on


if __name__ == "__main__":
    _dying_at(sys.argv[1], int(sys.argv[2]))
    store, name, *command = sys.argv[3:]
    sys.exit(acp_proxy(*command, store=store, name=name))
