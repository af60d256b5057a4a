"""Sessions of the ACP agent: begun, listed, loaded, shared by clients and processes, and closed."""

from pathlib import Path
from typing import Any, Final

import pytest

from sideband.models.scripted import Said
from sideband.render.view import RequestView
from sideband.runtime.store import open_store
from sideband.testing import ScriptedModel
from tests.acp_editor import (
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
from tests.stored_agents import address
from tests.unit.store.twins import PostgresTwin, SqliteTwin

OBSERVER: Final = {"sideband": {"role": "observer"}}


# The connection.


@pytest.mark.requirement("acp:initialize:version")
@pytest.mark.parametrize(("asked", "spoken"), [(1, 1), (2, 2), (99, 2)])
@on_pipes
async def test_the_version_that_both_speak_is_chosen(asked: int, spoken: int) -> None:
    async with an_editor(version=None) as editor:
        answer = await editor.call("initialize", protocolVersion=asked, info={"name": "t", "version": "1"})
    assert answer["protocolVersion"] == spoken


@pytest.mark.requirement("acp:initialize:version")
@pytest.mark.parametrize(("asked", "code"), [(0, -32022), ("1", -32602), (None, -32602), (True, -32602)])
@on_pipes
async def test_a_version_that_does_not_exist_is_refused(asked: object, code: int) -> None:
    async with an_editor(version=None) as editor:
        assert (await refusal_of(editor.begin("initialize", protocolVersion=asked))).code == code


@pytest.mark.requirement("acp:initialize:first", "acp:authenticate:none-needed")
@on_pipes
async def test_initialize_comes_first_and_authentication_is_not_needed() -> None:
    async with an_editor(version=None) as editor:
        early = await refusal_of(editor.begin("session/list"))
        told = await editor.initialize()
        again = await refusal_of(editor.begin("initialize", protocolVersion=2))
        authenticated = await editor.call("authenticate", methodId="none")
    assert (early.code, again.code) == (-32600, -32600)
    assert (told["authMethods"], authenticated) == ([], {})


# Beginning and listing.


@pytest.mark.requirement("acp:new:durable", "acp:list:sessions")
@on_pipes
async def test_a_new_session_is_in_the_store_when_it_is_answered(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    folder = tmp_path / "project"
    folder.mkdir()
    async with open_store(url) as store, an_editor(store=store) as editor:
        session = await editor.new(folder)
        async with open_store(url) as other:
            found = await other.find(session)
            (entry,) = (await other.sessions()).sessions
        assert found is not None
        other_session = await editor.new(tmp_path)
        everything = await editor.call("session/list")
        here = await editor.call("session/list", cwd=str(folder))
    assert entry.records == {
        "kind": "acp",
        "cwd": str(folder),
        "title": "New session in project",
        "mode": "ask",
    }
    assert [row["sessionId"] for row in everything["sessions"]] == [other_session, session]
    (row,) = here["sessions"]
    assert (row["sessionId"], row["cwd"], row["title"]) == (session, str(folder), "New session in project")
    assert row["updatedAt"].endswith("Z")


@pytest.mark.requirement("acp:list:sessions")
@on_pipes
async def test_the_list_has_pages_and_leaves_out_sessions_of_programs() -> None:
    async with an_agent() as agent, connected(agent) as editor:
        program = await agent.store.session("a-program")
        await program.remind("Not a session of this protocol.")
        begun = [await editor.new() for _ in range(51)]
        first = await editor.call("session/list")
        second = await editor.call("session/list", cursor=first["nextCursor"])
        wrong = [await refusal_of(editor.begin("session/list", cursor=cursor)) for cursor in ("soon", "9" * 5_000, "٣")]
    listed = [row["sessionId"] for page in (first, second) for row in page["sessions"]]
    assert listed == begun[::-1]
    assert "nextCursor" not in second
    assert {error.data["field"] for error in wrong} == {"cursor"}


@pytest.mark.requirement("acp:new:folder")
@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"cwd": "relative"}, "cwd"),
        ({"cwd": "/does/not/exist"}, "cwd"),
        ({"cwd": 7}, "cwd"),
        ({"cwd": "/" + "x" * 5_000}, "cwd"),
        ({"cwd": "/", "_meta": {"sideband": {"role": "king"}}}, "_meta.sideband.role"),
        ({"cwd": "/", "_meta": {"sideband": {"role": "observer"}}}, "_meta.sideband.role"),
    ],
)
@on_pipes
async def test_a_session_that_cannot_be_set_up_is_refused_and_not_begun(params: dict[str, Any], field: str) -> None:
    async with an_editor() as editor:
        refused = await refusal_of(editor.begin("session/new", **params))
        listed = await editor.call("session/list")
    assert (refused.code, refused.data["field"], listed["sessions"]) == (-32602, field, [])


