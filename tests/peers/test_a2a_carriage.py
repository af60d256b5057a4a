"""How reminders travel: in the metadata of status updates, which every official client hands out, and as separate frames,
which end the stream of most official clients. Therefore only a caller that asks for separate frames gets them.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import httpx
import pytest

from tests.peers.a2a_peers import (
    BODY,
    EMITTED,
    RAW,
    REMINDERS,
    WORDS,
    Failed,
    Stream,
    a_client,
    an_agent,
    in_time,
    inject,
    state,
)
from tests.peers.clients import Json

every_sdk = pytest.mark.parametrize("sdk", ["python", "python-0.3", "javascript"])


class Dialect(NamedTuple):
    """How a version of A2A sends a message over JSON-RPC."""

    method: str
    headers: Json
    role: str
    part: Json


DIALECTS: Final = {
    "1.0": Dialect("SendStreamingMessage", {"A2A-Version": "1.0"}, "ROLE_USER", {"text": WORDS}),
    "0.3": Dialect("message/stream", {}, "user", {"kind": "text", "text": WORDS}),
}
HEADERS: Final = {"1.0": "A2A-Extensions", "0.3": "X-A2A-Extensions"}
every_version = pytest.mark.parametrize("version", DIALECTS)


async def frames(url: str, version: str, *extensions: str) -> AsyncIterator[Json]:
    """The frames of the stream of a task, read without any SDK."""
    dialect = DIALECTS[version]
    message = {"messageId": str(uuid4()), "role": dialect.role, "parts": [dialect.part]}
    request = {"jsonrpc": "2.0", "id": 7, "method": dialect.method, "params": {"message": message}}
    headers = {**dialect.headers, HEADERS[version]: ", ".join(extensions)}
    async with (
        httpx.AsyncClient(timeout=50) as http,
        http.stream("POST", url, json=request, headers=headers) as response,
    ):
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                yield json.loads(line.removeprefix("data:"))


def task_of(frame: Json) -> str:
    """The id of the task in the first frame of a stream."""
    result = frame["result"]
    return str(result.get("task", result)["id"])


@every_version
@every_sdk
@in_time
async def test_separate_frames_reach_only_the_caller_that_activated_them(
    sdk: str, version: str, tmp_path: Path
) -> None:
    async with an_agent(tmp_path) as agent, a_client(sdk, agent.url, "JSONRPC", home=tmp_path) as client:
        received: list[Json] = []
        stream: Stream | None = None
        async for frame in frames(agent.url, version, REMINDERS, RAW):
            received.append(frame)
            if stream is None:
                task_id = task_of(frame)
                stream = client.subscribe(task_id, REMINDERS)
                await stream.task_id()
                await agent.working()
                await inject(agent.url, task_id, body=BODY, dedupeKey="build")
                agent.finish()
        assert stream is not None
        await stream.end()
        assert {frame["id"] for frame in received if "method" not in frame} == {7}
        [separate] = [frame for frame in received if frame.get("method") == EMITTED]
        assert "id" not in separate
        assert separate["params"]["taskId"] == task_id
        assert separate["params"]["reminder"]["body"] == BODY
        assert type(separate["params"]["reminder"]["firedAtTurn"]) is int
        [note] = stream.notes(EMITTED)
        assert note == {"method": EMITTED, **separate["params"]}
        assert stream.states()[-1] == "completed"


@every_version
@in_time
async def test_a_caller_that_did_not_activate_separate_frames_gets_responses_only(version: str, tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent:
        received: list[Json] = []
        async for frame in frames(agent.url, version, REMINDERS):
            received.append(frame)
            if len(received) == 1:
                await agent.working()
                await inject(agent.url, task_of(frame), body=BODY)
                agent.finish()
        assert BODY in json.dumps(received)
        assert all(frame["id"] == 7 and "result" in frame for frame in received)


@pytest.mark.parametrize(
    ("sdk", "binding", "survives"),
    [
        pytest.param("python", "JSONRPC", False, id="python-fails-on-json-rpc"),
        pytest.param("python", "HTTP+JSON", True, id="python-hands-out-an-empty-event-on-http-json"),
        pytest.param("python-0.3", "JSONRPC", False, id="python-0.3-fails-on-json-rpc"),
        pytest.param("python-0.3", "HTTP+JSON", False, id="python-0.3-fails-on-http-json"),
        pytest.param("javascript", "JSONRPC", False, id="javascript-fails-on-json-rpc"),
        pytest.param("javascript", "HTTP+JSON", True, id="javascript-hands-out-an-empty-event-on-http-json"),
    ],
)
@in_time
async def test_an_official_client_that_activates_separate_frames_may_lose_its_stream_but_not_the_task(
    sdk: str,
    binding: str,
    survives: bool,  # noqa: FBT001 - a parameter of the table
    tmp_path: Path,
) -> None:
    async with an_agent(tmp_path) as agent, a_client(sdk, agent.url, binding, home=tmp_path) as client:
        stream = client.stream(WORDS, REMINDERS, RAW)
        task_id = await stream.task_id()
        other = client.subscribe(task_id)
        await other.task_id()
        await agent.working()
        await inject(agent.url, task_id, body=BODY)
        agent.finish()
        if survives:
            await stream.end()
            assert {} in stream.events
        else:
            with pytest.raises(Failed):
                await stream.end()
        await other.end()
        assert {} not in other.events
        assert state(await client.do(get=task_id)) == "completed"
