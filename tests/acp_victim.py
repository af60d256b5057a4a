"""`sideband acp` in a process that kills itself at its N-th commit, before it is made or directly after.

    python -m tests.acp_victim STORE_URL N before|after

With N = 0 it lives. The model calls a tool, and then says that it is done.
"""

import asyncio
import sys

from sideband.protocols.acp.agent import AcpAgent
from sideband.protocols.frames import standard_streams
from sideband.providers.registry import Registry
from sideband.runtime.store import open_store
from sideband.testing import ScriptedModel
from tests.acp_scenes import calling
from tests.dying import die_at_commit


async def main(url: str, last: int, moment: str) -> None:
    async with open_store(url) as store:
        die_at_commit(store, last, moment)
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
