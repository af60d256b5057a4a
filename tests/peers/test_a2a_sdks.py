"""The official SDKs of A2A as clients of our server: Python 1.x and 0.3, and JavaScript, on both bindings."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.peers.a2a_peers import (
    ANSWER,
    BODY,
    DEDUPED,
    EMITTED,
    EXPIRED,
    PLAN,
    REMINDERS,
    WORDS,
    Agent,
    Client,
    a_client,
    a_command,
    an_agent,
    in_time,
    inject,
    state,
)

every_sdk = pytest.mark.parametrize("sdk", ["python", "python-0.3", "javascript"])
every_binding = pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])


class Pair(NamedTuple):
    agent: Agent
    client: Client


@asynccontextmanager
async def a_pair(sdk: str, binding: str, folder: Path) -> AsyncIterator[Pair]:
    """Our server, and a client of it."""
    async with an_agent(folder) as agent, a_client(sdk, agent.url, binding, home=folder) as client:
        yield Pair(agent, client)


@every_sdk
@in_time
async def test_it_finds_the_extension_on_the_card(sdk: str, tmp_path: Path) -> None:
    async with a_pair(sdk, "JSONRPC", tmp_path) as (_, client):
        card = await client.do(card=True)
        [extension] = [one for one in card["capabilities"]["extensions"] if one["uri"] == REMINDERS]
        assert not extension.get("required")
        assert extension["params"]["inject"] is True
        assert extension["params"]["emit"] is True


@in_time
async def test_a_client_of_version_0_3_finds_both_bindings_on_the_card(tmp_path: Path) -> None:
    async with a_pair("python-0.3", "JSONRPC", tmp_path) as (_, client):
        card = await client.do(card=True)
        others = [one["transport"] for one in card.get("additionalInterfaces", [])]
        assert {card["preferredTransport"], *others} == {"JSONRPC", "HTTP+JSON"}


@every_sdk
@in_time
async def test_it_uses_the_server_that_the_command_starts(sdk: str, tmp_path: Path) -> None:
    async with a_command(home=tmp_path) as url, a_client(sdk, url, "JSONRPC", home=tmp_path) as client:
        stream = client.stream(WORDS, REMINDERS)
        task_id = await stream.task_id()
        await stream.end()
        assert stream.states()[-1] == "completed"
        assert stream.said() == ANSWER
        assert state(await client.do(get=task_id)) == "completed"


@every_binding
@every_sdk
@in_time
async def test_it_follows_a_task_to_its_end_without_the_extension(sdk: str, binding: str, tmp_path: Path) -> None:
    async with a_pair(sdk, binding, tmp_path) as (agent, client):
        agent.finish()
        stream = client.stream(WORDS)
        task_id = await stream.task_id()
        await stream.end()
        assert stream.states()[-2:] == ["working", "completed"]
        assert stream.said() == ANSWER
        assert state(await client.do(get=task_id)) == "completed"
        assert [path.endswith("/message:stream") for path in agent.paths[1:]] == [binding == "HTTP+JSON", False]


@every_binding
@every_sdk
@in_time
async def test_it_waits_for_the_end_of_a_task_without_a_stream(sdk: str, binding: str, tmp_path: Path) -> None:
    async with a_pair(sdk, binding, tmp_path) as (agent, client):
        agent.finish()
        task = await client.do(send=WORDS)
        assert state(task) == "completed"
        assert [part["text"] for one in task["artifacts"] for part in one["parts"]] == [ANSWER]


@every_binding
@every_sdk
@in_time
async def test_it_sees_the_life_of_a_reminder_that_is_injected_while_the_task_runs(
    sdk: str, binding: str, tmp_path: Path
) -> None:
    async with a_pair(sdk, binding, tmp_path) as (agent, client):
        stream = client.stream(WORDS, REMINDERS)
        task_id = await stream.task_id()
        await agent.working()
        older = await inject(agent.url, task_id, body="The build on main is green.", dedupeKey="build")
        newer = await inject(agent.url, task_id, body=BODY, dedupeKey="build", ttlTurns=1)
        assert (older["dedupedCount"], newer["dedupedCount"]) == (0, 1)
        agent.finish()
        await stream.end()
        deduped, emitted, expired = stream.notes(DEDUPED, EMITTED, EXPIRED)
        assert [note["method"] for note in (deduped, emitted, expired)] == [DEDUPED, EMITTED, EXPIRED]
        for note in (deduped, emitted, expired):
            assert note["taskId"] == task_id
            assert note["reminder"]["id"] == newer["reminderId"]
        assert deduped["droppedReminderIds"] == [older["reminderId"]]
        assert emitted["reminder"]["body"] == BODY
        assert expired["phase"] == "ttl_expired"
        assert stream.states() == ["submitted", "working", "completed"]
        assert [BODY in request.text for request in agent.model.requests] == [False, True]


@every_binding
@every_sdk
@in_time
async def test_the_stored_task_has_nothing_of_the_reminder(sdk: str, binding: str, tmp_path: Path) -> None:
    async with a_pair(sdk, binding, tmp_path) as (agent, client):
        stream = client.stream(WORDS, REMINDERS)
        task_id = await stream.task_id()
        await agent.working()
        await inject(agent.url, task_id, body=BODY)
        agent.finish()
        await stream.end()
        assert len(stream.notes(EMITTED)) == 1
        task = await client.do(get=task_id)
        assert [part["text"] for message in task["history"] for part in message["parts"]] == [WORDS, PLAN, ANSWER]
        assert BODY not in json.dumps(task)
        assert REMINDERS not in json.dumps(task)


@every_binding
@every_sdk
@in_time
async def test_without_the_extension_it_sees_nothing_of_the_reminder(sdk: str, binding: str, tmp_path: Path) -> None:
    async with a_pair(sdk, binding, tmp_path) as (agent, client):
        stream = client.stream(WORDS)
        task_id = await stream.task_id()
        await agent.working()
        await inject(agent.url, task_id, body=BODY)
        agent.finish()
        await stream.end()
        assert BODY in agent.model.requests[1].text
        assert BODY not in json.dumps(stream.events)
        assert REMINDERS not in json.dumps(stream.events)
        assert stream.states()[-1] == "completed"


@every_binding
@every_sdk
@in_time
async def test_a_second_stream_of_the_task_sees_the_same_reminders_in_the_same_order(
    sdk: str, binding: str, tmp_path: Path
) -> None:
    bodies = [f"{BODY} {number}" for number in range(3)]
    async with a_pair(sdk, binding, tmp_path) as (agent, client):
        first = client.stream(WORDS, REMINDERS)
        task_id = await first.task_id()
        second = client.subscribe(task_id, REMINDERS)
        assert await second.task_id() == task_id
        await agent.working()
        for body in bodies:
            await inject(agent.url, task_id, body=body)
        agent.finish()
        await first.end()
        await second.end()
        assert [note["reminder"]["body"] for note in first.notes(EMITTED)] == bodies
        assert second.notes(DEDUPED, EMITTED, EXPIRED) == first.notes(DEDUPED, EMITTED, EXPIRED)
        assert second.states()[-1] == "completed"


@every_binding
@every_sdk
@in_time
async def test_it_cancels_a_task_that_runs(sdk: str, binding: str, tmp_path: Path) -> None:
    async with a_pair(sdk, binding, tmp_path) as (agent, client):
        stream = client.stream(WORDS, REMINDERS)
        task_id = await stream.task_id()
        await agent.working()
        assert state(await client.do(cancel=task_id)) == "canceled"
        await stream.end()
        assert stream.states()[-1] == "canceled"
        assert state(await client.do(get=task_id)) == "canceled"
