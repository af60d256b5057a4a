"""The processes that the ACP benchmark talks to over pipes: `python -m benchmarks.acp_servers ROLE ARGUMENTS`."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from sideband.core.limits import Limits

SESSION: Final = "long"
# The text of an update that an agent streams, in bytes.
CHUNK: Final = "x" * 200

# Neither a rate nor a number of pending items is a limit: only the way to the store is measured.
ROOMY: Final = Limits(accept_rate={}, pending_per_session=10**9, pending_per_source={})
_RESULT: Final = {"reminderId": "01981f6b-7d51-7c1d-bb02-0a1b2c3d4e5f", "dedupedCount": 0}

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


# Answering reminders.


async def floor() -> None:
    """Answer every line with the same result: the least that a server of lines on asyncio does."""
    reader, writer = await _standard_streams()
    while line := await reader.readline():
        writer.write(_encode({"jsonrpc": "2.0", "id": _decode(line)["id"], "result": _RESULT}) + b"\n")


async def agent(store_url: str, turns: str) -> None:
    """Our agent, without limits; its store has a session of that many turns."""
    # Imported here, so that the other roles do not load what they do not use.
    from benchmarks.updates import committing, turn_events  # noqa: PLC0415 - see above
    from sideband.protocols.acp.agent import AcpAgent  # noqa: PLC0415 - see above
    from sideband.protocols.frames import standard_streams  # noqa: PLC0415 - see above
    from sideband.runtime.store import open_store  # noqa: PLC0415 - see above

    async with (
        standard_streams() as streams,
        open_store(store_url, limits=ROOMY) as store,
        AcpAgent(store, principal="editor") as served,
    ):
        session = await store.session(SESSION)
        for number in range(1, int(turns) + 1):
            await session.talk.write(committing(turn_events(number)))
        await served.serve(streams)


async def sdk() -> None:
    """An agent on the official SDK that answers an extension method with the same result."""
    import acp  # noqa: PLC0415 - only this role needs it, and it takes a second to load

    class Sdk:
        async def initialize(self, **_: Any) -> acp.InitializeResponse:  # noqa: ANN401 - of the SDK
            return acp.InitializeResponse(protocol_version=1)

        async def ext_method(self, _method: str, _params: dict[str, Any]) -> dict[str, Any]:
            return _RESULT

    await acp.run_agent(Sdk())  # type: ignore[arg-type]  # the SDK looks up the methods that there are


# Forwarding.


async def forwarder(*command: str) -> None:
    """Start the command, and copy the lines of both directions."""
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    reader, writer = await _standard_streams()
    answers = asyncio.ensure_future(_copy(process.stdout, writer))
    await _copy(reader, process.stdin)
    process.stdin.close()
    await answers
    await process.wait()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
        await writer.drain()


def chatter() -> None:
    """An agent that answers a prompt with as many updates as the prompt says, as fast as they are taken."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": CHUNK}}
    chunk = _line(method="session/update", params={"sessionId": SESSION, "update": update})
    results: dict[str, dict[str, Any]] = {
        "initialize": {"protocolVersion": 1, "agentCapabilities": {}},
        "session/new": {"sessionId": SESSION},
        "session/prompt": {"stopReason": "end_turn"},
    }
    for line in sys.stdin.buffer:
        message = _decode(line)
        if message["method"] == "session/prompt":
            _write(chunk * int(message["params"]["prompt"][0]["text"]))
        _write(_line(id=message["id"], result=results.get(message["method"], {})))


def _line(**members: object) -> bytes:
    return _encode({"jsonrpc": "2.0", **members}) + b"\n"


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


async def _standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sys.stdout
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


_SERVERS: Final[dict[str, Callable[..., Awaitable[None]]]] = {
    "floor": floor,
    "agent": agent,
    "sdk": sdk,
    "forwarder": forwarder,
}

if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    if role == "chatter":
        chatter()
    else:
        asyncio.run(_SERVERS[role](*arguments))  # type: ignore[arg-type]  # each is a coroutine function
