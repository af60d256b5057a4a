"""What the ACP agent advertises, and what each kind of client is told of reminders, messages and state."""

from typing import Any, Final

import pytest

from sideband.models.scripted import Line
from sideband.ports import ModelError
from sideband.runtime.session import Session
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
from tests.unit.protocols.schemas import validator

REMINDERS: Final = {
    "inject": True,
    "emit": True,
    "propagate": ["all", "session", "none"],
    "roleHints": ["system", "developer", "user_block", "ephemeral_cache"],
}
INJECT: Final = {
    "modes": ["queue", "steer"],
    "steerInStream": ["finish"],
    "steer_in_stream": ["finish"],
    "pending": {"replace": True},
}
ALL_MODES: Final = ["queue", "steer", "interrupt_immediate", "finish_step", "audit_only"]
# The updates of protocol version 2, and ours.
V2_UPDATES: Final = frozenset(
    {
        "user_message_chunk",
        "user_message",
        "agent_message_chunk",
        "agent_message",
        "state_update",
        "tool_call_update",
        "config_option_update",
        "session_info_update",
        "reminder_emitted",
        "reminder_deduped",
        "reminder_expired",
    }
)


# Capabilities.


@pytest.mark.requirement(
    "acp:capability:reminders-at-the-documents-place",
    "acp:capability:inject",
    "acp:capability:also-under-meta",
    "acp:capability:steering",
)
@on_pipes
async def test_reminders_and_injects_are_advertised_at_each_place() -> None:
    async with an_editor(version=None) as editor:
        first = await editor.initialize()
    async with an_editor(version=None) as editor:
        second = await editor.initialize(2)
    capabilities = first["agentCapabilities"]
    assert capabilities["reminders"] == REMINDERS
    assert capabilities["session"] == {"inject": INJECT}
    ours = {"reminders": REMINDERS, "inject": {**INJECT, "modes": ALL_MODES}}
    assert capabilities["_meta"]["sideband"] == second["capabilities"]["_meta"]["sideband"] == ours
    assert first["_meta"] == second["_meta"] == {"steering": {"supported": True}}
    validator("acp/capabilities", "AgentCapabilities").validate(capabilities)


# Reminder updates.


async def lived(editor: Editor) -> list[dict[str, Any]]:
    """The reminder updates of reminders that end in each way."""
    session = await editor.new()

    async def remind(body: str, **params: Any) -> str:  # noqa: ANN401 - of the method
        told = await editor.call("session/inject_reminder", sessionId=session, body=body, **params)
        reminder_id: str = told["reminderId"]
        return reminder_id

    for body in ("Old.", "Newer."):
        await remind(body, dedupeKey="build")
        await editor.prompted(session)
    await editor.call("_sideband/session/clear_reminders", sessionId=session, dedupeKey="build")
    await remind("Once.", ttlTurns=1, tags=["ci"])
    await editor.prompted(session)
    revoked = await remind("Never shown.")
    await editor.call("session/revoke_reminder", sessionId=session, reminderId=revoked)
    await editor.prompted(session)
    return editor.reminders()


@pytest.mark.requirement(
    "acp:update:fired-is-emitted",
    "acp:update:deduped",
    "acp:update:expired-phases",
    "acp:update:revoked-is-expired-as-cleared",
    "acp:update:others-are-not-sent",
    "acp:update:v1-clients-that-ask",
)
@on_pipes
async def test_the_life_of_reminders_is_told() -> None:
    async with an_editor(client=EMITS) as editor:
        told = await lived(editor)
    ids = {update.get("body"): update["reminderId"] for update in told}
    assert [(update["sessionUpdate"], update.get("body") or update.get("phase")) for update in told] == [
        ("reminder_emitted", "Old."),
        ("reminder_deduped", None),
        ("reminder_emitted", "Newer."),
        ("reminder_expired", "cleared"),
        ("reminder_emitted", "Once."),
        ("reminder_expired", "ttl_expired"),
        ("reminder_expired", "cleared"),
    ]
    assert told[1]["droppedReminderIds"] == [ids["Old."]]
    assert told[1]["reminderId"] == ids["Newer."]
    assert (told[5]["expiredAtTurn"], told[6]["_meta"]) == (3, {"sideband": {"event": "revoked"}})
    assert "Never shown." not in str(told)
    for update in told:
        validator("acp/session_update", "SessionUpdateParams").validate({"sessionId": "s", "update": update})


