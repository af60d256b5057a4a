"""Lets a process kill itself at its N-th commit, before it is made or directly after."""

import os
import signal
from collections.abc import Sequence
from typing import Any

from sideband.core.state import Decision, ValueT
from sideband.ports import Lease
from sideband.runtime.store import Store


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_commit(store: Store, last: int, moment: str) -> None:
    """Kill this process at its commit number `last`; with 0 it lives."""
    commits = 0
    commit = store.journal.commit

    async def counted(
        session_id: str,
        decide: Decision[ValueT],
        *,
        lease: Lease | None = None,
        receipts: Sequence[str] = (),
    ) -> Any:  # noqa: ANN401 - the value of the decision
        nonlocal commits
        commits += 1
        dies = commits == last
        if dies and moment == "before":
            _die()
        value = await commit(session_id, decide, lease=lease, receipts=receipts)
        if dies:
            _die()
        return value

    store.journal.commit = counted  # type: ignore[method-assign] # the same signature, and counted
