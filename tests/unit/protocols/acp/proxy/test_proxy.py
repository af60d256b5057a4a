"""The ACP proxy when something fails, floods or is odd: the conversation of editor and agent goes on."""

import asyncio
import logging
from pathlib import Path

import pytest

from sideband.core.errors import SessionBusy
from sideband.protocols.acp.proxy.proxy import Proxy
from sideband.protocols.acp.proxy.session import SETTLED_SECONDS
from sideband.runtime.handover import HandOver
from sideband.runtime.store import open_store
from tests.acp_agents import in_time
from tests.piped import piped
from tests.proxied import NAME, Frame, Stage, a_proxy, an_open_session, text_block, texts
from tests.waiting import let_pass

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


# Answers that are hard to recognise, and answers that never come.


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(b'{"stopReason":"end_turn","_meta":{"method":"x"}}', id="the-name-of-a-call-inside"),
        pytest.param(b'{"_meta":{"sessionUpdate":"agent_message_chunk"},"stopReason":"end_turn"}', id="of-an-update"),
        pytest.param(b'{"stopReason":"end_turn","_meta":{"x":1e999}}', id="a-number-out-of-range"),
        pytest.param(b'{"stopReason":"end_turn","_meta":{"x":"cut \\ud83d"}}', id="half-a-surrogate-pair"),
    ],
)
@in_time
async def test_an_answer_ends_its_turn_whatever_is_in_it_and_is_forwarded_as_it_was(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, result: bytes
) -> None:
    async with an_open_session(tmp_path) as stage:
        prompt = await stage.prompt()
        stage.agent.says("s1", "agent_message_chunk", content=text_block("done"))
        await stage.editor.update("agent_message_chunk")
        frame = b'{"jsonrpc":"2.0","id":%d,"result":%s}' % (prompt["id"], result)
        stage.agent.write(frame)
        forwarded = await stage.editor.reader.readline()
        await stage.remind(RED)
        assert len(await stage.turn()) == 2
        assert await stage.turn() == ["go"]
    assert forwarded.strip() == frame
    assert not caplog.records


@in_time
async def test_a_reply_to_initialize_gets_the_capabilities_whatever_is_in_it(tmp_path: Path) -> None:
    async with a_proxy(tmp_path) as stage:
        stage.request("initialize", protocolVersion=1)
        called = await stage.agent.called("initialize")
        methods = b'[{"id":"x","_meta":{"method":"oauth","n":1e999,"name":"cut \\ud83d"}}]'
        reply = b'{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":1,"authMethods":%s}}' % (called["id"], methods)
        stage.agent.write(reply)
        told = await stage.editor.reader.readline()
    assert methods.replace(b"ud83d", b"ufffd") in told
    assert b'"sideband"' in told


@in_time
async def test_the_end_of_a_call_in_the_background_starts_no_turn(tmp_path: Path) -> None:
    async with an_open_session(tmp_path, steers=False) as stage:
        first = await stage.prompt("one")
        await stage.prompt("joins the first")
        await stage.end(first)
        stage.agent.says("s1", "tool_call_update", toolCallId="background", status="completed")
        await stage.editor.update("tool_call_update")
        await stage.turn("three")
        # The second prompt is no turn any more, even if the agent does something now.
        stage.agent.says("s1", "agent_message_chunk", content=text_block("by the way"))
        await stage.editor.update("agent_message_chunk")
        await stage.remind(RED)
        got = [await stage.turn() for _ in range(2)]
    assert [len(each) for each in got] == [2, 1]


@in_time
async def test_the_answer_to_a_later_prompt_ends_an_earlier_one_and_an_error_does_not(tmp_path: Path) -> None:
    async with an_open_session(tmp_path) as stage:
        await stage.prompt("one")
        refused = await stage.prompt("two")
        stage.agent.answers(refused, code=-32000, message="busy")
        await stage.editor.answer_to(refused["id"])
        await stage.remind(RED, mode="interrupt_immediate")
        await stage.steered()
        later = await stage.prompt("three")
        stage.agent.answers(later, {"stopReason": "end_turn"})
        await stage.editor.answer_to(later["id"])
        await stage.remind("The disk is full.")
        assert len(await stage.turn()) == 2


@in_time
async def test_a_steer_that_is_never_answered_is_handed_over_again_and_later_turns_are_steered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with an_open_session(tmp_path) as stage:
        prompt = await stage.prompt()
        await stage.remind(RED, mode="interrupt_immediate")
        await stage.agent.called("_session/steering")
        await stage.end(prompt)
        assert await stage.turn() == ["go"]
        assert RED in (await stage.turn())[0]
        prompt = await stage.prompt()
        await stage.remind("The disk is full.", mode="interrupt_immediate")
        assert "The disk is full." in texts(await stage.steered())[0]
        await stage.end(prompt)
    assert caplog.text.count("has not answered a steer") == 1


@in_time
async def test_a_session_that_another_program_has_closed_is_named_in_the_refusal_and_once_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with an_open_session(tmp_path) as stage:
        await (await stage.session()).close()
        refused = await stage.ask("session/inject_reminder", sessionId="s1", body=RED)
        assert [await stage.turn() for _ in range(2)] == [["go"], ["go"]]
    assert refused["error"]["data"]["sessionId"] == "s1"
    assert caplog.text.count("is closed") == 1