@pytest.mark.requirement(
    "acp:update:fired-at-turn-is-that-of-the-record", "acp:update:rendering-turn-and-role", "acp:update:harn-decoration"
)
@on_pipes
async def test_an_emitted_reminder_has_its_record_its_turn_and_its_role() -> None:
    async with an_editor(calling("list_dir"), "Done.", "Again.", client=EMITS) as editor:
        session = await editor.new()
        await editor.call("session/inject_reminder", sessionId=session, body="Red.", tags=["ci"], ttlTurns=9)
        await editor.prompted(session)
        first, second = [one for one in editor.reminders() if one["sessionUpdate"] == "reminder_emitted"]
        others = [one for one in editor.updates() if not one["sessionUpdate"].startswith("reminder_")]
    assert (first["firedAtTurn"], second["firedAtTurn"]) == (1, 1)
    assert [one["_meta"]["sideband"] for one in (first, second)] == [
        {"turn": 1, "renderedRole": "user"},
        {"turn": 2, "renderedRole": "user"},
    ]
    assert first["_meta"]["harn"]["reminder"] == {
        "id": first["reminderId"],
        "body": "Red.",
        "tags": ["ci"],
        "ttl_turns": 9,
        "preserve_on_compact": False,
        "propagate": "session",
        "role_hint": "system",
        "source": "bridge",
        "fired_at_turn": 1,
    }
    assert not any("harn" in (update.get("_meta") or {}) for update in others)


@pytest.mark.requirement("acp:update:other-v1-clients")
@on_pipes
async def test_other_clients_of_version_1_get_the_same_updates_inside_another_one() -> None:
    async with an_editor(client=EMITS) as editor:
        by_name = await lived(editor)
    async with an_editor() as editor:
        carried = await lived(editor)
        carriers = [one for one in editor.updates() if "sideband" in (one.get("_meta") or {})]
    assert kinds(carried) == kinds(by_name)
    assert set(kinds(carriers)) == {"session_info_update"}
    for carrier in carriers:
        update = carrier["_meta"]["sideband"]["update"]
        assert carrier["_meta"].get("harn") == (update.get("_meta") or {}).get("harn")
        validator("acp/session_update", "SessionUpdateParams").validate({"sessionId": "s", "update": carrier})


# Delivery of messages.


@pytest.mark.requirement("acp:v1:chunk-is-the-delivery", "acp:delivery:published-after-the-drain")
@on_pipes
async def test_a_delivered_message_has_the_id_that_was_agreed() -> None:
    held = Held(calling("list_dir"))
    async with an_editor(held.line, "Done.") as editor:
        session = await editor.new()
        turn = editor.prompt(session, "Go on.")
        await held.begun.wait()
        steer = await editor.call("session/inject", sessionId=session, mode="steer", content=[text_block("Faster.")])
        assert editor.updates("user_message_chunk") == []
        held.release()
        await result_of(turn)
        told = kinds(editor.updates("tool_call", "user_message_chunk", "agent_message_chunk"))
        (chunk,) = editor.updates("user_message_chunk")
    assert told == ["tool_call", "user_message_chunk", "agent_message_chunk"]
    assert (chunk["messageId"], chunk["_meta"]) == (steer["messageId"], {"sideband": {"messageId": steer["messageId"]}})


# Version 2.


async def on_version_2(editor: Editor, session: str) -> list[dict[str, Any]]:
    """The updates of one turn, up to its end."""
    before = len(editor.frames)
    await editor.prompted(session)
    await editor.until(lambda: [one for one in editor.updates("state_update", after=before) if one["state"] == "idle"])
    return editor.updates(after=before)


@pytest.mark.requirement(
    "acp:v2:prompt-response",
    "acp:v2:user-message-is-the-delivery",
    "acp:v2:state-update",
    "acp:update:v2-clients",
    "acp:v2:names",
    "acp:v2:requires-action",
)
@on_pipes
async def test_a_turn_of_version_2() -> None:
    script: list[Line] = ["Named.", calling("run", command="true"), "Done."]
    async with an_editor(*script, version=2) as editor:
        session = await editor.new()
        await on_version_2(editor, session)
        await editor.call("_sideband/session/inject_reminder", sessionId=session, body="Red.", ttlTurns=1)
        updates = await on_version_2(editor, session)
        (question,) = [one["params"] for one in editor.frames if one.get("method") == "session/request_permission"]
        (answered,) = [one["result"] for one in editor.frames if one.get("id") == 5]
    states = [one["state"] for one in updates if one["sessionUpdate"] == "state_update"]
    assert states == ["running", "requires_action", "running", "idle"]
    assert updates[-1]["stopReason"] == "end_turn"
    (message,) = [one for one in updates if one["sessionUpdate"] == "user_message"]
    assert answered == {"messageId": message["messageId"]}
    assert message["content"] == [text_block("Go on.")]
    assert (question["title"], question["subject"]["type"]) == ("Run true", "tool_call")
    assert set(kinds(editor.updates())) <= V2_UPDATES


