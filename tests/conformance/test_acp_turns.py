"""Turns of the ACP agent: their order and ends, tool calls, and permission."""

import asyncio
import base64
from pathlib import Path
from typing import Any, Final

import pytest

from sideband.core.messages import Reply
from sideband.models.scripted import Line, ScriptedModel
from sideband.ports import ModelError, OnText
from sideband.render.plan import Plan
from sideband.render.view import RequestView
from sideband.runtime.store import open_store
from tests.acp_editor import (
    ALLOW,
    EMITS,
    Editor,
    an_agent,
    an_editor,
    connected,
    kinds,
    on_pipes,
    refusal_of,
    result_of,
    text_block,
)
from tests.acp_scenes import Held, calling

REJECT: Final = {"outcome": {"outcome": "selected", "optionId": "reject_once"}}
ALWAYS: Final = {"outcome": {"outcome": "selected", "optionId": "allow_always"}}
CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}


# The ends of turns.


@pytest.mark.requirement("acp:prompt:answered-at-the-end-of-its-turn", "acp:prompt:while-running-is-queued")
@on_pipes
async def test_a_prompt_is_answered_when_its_own_turn_is_over() -> None:
    first, second = Held("One."), Held("Two.")
    async with an_editor(first.line, second.line) as editor:
        session = await editor.new()
        answers = [editor.prompt(session, "First."), editor.prompt(session, "Second.")]
        await first.begun.wait()
        first.release()
        assert (await result_of(answers[0]))["stopReason"] == "end_turn"
        await second.begun.wait()
        assert not answers[1].done()
        second.release()
        assert (await result_of(answers[1]))["stopReason"] == "end_turn"


@pytest.mark.requirement("acp:prompt:stop-reasons")
@pytest.mark.parametrize(
    ("options", "reason"),
    [({}, "end_turn"), ({"max_turns": 1}, "max_turn_requests"), ({"max_tokens": 1}, "max_tokens")],
)
@on_pipes
async def test_the_stop_reason_says_how_the_turn_ended(options: dict[str, Any], reason: str) -> None:
    async with an_editor(calling("list_dir"), "Done.", options=options) as editor:
        session = await editor.new()
        assert (await editor.prompted(session))["stopReason"] == reason


@pytest.mark.requirement("acp:prompt:model-failed", "acp:frames:no-exception-text")
@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (ModelError("the service has no such model"), "The model failed: the service has no such model"),
        (RuntimeError("secret"), "The model failed; the log of the agent says why"),
    ],
)
@on_pipes
async def test_a_failing_model_is_reported_without_the_text_of_an_exception(failure: Exception, message: str) -> None:
    def fails(_view: RequestView) -> str:
        raise failure

    async with an_editor(fails, "Again.") as editor:
        session = await editor.new()
        refused = await refusal_of(editor.prompt(session, "Go on."))
        assert (await editor.prompted(session))["stopReason"] == "end_turn"
    assert (refused.code, refused.data["reason"], refused.message) == (-32603, "model_failed", message)
    assert "secret" not in str(editor.frames)


@pytest.mark.requirement("acp:prompt:no-model")
@on_pipes
async def test_without_a_model_the_prompt_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    refused = []
    for model in (None, "anthropic:claude-opus-5-5"):
        async with an_agent(model=model) as agent, connected(agent) as editor:
            session = await editor.new()
            refused.append(await refusal_of(editor.prompt(session, "Hello.")))
    assert [error.code for error in refused] == [-32603, -32603]
    assert "SIDEBAND_MODEL" in refused[0].message
    assert "ANTHROPIC_API_KEY" in refused[1].message
    assert "api_key" not in refused[1].message


