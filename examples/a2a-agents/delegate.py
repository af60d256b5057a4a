"""An agent delegates to another one over A2A with a tool, and what it is told meanwhile reaches the other agent, too.

Both run in this program, with scripted models: the worker is a real A2A server on this machine.
"""

import asyncio
import socket

import sideband as sb
from sideband.core.messages import Reply, ToolCall
from sideband.protocols.a2a import A2aServer, connect, delegate_tool
from sideband.protocols.a2a.client import PeerAgent
from sideband.protocols.http import serve_app
from sideband.testing import ScriptedModel

FREEZE = "The release branch is frozen until Monday."
working, told = asyncio.Event(), asyncio.Event()


async def prepare_release() -> str:
    """Prepare the release."""
    working.set()
    await told.wait()
    return "the release notes are written"


async def coordinator(worker: PeerAgent, session: sb.Session) -> None:
    delegation = Reply(text="", tool_calls=(ToolCall(id="d", name="delegate", args={"task": "Release version 7."}),))
    model = ScriptedModel([delegation, "The worker waits for Monday."])
    tool = delegate_tool(worker, session=session, propagate_remote=True)
    running = asyncio.create_task(sb.agent_loop("Release it.", session=session, model=model, tools=[tool]))
    await working.wait()
    # Anything that tells this session something would do: a hook, a watcher, `sideband remind` in a shell.
    await session.remind(FREEZE, dedupe_key="freeze", propagate="all", ttl_turns=5)
    await running
    print(f"the worker answered: {model.requests[1].messages[-1]['content']}")


async def arrival(store: sb.Store) -> None:
    """Let the worker go on when the reminder has reached it, so that this program always prints the same."""
    await working.wait()
    (task,) = (await store.sessions()).sessions
    worker = await store.session(task.session_id)
    async for event in worker.events(kind_prefix="transcript.reminder.queued"):
        print(f"reached the worker: {event.payload['dedupe_key']}")
        break
    told.set()


async def main() -> None:
    calls = Reply(text="", tool_calls=(ToolCall(id="1", name="prepare_release"),))
    model = ScriptedModel([calls, "All is ready, but the branch is frozen."])
    stopping = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with (
            sb.open_store("memory:") as own,
            sb.open_store("memory:") as theirs,
            A2aServer(theirs, model=model, url=url, name="worker", options={"tools": [prepare_release]}) as server,
        ):
            serving = asyncio.create_task(serve_app(server.app, listening, stopping=stopping))
            async with connect(url) as worker:
                await asyncio.gather(coordinator(worker, await own.begin("coordinator")), arrival(theirs))
            stopping.set()
            await serving
    print(f"the worker's last request has the reminder: {FREEZE in model.requests[-1].text}")
    assert FREEZE in model.requests[-1].text


asyncio.run(main())