@pytest.mark.requirement("acp:session:unknown")
@on_pipes
async def test_a_deleted_session_is_unknown_and_a_closed_one_can_be_read() -> None:
    async with an_agent("Done.") as agent, connected(agent) as editor:
        closed, deleted = await editor.new(), await editor.new()
        await editor.prompted(closed)
        session = await agent.store.find(closed)
        assert session is not None
        await session.close()
        await agent.store.delete(deleted)
        gone = await refusal_of(editor.begin("session/pending_injections", sessionId=deleted))
        over = await refusal_of(editor.prompt(closed, "Go on."))
        before = len(editor.frames)
        await editor.call("session/load", sessionId=closed, cwd="/", mcpServers=[])
        listed = [row["sessionId"] for row in (await editor.call("session/list"))["sessions"]]
        replayed = kinds(editor.updates(after=before))
    assert [(error.code, error.data["reason"]) for error in (gone, over)] == [(-32002, "unknown_session")] * 2
    assert (listed, replayed) == ([closed], ["user_message_chunk", "agent_message_chunk"])


@pytest.mark.requirement("acp:session:unknown")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/load", {"cwd": "/", "mcpServers": []}),
        ("session/resume", {"cwd": "/"}),
        ("session/prompt", {"prompt": [text_block("x")]}),
        ("session/close", {}),
        ("session/set_mode", {"modeId": "ask"}),
        ("session/inject", {"mode": "queue", "content": [text_block("x")]}),
        ("session/pending_injections", {}),
        ("_session/steering", {"prompt": [text_block("x")]}),
    ],
)
@on_pipes
async def test_an_unknown_session_is_not_found_and_not_created(method: str, params: dict[str, Any]) -> None:
    async with an_agent() as agent, connected(agent) as editor:
        refused = await refusal_of(editor.begin(method, sessionId="nope", **params))
        assert await agent.store.find("nope") is None
    assert (refused.code, refused.data["reason"]) == (-32002, "unknown_session")


# Several clients.


@pytest.mark.requirement(
    "acp:attach:several-clients", "acp:prompt:own-is-not-echoed", "acp:delivery:every-attached-client"
)
@on_pipes
async def test_every_client_gets_the_same_updates_and_no_echo_of_its_own_prompt() -> None:
    async with an_agent("Done.") as agent, connected(agent, **EMITS) as one, connected(agent, **EMITS) as two:
        session = await one.new()
        await two.call("session/resume", sessionId=session, cwd="/", mcpServers=[])
        before = len(one.frames), len(two.frames)
        await two.call("session/inject_reminder", sessionId=session, body="Red.", ttlTurns=1)
        await one.prompted(session, "Go on.")
        await two.until(lambda: len(two.reminders()) == 2)
        mine, theirs = one.updates(after=before[0]), two.updates(after=before[1])
    assert kinds(mine) == ["session_info_update", "reminder_emitted", "agent_message_chunk", "reminder_expired"]
    (echo,) = [update for update in theirs if update["sessionUpdate"] == "user_message_chunk"]
    assert echo["content"] == text_block("Go on.")
    assert [update for update in theirs if update is not echo] == mine


@pytest.mark.requirement("acp:observer:reads-only")
@on_pipes
async def test_an_observer_sees_everything_and_changes_nothing() -> None:
    async with an_agent("Done.") as agent, connected(agent) as editor, connected(agent) as observer:
        session = await editor.new()
        await observer.call("session/load", sessionId=session, cwd="/", mcpServers=[], _meta=OBSERVER)
        attempts: dict[str, dict[str, Any]] = {
            "session/prompt": {"prompt": [text_block("x")]},
            "session/inject": {"mode": "queue", "content": [text_block("x")]},
            "session/inject_reminder": {"body": "x"},
            "session/remind": {"body": "x"},
            "session/revoke_inject": {"messageId": "m"},
            "session/replace_inject": {"messageId": "m", "content": [text_block("x")]},
            "session/revoke_reminder": {"reminderId": "r"},
            "session/set_mode": {"modeId": "edits"},
            "_session/steering": {"prompt": [text_block("x")]},
            "_sideband/session/clear_reminders": {"id": "r"},
        }
        refused = [
            await refusal_of(observer.begin(method, sessionId=session, **params)) for method, params in attempts.items()
        ]
        pending = await observer.call("session/pending_injections", sessionId=session)
        observer.notify("session/cancel", sessionId=session)
        await editor.prompted(session)
        await observer.update("agent_message_chunk")
    assert {(error.code, error.data["reason"]) for error in refused} == {(-32602, "not_permitted")}
    assert pending["pendingCount"] == 0


