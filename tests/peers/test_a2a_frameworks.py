"""Agent frameworks that delegate to our server: the ADK on version 1.0 of A2A, Strands Agents on version 0.3."""

import json
from pathlib import Path

from tests.peers.a2a_peers import (
    ANSWER,
    BODY,
    EMITTED,
    REMINDERS,
    WORDS,
    a_client,
    an_agent,
    in_time,
    inject,
    rpc,
    state,
)


@in_time
async def test_the_adk_has_a_reminder_of_the_running_task_in_its_custom_metadata(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent, a_client("adk", agent.url, REMINDERS, home=tmp_path) as client:
        stream = client.stream(WORDS)
        await stream.until(lambda: stream.events)
        task_id = stream.events[0]["custom_metadata"]["a2a:task_id"]
        await agent.working()
        accepted = await inject(agent.url, task_id, body=BODY)
        agent.finish()
        assert await stream.end() == ANSWER
        # The ADK merges the metadata of all updates into the task that it reports; the last one replaces the others.
        seen = [event["custom_metadata"]["a2a:response"].get("metadata", {}) for event in stream.events]
        notes = [metadata[REMINDERS] for metadata in seen if REMINDERS in metadata]
        assert {note["reminder"]["id"] for note in notes} == {accepted["reminderId"]}
        assert BODY in {note["reminder"]["body"] for note in notes if note["method"] == EMITTED}
        assert not any(BODY in event["content"] for event in stream.events)
        task = await rpc(agent.url, "GetTask", id=task_id)
        assert state(task) == "completed"
        assert BODY not in json.dumps(task)


@in_time
async def test_the_adk_goes_on_in_the_context_of_a_task_that_has_ended_without_its_reminders(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent, a_client("adk", agent.url, REMINDERS, home=tmp_path) as client:
        first = client.stream(WORDS)
        await first.until(lambda: first.events)
        await agent.working()
        await inject(agent.url, first.events[0]["custom_metadata"]["a2a:task_id"], body=BODY)
        agent.finish()
        assert await first.end() == ANSWER
        second = client.stream("Thank you.")
        assert await second.end() == ANSWER
        before, after = (stream.events[-1]["custom_metadata"] for stream in (first, second))
        assert before["a2a:context_id"] == after["a2a:context_id"]
        assert before["a2a:task_id"] != after["a2a:task_id"]
        assert [WORDS in request.text for request in agent.model.requests] == [True, True, True]
        assert [BODY in request.text for request in agent.model.requests] == [False, True, False]


@in_time
async def test_strands_gets_the_answer_and_hands_out_the_updates_with_a_reminder(tmp_path: Path) -> None:
    async with an_agent(tmp_path) as agent, a_client("strands", agent.url, home=tmp_path) as client:
        stream = client.stream(WORDS, REMINDERS)
        task_id = await stream.task_id()
        await agent.working()
        accepted = await inject(agent.url, task_id, body=BODY)
        agent.finish()
        assert await stream.end() == ANSWER
        [note] = stream.notes(EMITTED)
        assert note["reminder"]["id"] == accepted["reminderId"]
        assert stream.states()[-2:] == ["working", "completed"]
        task = await rpc(agent.url, "GetTask", id=task_id)
        assert BODY not in json.dumps(task)
