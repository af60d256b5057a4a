"""An A2A server in a process that kills itself at its N-th commit, before it is made or directly after.

    python -m tests.a2a_victim STORE_URL N before|after

With N = 0 it lives. The model calls a tool, and then says that it is done. The address is the first line of the output.
"""

import asyncio
import socket
import sys
from typing import Final

from sideband.protocols.a2a import A2aServer, runs
from sideband.protocols.http import serve_app
from sideband.providers.registry import Registry
from sideband.runtime.store import open_store
from sideband.testing import ScriptedModel
from tests.acp_scenes import calling
from tests.dying import die_at_commit

# So that the successor need not wait.
LEASE_SECONDS: Final = 0.2


async def look() -> str:
    """Look."""
    await asyncio.sleep(0)
    return "seen"


async def main(url: str, last: int, moment: str) -> None:
    runs.SWEEP_SECONDS = LEASE_SECONDS  # type: ignore[misc] # in this process only
    model = ScriptedModel([calling("look"), "Done."] * 9)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with open_store(url, lease_seconds=LEASE_SECONDS) as store:
            die_at_commit(store, last, moment)
            options = {"model": model, "tools": [look], "providers": Registry(), "reminders": False}
            async with A2aServer(store, model=model, url=address, options=options) as server:  # type: ignore[arg-type] # a dict
                print(address, flush=True)  # noqa: T201 - for the test
                await serve_app(server.app, listening, stopping=asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
