"""A coordinator gives a task to a worker over A2A, and tells it while it works that its dependency has merged.

Both run in this program, with scripted models: the worker is a real A2A server on this machine. The worker's next request
has the reminder, and the transcript of its task does not.
"""

import asyncio
import socket

import sideband as sb
from sideband.core.messages import Reply, ToolCall
from sideband.protocols.a2a import A2aServer, connect
from sideband.protocols.a2a.client import CarriedEmitted, PeerArtifact
from sideband.protocols.http import serve_app
from sideband.testing import ScriptedModel

MERGED = "The pull request that you depend on has merged; rebase before you test again."
testing, told = asyncio.Event(), asyncio.Event()


async def run_tests() -> str:
    """Run the tests of the branch."""
    testing.set()
    await told.wait()
    return "2 tests fail: the new function of the other pull request is missing"


async def coordinator(url: str) -> None:
    async with connect(url) as worker:
        task = await worker.start("Make the tests of the branch pass.")
        await testing.wait()
        reminded = await worker.remind(task.id, MERGED, dedupe_key="upstream:pr-1234", ttl_turns=2)
        print(f"the reminder: {reminded.route}")
        async for event in worker.follow(task.id):
            # Now the tests of the worker end, so that it asks its model what to do next.
            told.set()
            if isinstance(event, CarriedEmitted):
                print(f"shown to the worker's model in turn {event.metadata['sideband']['turn']}")
            elif isinstance(event, PeerArtifact):
                print(f"the worker says: {event.text}")
        ended = await worker.get(task.id)
    transcript = str(ended.details)
    print(f"the task is {ended.state}; its transcript has the reminder: {MERGED in transcript}")
    assert MERGED not in transcript


async def main() -> None:
    calls = Reply(text="I run the tests.", tool_calls=(ToolCall(id="1", name="run_tests"),))
    model = ScriptedModel([calls, "I have rebased, and the tests pass."])
    stopping = asyncio.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with (
            sb.open_store("memory:") as store,
            A2aServer(store, model=model, url=url, name="worker", options={"tools": [run_tests]}) as server,
        ):
            serving = asyncio.create_task(serve_app(server.app, listening, stopping=stopping))
            await coordinator(url)
            stopping.set()
            await serving
    first, second = model.requests
    print(f"the worker's requests have the reminder: {MERGED in first.text}, {MERGED in second.text}")
    assert MERGED not in first.text
    assert MERGED in second.text


asyncio.run(main())