@pytest.mark.requirement("acp:prompt:content-blocks")
@on_pipes
async def test_every_kind_of_content_reaches_the_model() -> None:
    data = base64.b64encode(b"x").decode()
    blocks: list[dict[str, Any]] = [
        text_block("Look."),
        {"type": "image", "data": data, "mimeType": "image/png"},
        {"type": "audio", "data": data, "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a.py", "name": "a.py"},
        {"type": "resource", "resource": {"uri": "file:///b.py", "text": "print()", "mimeType": "text/x-python"}},
    ]
    model = ScriptedModel(["Seen."])
    async with an_editor(model=model) as editor:
        session = await editor.new()
        answer = await result_of(editor.begin("session/prompt", sessionId=session, prompt=blocks))
        wrong = await refusal_of(editor.begin("session/prompt", sessionId=session, prompt=[{"type": "hologram"}]))
    assert answer["stopReason"] == "end_turn"
    assert list(model.requests[0].messages[0]["content"]) == blocks
    assert (wrong.code, wrong.data["field"]) == (-32602, "prompt")


@pytest.mark.requirement("acp:prompt:withdrawn")
@on_pipes
async def test_a_queued_prompt_that_is_revoked_is_answered_as_cancelled() -> None:
    held = Held()
    async with an_editor(held.line) as editor:
        session = await editor.new()
        first = editor.prompt(session, "First.")
        await held.begun.wait()
        second = editor.prompt(session, "Second.")
        (row,) = (await editor.call("session/pending_injections", sessionId=session))["injections"]
        await editor.call("session/revoke_inject", sessionId=session, messageId=row["messageId"])
        assert (await result_of(second))["stopReason"] == "cancelled"
        held.release()
        assert (await result_of(first))["stopReason"] == "end_turn"


@pytest.mark.requirement("acp:prompt:cancel-request")
@on_pipes
async def test_a_cancelled_request_cancels_its_turn() -> None:
    held = Held()
    async with an_agent(held.line, "Next.") as agent, connected(agent) as editor:
        session_id = await editor.new()
        turn = editor.prompt(session_id, "Go on.")
        await held.begun.wait()
        editor.notify("$/cancel_request", requestId=3)
        assert (await refusal_of(turn)).code == -32800
        assert (await editor.prompted(session_id))["stopReason"] == "end_turn"
        session = await agent.store.find(session_id)
        assert session is not None
        told = [str(one.kind) async for one in session.updates(follow=False)]
    assert told.count("run.cancelled") == 1


# Order.


@pytest.mark.requirement("acp:order:cancel-after-its-prompt")
@on_pipes
async def test_a_cancel_directly_after_a_prompt_cancels_it() -> None:
    held = Held()
    async with an_editor(*[held.line] * 10) as editor:
        session = await editor.new()
        for _ in range(10):
            turn = editor.prompt(session, "Go on.")
            editor.notify("session/cancel", sessionId=session)
            assert (await result_of(turn))["stopReason"] == "cancelled"


@pytest.mark.requirement("acp:order:steer-after-its-prompt")
@on_pipes
async def test_a_steer_directly_after_a_prompt_is_delivered_in_its_turn() -> None:
    model = ScriptedModel()
    async with an_editor(model=model) as editor:
        session = await editor.new()
        for number in range(10):
            turn = editor.prompt(session, f"Prompt {number}.")
            steer = editor.begin(
                "session/inject", sessionId=session, mode="steer", content=[text_block(f"Steer {number}.")]
            )
            await result_of(steer)
            await result_of(turn)
            assert f"Steer {number}." in model.requests[-1].text


@pytest.mark.requirement("acp:order:updates-before-the-answer", "acp:order:text-after-the-journal")
@on_pipes
async def test_all_updates_of_a_turn_come_in_one_order_before_its_answer() -> None:
    async with an_editor(calling("list_dir"), "Done.", client=EMITS) as editor:
        session = await editor.new()
        await editor.prompted(session, "Name it.")
        for number in range(5):
            await editor.call("session/inject_reminder", sessionId=session, body=f"Fact {number}.", ttlTurns=1)
            before = len(editor.frames)
            await editor.prompted(session)
            last = editor.frames[-1]
            assert kinds(editor.updates(after=before)) == [
                "reminder_emitted",
                "agent_message_chunk",
                "reminder_expired",
            ]
            assert last["result"]["stopReason"] == "end_turn"


