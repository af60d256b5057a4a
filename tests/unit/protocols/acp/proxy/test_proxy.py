"""The ACP proxy when something fails, floods or is odd: the conversation of editor and agent goes on."""

import logging
from pathlib import Path

import pytest

from sideband.core.errors import SessionBusy
from sideband.runtime.handover import HandOver
from sideband.runtime.store import open_store
from tests.acp_agents import in_time
from tests.proxied import NAME, a_proxy, an_open_session, text_block, texts

RED = "The build is red."


@in_time
async def test_a_store_that_fails_does_not_stop_the_conversation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with an_open_session(tmp_path) as stage:
        await stage.remind(RED)
        prompt = await stage.prompt("one")
        await stage.store.close()
        await stage.end(prompt)
        assert await stage.turn("two") == ["two"]
        refused = await stage.ask("session/inject_reminder", sessionId="s1", body="x")
        stage.agent.says("s1", "compaction_update", compactionId="c", status="completed")
        await stage.editor.update("compaction_update")
    assert refused["error"]["code"] == -32603
    assert "closed" not in refused["error"]["message"]
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("was not recorded" in line for line in told)
    assert any("hands nothing over" in line for line in told)


@in_time
async def test_an_id_that_no_store_can_hold_belongs_to_a_session_without_reminders(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_proxy(tmp_path) as stage:
        await stage.initialize({"protocolVersion": 1})
        session_id = await stage.open("x" * 5_000)
        assert await stage.turn("go", session_id) == ["go"]
        refused = await stage.ask("session/inject_reminder", sessionId=session_id, body="x")
    assert refused["error"]["code"] == -32002
    assert "gets no reminders" in caplog.text


@in_time
async def test_a_flood_of_frames_arrives_whole_and_in_order(tmp_path: Path) -> None:
    async with an_open_session(tmp_path) as stage:
        prompt = await stage.prompt()
        for number in range(5_000):
            stage.agent.says("s1", "agent_message_chunk", content=text_block(str(number)))
        stage.agent.answers(prompt, {"stopReason": "end_turn"})
        await stage.editor.answer_to(prompt["id"])
        numbers = [int(update["content"]["text"]) for update in stage.editor.updates("agent_message_chunk")]
    assert numbers == list(range(5_000))


@in_time
async def test_a_reminder_without_a_session_id_goes_to_the_only_session(tmp_path: Path) -> None:
    async with an_open_session(tmp_path) as stage:
        stage.editor.call("session/remind", {"body": RED})
        stage.editor.call("session/remind", {"body": ""})
        first = await stage.ask("session/remind", body="The disk is full.")
        await stage.open("s2")
        ambiguous = await stage.ask("session/remind", body="x")
        malformed = b'{"jsonrpc":"2.0","id":"m","method":"session/remind","params":[1]}'
        stage.editor.write(malformed)
        refused = await stage.editor.answer_to("m")
        got = await stage.turn()
    assert first["result"]["_meta"]["sideband"]["deprecated"] is True
    assert ambiguous["error"]["code"] == refused["error"]["code"] == -32602
    assert [RED in text or "The disk is full." in text for text in got] == [True, True, False]


@in_time
async def test_an_answer_to_a_request_that_the_proxy_never_sent_is_not_forwarded(tmp_path: Path) -> None:
    async with an_open_session(tmp_path) as stage:
        prompt = await stage.prompt()
        await stage.remind(RED, mode="interrupt_immediate")
        steer = await stage.steered()
        # Once more, and with an id that was never used.
        stage.agent.answers(steer, {"outcome": "failed"})
        stage.agent.answers({"id": steer["id"] + "0"}, {"outcome": "failed"})
        await stage.end(prompt)
        assert await stage.turn() == ["go"]
    assert not any(str(frame.get("id")).startswith("sideband-") for frame in stage.editor.seen)


@in_time
async def test_a_prompt_without_an_id_or_without_blocks_is_forwarded(tmp_path: Path) -> None:
    async with an_open_session(tmp_path) as stage:
        await stage.remind(RED)
        stage.editor.call("session/prompt", {"sessionId": "s1", "prompt": [text_block("go")]})
        notification = await stage.agent.called("session/prompt")
        stage.request("session/prompt", sessionId="s1", prompt=[])
        empty = await stage.agent.called("session/prompt")
    assert texts(notification) == ["go"]
    assert len(texts(empty)) == 1


@in_time
async def test_a_replay_of_a_session_that_is_open_already_changes_nothing(tmp_path: Path) -> None:
    async with an_open_session(tmp_path) as stage:
        await stage.remind(RED)
        await stage.turn()
        stage.request("session/load", sessionId="s1", cwd="/", mcpServers=[])
        load = await stage.agent.called("session/load")
        stage.agent.says("s1", "compaction_update", compactionId="c", status="completed")
        stage.agent.answers(load, {})
        await stage.editor.answer_to(load["id"])
        pending = await (await stage.session()).pending()
        assert await stage.turn() == ["go"]
    assert [entry.reminder.body for entry in pending] == [RED]


# The hand-over itself.


@in_time
async def test_a_second_prompt_is_refused_until_the_agent_has_answered_the_first(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        session = await store.begin(f"proxy:{NAME}:s")
        handover = HandOver(session)
        assert await handover.open() is not None
        with pytest.raises(SessionBusy, match="has not answered"):
            await handover.open()
        await handover.close(status="completed")
        await handover.close(status="completed")
        assert not handover.is_open
        assert await handover.take(tool_runs=True) is None
        await session.close()
        assert await handover.open() is None
        assert not handover.is_open


@in_time
async def test_a_turn_that_a_dead_process_left_open_is_void_and_handed_over_again(tmp_path: Path) -> None:
    async with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        session = await store.begin(f"proxy:{NAME}:s")
        await session.remind(RED)
        first = await HandOver(session).open()
        assert first is not None
        # The same holder gets the lease again, as a process does after the lease of a dead one has lapsed.
        second = await HandOver(session).open()
        assert second is not None
        assert [item.id for item in second.given] == [item.id for item in first.given]
        assert second.turn == first.turn