@pytest.mark.requirement("acp:v2:replay-from-start")
@on_pipes
async def test_a_client_of_version_2_resumes_with_or_without_the_past() -> None:
    async with an_agent(calling("list_dir"), "Done.") as agent, connected(agent, version=2) as editor:
        session = await editor.new()
        live = [one for one in await on_version_2(editor, session) if one["sessionUpdate"] != "state_update"]
        async with connected(agent, version=2) as late:
            await late.call("session/resume", sessionId=session, cwd="/", replayFrom={"type": "start"})
            await late.update("state_update")
            replayed = late.updates()
        async with connected(agent, version=2) as later:
            answer = await later.call("session/resume", sessionId=session, cwd="/")
            await later.update("state_update")
            nothing = later.updates()
            unknown = await refusal_of(later.begin("session/load", sessionId=session, cwd="/", mcpServers=[]))
    conversation = ["user_message", "tool_call_update", "tool_call_update", "agent_message_chunk", "state_update"]
    assert kinds(replayed) == conversation
    ids = [one["messageId"] for one in live if "messageId" in one]
    assert [one["messageId"] for one in replayed if "messageId" in one] == ids
    assert nothing == [{"sessionUpdate": "state_update", "state": "idle"}]
    assert answer["configOptions"][0]["currentValue"] == "ask"
    assert unknown.code == -32601


@pytest.mark.requirement("acp:v2:failed-turn")
@on_pipes
async def test_a_failed_turn_of_version_2_ends_with_an_error() -> None:
    async with an_editor(ModelError("no such model"), version=2) as editor:
        session = await editor.new()
        updates = await on_version_2(editor, session)
    assert (updates[-1]["stopReason"], updates[-1]["error"]["data"]) == ("error", {"reason": "model_failed"})


@pytest.mark.requirement("acp:v2:names")
@on_pipes
async def test_the_mode_is_an_option_in_version_2() -> None:
    async with an_editor(version=2) as editor:
        session = await editor.new()
        option = {"sessionId": session, "configId": "mode", "type": "id"}
        answer = await editor.call("session/set_config_option", **option, value="edits")
        told = await editor.update("config_option_update")
        wrong = [
            await refusal_of(editor.begin("session/set_config_option", **{**option, **change}))
            for change in ({"value": "yolo"}, {"configId": "model", "value": "x"})
        ]
    assert answer["configOptions"] == told["configOptions"]
    assert told["configOptions"][0]["currentValue"] == "edits"
    assert [error.data["field"] for error in wrong] == ["value", "configId"]


@pytest.mark.requirement("acp:v2:withdrawn-prompt")
@on_pipes
async def test_a_prompt_of_version_2_that_is_revoked_first_is_cancelled() -> None:
    held = Held()
    async with an_editor(held.line, version=2) as editor:
        session = await editor.new()
        await editor.prompted(session)
        await held.begun.wait()
        second = editor.prompt(session, "Second.")
        (row,) = (await editor.call("_sideband/session/pending_injections", sessionId=session))["injections"]
        await editor.call("_sideband/session/revoke_inject", sessionId=session, messageId=row["messageId"])
        assert (await refusal_of(second)).code == -32800
        held.release()


# Compaction.


@pytest.mark.requirement("acp:update:compaction")
@pytest.mark.parametrize(("client", "told"), [({}, 0), ({"session": {"compaction": {}}}, 1)])
@on_pipes
async def test_a_compaction_is_told_to_clients_that_want_it(client: dict[str, Any], told: int) -> None:
    async def compacted(messages: Any, _reminders: Any) -> Any:  # noqa: ANN401 - a compactor
        return messages[-1:]

    model = ScriptedModel(["One."] * 4, context_window=10)
    options = {"compactor": compacted}
    async with an_agent(model=model, options=options) as agent, connected(agent, **client) as editor:
        session = await editor.new()
        for number in range(3):
            await editor.prompted(session, f"Prompt {number} with some more words in it.")
        found = await agent.store.find(session)
        assert found is not None
        happened = await compactions(found)
        updates = editor.updates("compaction_update")
    assert happened
    assert len(updates) == told * happened
    assert {update["status"] for update in updates} == ({"completed"} if told else set())


async def compactions(session: Session) -> int:
    return len([one async for one in session.updates(follow=False) if one.kind == "compacted"])