@pytest.mark.requirement("acp:close:detaches")
@on_pipes
async def test_closing_detaches_the_client_and_the_session_goes_on() -> None:
    held = Held("Finished alone.")
    async with an_agent(held.line) as agent, connected(agent) as editor, connected(agent) as other:
        session = await editor.new()
        await other.call("session/resume", sessionId=session, cwd="/", mcpServers=[])
        turn = editor.prompt(session, "Go on.")
        await held.begun.wait()
        await editor.call("session/close", sessionId=session)
        held.release()
        told = await other.update("agent_message_chunk")
        assert (await refusal_of(turn)).code == -32800
        after = len(editor.frames)
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        replayed = editor.updates("agent_message_chunk", after=after)
    assert told["content"]["text"] == "Finished alone."
    assert [update["content"]["text"] for update in replayed] == ["Finished alone."]


@pytest.mark.requirement("acp:close:detaches")
@on_pipes
async def test_a_session_without_clients_is_released_when_its_work_is_done() -> None:
    held = Held("Finished alone.")
    async with an_agent(held.line) as agent:
        async with connected(agent) as editor:
            session = await editor.new()
            editor.prompt(session, "Go on.")
            await held.begun.wait()
        assert agent.offered == {session}
        held.release()
        async with connected(agent) as editor:
            await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
            await editor.update("agent_message_chunk")
        assert agent.offered == set()


# Replay.


def told(editor: Editor, *, after: int = 0) -> list[dict[str, Any]]:
    """The updates that belong to the conversation, without what differs by its nature between live and replayed."""
    updates = [update for update in editor.updates(after=after) if "title" not in update]
    return [update for update in updates if update.get("status") != "in_progress"]