class Streaming(ScriptedModel):
    """Sends its reply in pieces, and waits before the last one."""

    def __init__(self, *pieces: str, fails: int = 0) -> None:
        super().__init__(["".join(pieces)] * 9)
        self._pieces = pieces
        self._fails = fails
        self.waits, self.released = asyncio.Event(), asyncio.Event()

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        for piece in self._pieces:
            if piece is self._pieces[-1]:
                if self._fails:
                    self._fails -= 1
                    raise ModelError("the connection broke", retryable=True)
                self.waits.set()
                await self.released.wait()
            told = None if on_text is None else on_text(piece)
            if told is not None:
                await told
        return await super().complete(plan)


@pytest.mark.requirement("acp:order:text-after-the-journal", "acp:replay:one-cursor")
@on_pipes
async def test_text_is_streamed_piece_by_piece_also_to_a_client_that_comes_later() -> None:
    model = Streaming("One, ", "two, ", "three.")
    async with an_agent(model=model) as agent, connected(agent) as editor, connected(agent) as late:
        session = await editor.new()
        turn = editor.prompt(session, "Count.")
        await model.waits.wait()
        await editor.until(lambda: len(editor.updates("agent_message_chunk")) == 2)
        await late.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        await late.until(lambda: len(late.updates("agent_message_chunk")) == 2)
        model.released.set()
        await result_of(turn)
        await late.until(lambda: len(late.updates("agent_message_chunk")) == 3)
        pieces = [
            [(update["messageId"], update["content"]["text"]) for update in one.updates("agent_message_chunk")]
            for one in (editor, late)
        ]
    assert [text for _, text in pieces[0]] == ["One, ", "two, ", "three."]
    assert pieces[0] == pieces[1]
    assert len({reply_id for reply_id, _ in pieces[0]}) == 1


@pytest.mark.requirement("acp:stream:restart")
@pytest.mark.parametrize("version", [1, 2])
@on_pipes
async def test_a_reply_that_begins_again_is_announced(version: int) -> None:
    model = Streaming("One, ", "two.", fails=1)
    model.released.set()
    async with an_agent(model=model) as agent, connected(agent, version=version) as editor:
        session = await editor.new()
        await editor.prompted(session, "Count.")
        await editor.until(lambda: any("two." in str(update) for update in editor.updates("agent_message_chunk")))
        updates = editor.updates("agent_message_chunk", "agent_message")
    if version == 1:
        assert [update.get("_meta", {}).get("sideband") for update in updates] == [
            None,
            {"restarted": True},
            None,
            None,
        ]
    else:
        assert kinds(updates) == ["agent_message_chunk", "agent_message", "agent_message_chunk", "agent_message_chunk"]
        assert updates[1]["content"] == []


@pytest.mark.requirement("acp:order:slow-client")
@on_pipes
async def test_a_client_that_does_not_read_delays_nobody() -> None:
    large = "x" * 300_000
    async with an_agent(*[large] * 20) as agent, connected(agent) as editor, connected(agent) as slow:
        session = await editor.new()
        await slow.call("session/resume", sessionId=session, cwd="/", mcpServers=[])
        slow.pause()
        for _ in range(20):
            await editor.prompted(session)
        slow.go_on()
        await slow.until(lambda: len(slow.updates("agent_message_chunk")) == 20)
        texts = {update["content"]["text"] for update in slow.updates("agent_message_chunk")}
    assert texts == {large}


# Tool calls.


@pytest.mark.requirement("acp:tool:described")
@on_pipes
async def test_a_tool_call_is_told_before_while_and_after_it_runs(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n", encoding="utf-8")
    script: list[Line] = [
        calling("read_file", path="a.py", start=2),
        calling("search", "c-2", pattern="three"),
        "Done.",
    ]
    async with an_editor(*script) as editor:
        session = await editor.new(tmp_path)
        await editor.prompted(session)
        told, *started, ended = (one for one in editor.updates() if one.get("toolCallId") == "c-1")
        other = next(one for one in editor.updates("tool_call") if one["toolCallId"] == "c-2")
    assert told == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c-1",
        "title": "Read a.py",
        "kind": "read",
        # The tool may have started before the client is told of the call.
        "status": "pending" if started else "in_progress",
        "rawInput": {"path": "a.py", "start": 2},
        "locations": [{"path": str(tmp_path / "a.py"), "line": 2}],
    }
    assert {one["status"] for one in started} <= {"in_progress"}
    assert ended["status"] == "completed"
    assert "two" in ended["content"][0]["content"]["text"]
    assert (other["kind"], other["title"]) == ("search", "Search for three")


