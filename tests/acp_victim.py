"""`sideband acp` in a process that kills itself at its N-th commit, before it is made or directly after.

    python -m tests.acp_victim STORE_URL N before|after

With N = 0 it lives. The model calls a tool, and then says that it is done.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from sideband.core.state import Decision, ValueT
from sideband.ports import Lease
from sideband.protocols.acp.agent import AcpAgent
from sideband.protocols.frames import standard_streams
from sideband.providers.registry import Registry
from sideband.runtime.store import open_store
from sideband.testing import ScriptedModel
from tests.acp_scenes import calling


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, last: int, moment: str) -> None:
    commits = 0
    async with open_store(url) as store:
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
        model = ScriptedModel([calling("list_dir"), "Done."] * 9)
        async with (
            standard_streams() as streams,
            AcpAgent(
                store, model=model, options={"model": model, "providers": Registry(), "reminders": False}
            ) as agent,
        ):
            await agent.serve(streams)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