@pytest.mark.requirement("acp:replay:one-cursor", "acp:replay:message-ids", "acp:resume:without-replay")
@on_pipes
async def test_a_replay_tells_what_was_told_live_and_goes_on_without_gap_or_repeat(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    held = Held("Second reply.")
    model = ScriptedModel([calling("list_dir"), "First reply.", held.line])
    async with (
        open_store(url) as store,
        an_agent(model=model, store=store) as agent,
        connected(agent, **EMITS) as witness,
        connected(agent, **EMITS) as editor,
    ):
        session = await editor.new(tmp_path)
        await witness.call("session/resume", sessionId=session, cwd="/", mcpServers=[])
        assert witness.updates() == []
        await editor.call("session/inject_reminder", sessionId=session, body="Red.", ttlTurns=2)
        await editor.prompted(session, "First.")
        turn = editor.prompt(session, "Second.")
        await held.begun.wait()
        async with connected(agent, **EMITS) as late:
            await late.call("session/load", sessionId=session, cwd="/", mcpServers=[])
            held.release()
            await result_of(turn)
            await late.until(lambda: late.updates("agent_message_chunk")[-1]["content"]["text"] == "Second reply.")
            replayed = told(late)
        await witness.until(lambda: len(told(witness)) >= len(replayed))
        live = told(witness)
    assert replayed == live
    async with open_store(url) as store, an_agent(store=store) as agent, connected(agent, **EMITS) as editor:
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        assert told(editor) == live


@pytest.mark.requirement("acp:replay:message-ids")
@on_pipes
async def test_what_is_left_after_pruning_is_replayed_with_the_same_ids() -> None:
    async with an_agent(calling("list_dir"), "Reply.") as agent, connected(agent) as editor:
        session = await editor.new()
        await editor.prompted(session, "Hello.")
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        whole = [update for update in editor.updates() if "messageId" in update]
        await agent.store.journal.prune(session)
        before = len(editor.frames)
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        pruned = editor.updates(after=before)
    assert kinds(pruned) == ["user_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]
    ids = [update["messageId"] for update in pruned if "messageId" in update]
    assert ids == [update["messageId"] for update in whole][-len(ids) :]


# Processes.


@pytest.mark.requirement(
    "acp:processes:one-store", "acp:stream:text-of-another-process", "acp:prompt:foreign-process-is-queued"
)
@pytest.mark.parametrize("kind", [SqliteTwin, PostgresTwin])
@on_pipes
async def test_a_process_that_does_not_run_the_session_can_prompt_steer_remind_and_cancel(
    tmp_path: Path, kind: type[SqliteTwin | PostgresTwin]
) -> None:
    url = address(kind(tmp_path))
    held, stuck = Held(calling("list_dir")), Held()

    async def reply(view: RequestView) -> Said:
        # Either process may run what is queued once the first turn is over.
        return await stuck.line(view) if "Three." in str(view.messages[-1]["content"]) else "Second."

    model, other_model = ScriptedModel([held.line, "First.", reply, reply]), ScriptedModel([reply, reply])
    async with (
        open_store(url) as store,
        open_store(url) as other_store,
        an_agent(model=model, store=store) as running,
        an_agent(model=other_model, store=other_store) as other,
        connected(running) as here,
        connected(other, **EMITS) as there,
    ):
        session = await here.new(tmp_path)
        first = here.prompt(session, "One.")
        await held.begun.wait()
        await there.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        second = there.prompt(session, "Two.")
        await there.call("session/inject_reminder", sessionId=session, body="Red.", ttlTurns=1)
        await there.call("session/inject", sessionId=session, mode="steer", content=[text_block("Faster.")])
        held.release()
        assert (await result_of(first))["stopReason"] == "end_turn"
        assert (await result_of(second))["stopReason"] == "end_turn"
        texts = [update["content"]["text"] for update in there.updates("agent_message_chunk")]
        last = here.prompt(session, "Three.")
        await stuck.begun.wait()
        there.notify("session/cancel", sessionId=session)
        assert (await result_of(last))["stopReason"] == "cancelled"
    assert "Red." in model.requests[1].text
    assert "Faster." in model.requests[1].text
    assert texts == ["First.", "Second."]
    assert [update["sessionUpdate"] for update in there.reminders()] == ["reminder_emitted", "reminder_expired"]


@pytest.mark.requirement("acp:processes:prompt-runs-where-it-was-sent")
@on_pipes
async def test_a_prompt_runs_in_the_process_that_accepted_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    async with (
        open_store(url) as store,
        open_store(url) as other_store,
        an_agent(model=ScriptedModel(the_end="Here."), store=store) as one,
        an_agent(model=ScriptedModel(the_end="There."), store=other_store) as two,
        connected(one) as here,
        connected(two) as there,
    ):
        session = await here.new(tmp_path)
        await there.call("session/resume", sessionId=session, cwd="/", mcpServers=[])
        for number in range(10):
            await (here if number % 2 else there).prompted(session, f"Prompt {number}.")
        await here.until(lambda: len(here.updates("agent_message_chunk")) == 10)
        replies = [update["content"]["text"] for update in here.updates("agent_message_chunk")]
    assert replies == ["There.", "Here."] * 5


@pytest.mark.requirement("acp:restart:queued-prompts")
@on_pipes
async def test_after_a_restart_a_loaded_session_runs_what_was_queued(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    held = Held()
    async with open_store(url) as store, an_agent(held.line, store=store) as agent, connected(agent) as editor:
        session = await editor.new()
        editor.prompt(session, "One.")
        await held.begun.wait()
        editor.prompt(session, "Two.")
        await editor.call("session/inject_reminder", sessionId=session, body="Red.", ttlTurns=1)
    model = ScriptedModel(["Answered after the restart."])
    async with open_store(url) as store, an_agent(model=model, store=store) as agent, connected(agent) as editor:
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        reply = await editor.update("agent_message_chunk")
        found = await agent.store.find(session)
        assert found is not None
        drained = [one async for one in found.updates(follow=False) if one.kind == "reminder.injected"]
    assert reply["content"]["text"] == "Answered after the restart."
    assert "Two." in model.requests[0].text
    assert "Red." in model.requests[0].text
    assert len(drained) == 1


# Modes.


@pytest.mark.requirement("acp:mode:set")
@on_pipes
async def test_a_mode_is_told_to_every_client_and_lasts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    async with (
        open_store(url) as store,
        an_agent(store=store) as agent,
        connected(agent) as editor,
        connected(agent) as other,
    ):
        session = await editor.new()
        await other.call("session/resume", sessionId=session, cwd="/", mcpServers=[])
        await editor.call("session/set_mode", sessionId=session, modeId="edits")
        told_other = await other.update("current_mode_update")
        wrong = await refusal_of(editor.begin("session/set_mode", sessionId=session, modeId="yolo"))
    async with open_store(url) as store, an_agent(store=store) as agent, connected(agent) as editor:
        loaded = await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
    assert told_other["currentModeId"] == "edits"
    assert (wrong.code, wrong.data["field"]) == (-32602, "modeId")
    assert loaded["modes"]["currentModeId"] == "edits"
    assert [mode["id"] for mode in loaded["modes"]["availableModes"]] == ["ask", "edits", "read_only"]