@pytest.mark.requirement("acp:tool:diff", "acp:permission:asks-to-write-and-run")
@on_pipes
async def test_a_change_of_a_file_is_shown_when_it_is_asked_for_and_when_it_is_made(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("old\n", encoding="utf-8")
    script: list[Line] = [
        calling("read_file", "c-0", path="a.py"),
        calling("write_file", "c-1", path="a.py", content="new\n"),
        calling("edit_file", "c-2", path="a.py", old_string="new", new_string="newer"),
        calling("write_file", "c-3", path="b.py", content="made\n"),
        "Done.",
    ]
    async with an_editor(*script) as editor:
        session = await editor.new(tmp_path)
        await editor.prompted(session)
        asked = {
            frame["params"]["toolCall"]["toolCallId"]: frame["params"]["toolCall"]["content"][0]
            for frame in editor.frames
            if frame.get("method") == "session/request_permission"
        }
        made = {
            update["toolCallId"]: update["content"][0]
            for update in editor.updates("tool_call_update")
            if update["status"] == "completed"
        }
    diffs = {
        "c-1": {"type": "diff", "path": str(tmp_path / "a.py"), "oldText": "old\n", "newText": "new\n"},
        "c-2": {"type": "diff", "path": str(tmp_path / "a.py"), "oldText": "new", "newText": "newer"},
        "c-3": {"type": "diff", "path": str(tmp_path / "b.py"), "oldText": None, "newText": "made\n"},
    }
    assert asked == diffs
    assert {call: made[call] for call in diffs} == diffs
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == "newer\n"


# Permission.


def asked(editor: Editor) -> list[str]:
    """The titles of the calls that the client was asked for."""
    return [
        frame["params"]["toolCall"]["title"]
        for frame in editor.frames
        if frame.get("method") == "session/request_permission"
    ]


@pytest.mark.requirement("acp:permission:asks-to-write-and-run")
@pytest.mark.parametrize(
    ("mode", "questions", "statuses"),
    [
        ("ask", ["Write a.txt", "Run echo hi"], ["ok", "ok", "ok"]),
        ("edits", ["Run echo hi"], ["ok", "ok", "ok"]),
        ("read_only", [], ["ok", "denied", "denied"]),
    ],
)
@on_pipes
async def test_the_mode_decides_what_is_asked(
    tmp_path: Path, mode: str, questions: list[str], statuses: list[str]
) -> None:
    script: list[Line] = [
        calling("list_dir", "c-1"),
        calling("write_file", "c-2", path="a.txt", content="x"),
        calling("run", "c-3", command="echo hi"),
        "Done.",
    ]
    async with an_editor(*script) as editor:
        session = await editor.new(tmp_path)
        await editor.call("session/set_mode", sessionId=session, modeId=mode)
        await editor.prompted(session)
        ends = [one for one in editor.updates("tool_call_update") if one["status"] in ("completed", "failed")]
    assert asked(editor) == questions
    assert [end["_meta"]["sideband"]["status"] for end in ends] == statuses


@pytest.mark.requirement("acp:permission:options")
@pytest.mark.parametrize(
    ("answer", "questions", "status"),
    [(ALLOW, 2, "ok"), (ALWAYS, 1, "ok"), (REJECT, 2, "denied"), (CANCELLED, 2, "denied"), ({"x": 1}, 2, "denied")],
)
@on_pipes
async def test_each_answer_has_its_effect(answer: dict[str, Any], questions: int, status: str) -> None:
    script: list[Line] = [calling("run", "c-1", command="true"), calling("run", "c-2", command="true"), "Done."]
    async with an_editor(*script) as editor:
        editor.answers["session/request_permission"] = lambda _params: answer
        session = await editor.new()
        await editor.prompted(session)
        ends = [one for one in editor.updates("tool_call_update") if one["status"] in ("completed", "failed")]
    assert len(asked(editor)) == questions
    assert [end["_meta"]["sideband"]["status"] for end in ends] == [status, status]


@pytest.mark.requirement("acp:permission:any-controller")
@on_pipes
async def test_every_controller_is_asked_and_the_first_answer_counts() -> None:
    async with (
        an_agent(calling("run", command="true"), "Done.") as agent,
        connected(agent) as editor,
        connected(agent) as silent,
        connected(agent) as observer,
    ):
        session = await editor.new()
        silent.answers["session/request_permission"] = None
        await silent.call("session/resume", sessionId=session, cwd="/", mcpServers=[])
        role = {"sideband": {"role": "observer"}}
        await observer.call("session/resume", sessionId=session, cwd="/", mcpServers=[], _meta=role)
        answer = await editor.prompted(session)
        cancelled = await silent.frame(lambda frame: frame.get("method") == "$/cancel_request")
        (request,) = [frame for frame in silent.frames if frame.get("method") == "session/request_permission"]
    assert answer["stopReason"] == "end_turn"
    assert cancelled["params"]["requestId"] == request["id"]
    assert asked(observer) == []


@pytest.mark.requirement("acp:cancel:during-permission", "acp:permission:steers-wait")
@on_pipes
async def test_while_the_client_is_asked_steers_wait_and_a_cancel_ends_the_turn() -> None:
    model = ScriptedModel([calling("run", command="true"), "Done.", "Next."])
    async with an_editor(model=model) as editor:
        session = await editor.new()
        editor.answers["session/request_permission"] = None
        turn = editor.prompt(session, "Go on.")
        question = await editor.frame(lambda frame: frame.get("method") == "session/request_permission")
        await editor.call("session/inject", sessionId=session, mode="steer", content=[text_block("Steer.")])
        await editor.call("session/inject_reminder", sessionId=session, body="Stop.", mode="interrupt_immediate")
        assert (await editor.call("session/pending_injections", sessionId=session))["pendingCount"] == 2
        editor.notify("session/cancel", sessionId=session)
        assert (await result_of(turn))["stopReason"] == "cancelled"
        withdrawn = await editor.frame(lambda frame: frame.get("method") == "$/cancel_request")
        assert (await editor.call("session/pending_injections", sessionId=session))["pendingCount"] == 2
        await editor.prompted(session)
    assert withdrawn["params"]["requestId"] == question["id"]
    assert "Steer." in model.requests[1].text
    assert "Stop." in model.requests[1].text


@pytest.mark.requirement("acp:permission:needs-a-client")
@on_pipes
async def test_a_client_that_leaves_while_it_is_asked_has_not_allowed_it() -> None:
    model = ScriptedModel([calling("run", command="true"), "Done."])
    async with an_agent(model=model) as agent, connected(agent) as watcher:
        async with connected(agent) as editor:
            session = await editor.new()
            role = {"sideband": {"role": "observer"}}
            await watcher.call("session/resume", sessionId=session, cwd="/", mcpServers=[], _meta=role)
            editor.answers["session/request_permission"] = None
            editor.prompt(session, "Go on.")
            await editor.frame(lambda frame: frame.get("method") == "session/request_permission")
        await watcher.update("agent_message_chunk")
        (ended,) = [one for one in watcher.updates("tool_call_update") if one["status"] == "failed"]
    assert "no client is attached" in ended["content"][0]["content"]["text"]


@pytest.mark.requirement("acp:permission:any-controller")
@pytest.mark.parametrize("comes", ["again", "later"])
@on_pipes
async def test_a_client_that_attaches_while_the_question_is_open_is_asked(comes: str) -> None:
    async with an_agent(calling("run", command="true"), "Done.") as agent, connected(agent) as editor:
        session = await editor.new()
        editor.answers["session/request_permission"] = None
        turn = editor.prompt(session, "Go on.")
        await editor.frame(lambda frame: frame.get("method") == "session/request_permission")
        load = {"sessionId": session, "cwd": "/", "mcpServers": []}
        if comes == "again":
            editor.answers["session/request_permission"] = lambda _params: ALLOW
            await editor.call("session/load", **load)
            assert (await result_of(turn))["stopReason"] == "end_turn"
        else:
            async with connected(agent) as other:
                await other.call("session/load", **load)
                assert (await result_of(turn))["stopReason"] == "end_turn"


@pytest.mark.requirement("acp:permission:asks-to-write-and-run")
@on_pipes
async def test_a_mode_that_another_process_has_set_is_enforced(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    write = calling("write_file", path="a.txt", content="x")
    async with (
        open_store(url) as store,
        open_store(url) as other_store,
        an_agent(write, "Done.", store=store) as agent,
        an_agent(store=other_store) as other,
        connected(agent) as here,
        connected(other) as there,
    ):
        session = await here.new(tmp_path)
        await here.call("session/set_mode", sessionId=session, modeId="edits")
        await there.call("session/resume", sessionId=session, cwd="/", mcpServers=[])
        await there.call("session/set_mode", sessionId=session, modeId="read_only")
        await here.prompted(session)
    assert not (tmp_path / "a.txt").exists()
    assert asked(here) == []


@pytest.mark.requirement("acp:permission:options")
@on_pipes
async def test_a_tool_that_is_allowed_for_the_session_stays_allowed_when_the_session_is_loaded_again() -> None:
    script: list[Line] = [calling("run", command="true"), "Done."]
    async with an_agent(*script, *script) as agent:
        async with connected(agent) as editor:
            session = await editor.new()
            editor.answers["session/request_permission"] = lambda _params: ALWAYS
            await editor.prompted(session)
        async with connected(agent) as editor:
            await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
            await editor.prompted(session)
            assert asked(editor) == []


# What a model may say.


@pytest.mark.requirement("acp:tool:described")
@on_pipes
async def test_a_tool_with_an_odd_name_is_told_like_any_other() -> None:
    async with an_editor(calling("{evil}", path="{x}"), "Done.") as editor:
        session = await editor.new()
        await editor.prompted(session)
        (call,) = editor.updates("tool_call")
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
    assert (call["title"], call["kind"]) == ("{evil}", "other")


@pytest.mark.requirement("acp:order:text-after-the-journal")
@on_pipes
async def test_text_that_cannot_be_encoded_is_replaced() -> None:
    async with an_editor("half \ud83d") as editor:
        session = await editor.new()
        await editor.prompted(session)
        texts = [update["content"]["text"] for update in editor.updates("agent_message_chunk")]
    assert texts == ["half ?"]


@pytest.mark.requirement("acp:prompt:answered-at-the-end-of-its-turn")
@on_pipes
async def test_a_client_that_loads_its_session_again_gets_the_answer_to_its_prompt() -> None:
    held = Held()
    async with an_editor(held.line) as editor:
        session = await editor.new()
        turn = editor.prompt(session, "Go on.")
        await held.begun.wait()
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        held.release()
        assert (await result_of(turn))["stopReason"] == "end_turn"


@pytest.mark.requirement("acp:prompt:cancel-request")
@on_pipes
async def test_a_prompt_can_be_cancelled_while_it_is_being_accepted(tmp_path: Path) -> None:
    held = Held()
    async with (
        open_store(f"sqlite:///{tmp_path / 'store.db'}") as store,
        an_editor(*[held.line] * 20, store=store) as editor,
    ):
        session = await editor.new()
        for number in range(20):
            turn = editor.prompt(session, "Go on.")
            editor.notify("$/cancel_request", requestId=number + 3)
            assert (await refusal_of(turn)).code == -32800


@pytest.mark.requirement("acp:prompt:no-model")
@on_pipes
async def test_a_session_whose_folder_is_gone_can_be_loaded_and_says_so_when_it_is_prompted(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    async with an_agent("Done.") as agent:
        async with connected(agent) as editor:
            session = await editor.new(folder)
            await editor.prompted(session)
        folder.rmdir()
        async with connected(agent) as editor:
            await editor.call("session/load", sessionId=session, cwd=str(folder), mcpServers=[])
            refused = await refusal_of(editor.prompt(session, "Go on."))
            replayed = editor.updates("agent_message_chunk")
    assert len(replayed) == 1
    assert (refused.code, refused.data) == (-32603, {"reason": "no_folder"})
    assert str(folder) in refused.message