@in_time
async def test_an_editor_that_reads_no_answers_is_not_read_either(tmp_path: Path) -> None:
    refused = 8_000
    async with (
        open_store(f"sqlite:///{tmp_path}/store.db") as store,
        piped() as (to_editor, editor),
        piped() as (to_agent, _agent),
    ):
        forwarding = asyncio.ensure_future(Proxy(to_editor, to_agent, store, agent_name=NAME).forward_editor())
        arriving = editor.reader._transport  # type: ignore[attr-defined]  # an editor that does not read
        arriving.pause_reading()
        for number in range(refused):
            editor.call("session/inject_reminder", {"sessionId": "s1", "body": RED}, request_id=number)
        left = -1
        # Until the proxy takes no more requests.
        while left != (left := editor.writer.transport.get_write_buffer_size()):  # noqa: ASYNC110 - nothing tells that
            await asyncio.sleep(0.2)
        assert left > 0
        assert not to_editor.is_congested
        arriving.resume_reading()
        while (await editor.receive())["id"] != refused - 1:
            pass
        forwarding.cancel()
        await asyncio.wait((forwarding,))


# Permissions.

OPTIONS = [
    {"optionId": "a", "name": "Yes", "kind": "allow_once"},
    {"optionId": "r", "name": "No", "kind": "reject_once"},
]


async def asked(stage: Stage) -> Frame:
    """Let the agent run a prompt and ask for a permission; the prompt."""
    prompt = await stage.prompt()
    await stage.run_tool()
    params = {"sessionId": "s1", "toolCall": {"toolCallId": "t1"}, "options": OPTIONS}
    stage.agent.call("session/request_permission", params, request_id="p")
    await stage.editor.called("session/request_permission")
    return prompt


def choose(stage: Stage, option: str) -> None:
    stage.editor.answers({"id": "p"}, {"outcome": {"outcome": "selected", "optionId": option}})


@in_time
async def test_a_tool_that_was_just_allowed_is_not_disturbed_by_a_steer(tmp_path: Path) -> None:
    async with an_open_session(tmp_path) as stage:
        prompt = await asked(stage)
        await stage.remind(RED)
        loop = asyncio.get_running_loop()
        allowed_at = loop.time()
        choose(stage, "a")
        await stage.steered()
        waited = loop.time() - allowed_at
        await stage.end(prompt)
    assert waited >= SETTLED_SECONDS


@in_time
async def test_a_tool_that_was_refused_does_not_run(tmp_path: Path) -> None:
    async with an_open_session(tmp_path) as stage:
        prompt = await asked(stage)
        choose(stage, "r")
        assert (await stage.agent.receive())["id"] == "p"
        let_pass(SETTLED_SECONDS)
        await stage.remind(RED)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(stage.agent.receive(), 0.2)
        await stage.end(prompt)
        following = await stage.turn()
    assert RED in following[0]


@in_time
async def test_a_permission_that_the_agent_withdraws_holds_up_no_steer(tmp_path: Path) -> None:
    async with an_open_session(tmp_path) as stage:
        prompt = await asked(stage)
        stage.agent.call("$/cancel_request", {"requestId": "p"})
        await stage.editor.called("$/cancel_request")
        await stage.remind(RED, mode="interrupt_immediate")
        await stage.steered()
        await stage.end(prompt)


# Replays.


@pytest.mark.parametrize("is_answered", [False, True], ids=["before-the-answer", "after-it"])
@in_time
async def test_the_replay_of_a_fork_shows_nothing_that_its_parents_were_handed(
    tmp_path: Path, *, is_answered: bool
) -> None:
    async with an_open_session(tmp_path) as stage:
        await stage.remind(RED)
        handed = (await stage.turn())[0]
        await stage.passes("session/fork", {"sessionId": "s2"}, sessionId="s1", cwd="/", mcpServers=[])
    async with a_proxy(tmp_path) as stage:
        await stage.initialize({"protocolVersion": 1})
        stage.request("session/fork", sessionId="s2", cwd="/", mcpServers=[])
        fork = await stage.agent.called("session/fork")
        if is_answered:
            stage.agent.answers(fork, {"sessionId": "s3"})
            await stage.editor.answer_to(fork["id"])
        stage.agent.says("s3", "user_message_chunk", content=text_block(f"{handed}go"))
        replayed = await stage.editor.update("user_message_chunk")
    assert replayed["content"]["text"] == "go"


@in_time
async def test_a_whole_message_of_the_user_is_replayed_without_our_blocks(tmp_path: Path) -> None:
    async with an_open_session(tmp_path) as stage:
        await stage.remind(RED)
        blocks = [text_block(text) for text in await stage.turn()]
        stage.agent.says("s1", "user_message", messageId="1", content=blocks[:1])
        stage.agent.says("s1", "user_message", messageId="2", content=blocks)
        replayed = await stage.editor.update("user_message")
    assert (replayed["messageId"], replayed["content"]) == ("2", [text_block("go")])


@in_time
async def test_an_id_that_is_no_text_is_forwarded_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with an_open_session(tmp_path) as stage:
        await stage.passes("session/load", {}, sessionId=["s1"], cwd="/", mcpServers=[])
    assert not caplog.records


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
