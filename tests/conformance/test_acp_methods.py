"""The reminder and inject methods of the ACP agent: every spelling, field, answer and error."""

from typing import Any, Final

import pytest

from sideband.core.limits import Limits, Rate
from sideband.core.trust import Trust
from sideband.core.updates import ReminderUpdate, UpdateKind
from sideband.protocols.acp.methods import METHODS
from sideband.testing import ScriptedModel
from tests.acp_editor import (
    EMITS,
    an_agent,
    an_editor,
    connected,
    on_pipes,
    refusal_of,
    result_of,
    text_block,
)
from tests.acp_scenes import Held, calling

BODY: Final = "The build is red."


# Reminders.


@pytest.mark.requirement("acp:inject_reminder:reminder-id", "acp:inject_reminder:deduped-count")
@on_pipes
async def test_an_accepted_reminder_is_answered_with_its_id_and_how_many_it_replaced() -> None:
    async with an_editor(client=EMITS) as editor:
        session = await editor.new()
        first = await editor.call("session/inject_reminder", sessionId=session, body="Red.", dedupeKey="build")
        second = await editor.call("session/inject_reminder", sessionId=session, body="Green.", dedupeKey="build")
        await editor.prompted(session)
        (emitted,) = [told for told in editor.reminders() if told["sessionUpdate"] == "reminder_emitted"]
    assert (first["dedupedCount"], second["dedupedCount"]) == (0, 1)
    assert emitted["reminderId"] == second["reminderId"]


@pytest.mark.requirement("acp:names:prefixed-twins")
@pytest.mark.parametrize("prefix", ["", "_sideband/"])
@on_pipes
async def test_every_method_has_a_twin_with_a_prefix(prefix: str) -> None:
    async with an_editor() as editor:
        session = await editor.new()

        async def call(name: str, **params: Any) -> Any:  # noqa: ANN401 - of any method
            return await editor.call(f"{prefix}{name}", sessionId=session, **params)

        reminder = (await call("session/inject_reminder", body=BODY))["reminderId"]
        assert (await call("session/remind", body=BODY))["dedupedCount"] == 0
        assert (await call("session/pending_injections"))["pendingCount"] == 2
        assert await call("session/revoke_reminder", reminderId=reminder) == {"status": "revoked"}
        refused = await refusal_of(
            editor.begin(f"{prefix}session/inject", sessionId=session, mode="steer", content=[text_block("x")])
        )
        assert refused.data["reason"] == "no_running_turn"
        for name in ("session/revoke_inject", "session/replace_inject"):
            refused = await refusal_of(
                editor.begin(f"{prefix}{name}", sessionId=session, messageId="m", content=[text_block("x")])
            )
            assert refused.data["reason"] == "unknown_message_id"


@pytest.mark.requirement("acp:names:prefixed-twins")
def test_the_twins_are_served_by_the_same_handlers() -> None:
    plain = {name: method for name, method in METHODS.items() if name.startswith("session/")}
    assert {name: METHODS[f"_sideband/{name}"] for name in plain} == plain


LEGACY: Final = {"body": BODY, "tags": ["ci"], "dedupe_key": "build", "ttl_turns": 2, "propagate": "none"}


@pytest.mark.requirement("acp:remind:deprecated-alias", "acp:remind:flat-or-nested", "acp:remind:fields-from-harn-meta")
@pytest.mark.parametrize(
    "params",
    [
        pytest.param(LEGACY, id="flat"),
        pytest.param({"reminder": LEGACY}, id="nested"),
        pytest.param({"_meta": {"harn": {"reminder": LEGACY}}}, id="in-meta"),
        pytest.param({"body": BODY, "_meta": {"harn": {"reminder": {**LEGACY, "body": "Another."}}}}, id="completed"),
    ],
)
@on_pipes
async def test_the_deprecated_method_reads_each_form_and_says_that_it_is_deprecated(params: dict[str, Any]) -> None:
    async with an_editor() as editor:
        session = await editor.new()
        answer = await editor.call("session/remind", sessionId=session, **params)
        (row,) = (await editor.call("session/pending_injections", sessionId=session))["injections"]
    assert answer["_meta"] == {"sideband": {"deprecated": True}}
    assert row == {
        "kind": "reminder",
        "position": 0,
        "mode": "finish_step",
        "reminderId": answer["reminderId"],
        "body": BODY,
        "tags": ["ci"],
        "dedupeKey": "build",
        "ttlTurns": 2,
        "roleHint": "system",
        "source": "host",
    }


@pytest.mark.requirement("acp:remind:without-a-session-id")
@on_pipes
async def test_a_reminder_without_a_session_goes_to_the_only_one() -> None:
    async with an_editor() as editor:
        refused = [await refusal_of(editor.begin("session/remind", body=BODY))]
        session = await editor.new()
        await editor.call("session/remind", body=BODY)
        assert (await editor.call("session/pending_injections", sessionId=session))["pendingCount"] == 1
        await editor.new()
        refused.append(await refusal_of(editor.begin("session/remind", body=BODY)))
    async with an_editor() as editor:
        session = await editor.new()
        for number in range(20):
            told = editor.begin("session/remind", body=BODY, tags=[f"t-{number}"])
            cleared = editor.begin("_sideband/session/clear_reminders", sessionId=session, tag=f"t-{number}")
            await result_of(told)
            assert await result_of(cleared) == {"removedCount": 1}
    assert [(error.code, error.data["field"]) for error in refused] == [(-32602, "sessionId")] * 2


@pytest.mark.requirement(
    "acp:remind:request-or-notification",
    "acp:remind:notification-is-not-answered",
    "wire:notification:invalid-has-no-reply",
)
@on_pipes
async def test_a_notification_is_accepted_without_an_answer_and_a_refused_one_is_recorded() -> None:
    async with an_agent() as agent, connected(agent) as editor:
        session_id = await editor.new()
        before = len(editor.frames)
        editor.notify("session/remind", sessionId=session_id, body=BODY)
        editor.notify("session/remind", sessionId=session_id, body=BODY, ttl_turns=0)
        editor.notify("session/remind", sessionId="nope", body=BODY)
        pending = await editor.call("session/pending_injections", sessionId=session_id)
        session = await agent.store.find(session_id)
        assert session is not None
        await session.intake.write()
        told = [one async for one in session.updates(follow=False)]
    assert [row["body"] for row in pending["injections"]] == [BODY]
    assert len(editor.frames) == before + 1
    dropped = [one for one in told if isinstance(one, ReminderUpdate) and one.kind is UpdateKind.REMINDER_DROPPED]
    assert [(one.reason, one.at_the_door) for one in dropped] == [("invalid", True)]


@pytest.mark.requirement("acp:revoke_reminder:withdraws", "acp:pending_injections:lists-the-inbox")
@on_pipes
async def test_a_queued_reminder_is_listed_until_it_is_revoked() -> None:
    async with an_editor() as editor:
        session = await editor.new()
        reminder = (await editor.call("session/inject_reminder", sessionId=session, body=BODY))["reminderId"]
        listed = await editor.call("session/pending_injections", sessionId=session)
        statuses = [
            (await editor.call("session/revoke_reminder", sessionId=session, reminderId=reminder))["status"]
            for _ in range(2)
        ]
        left = await editor.call("session/pending_injections", sessionId=session)
    assert [(row["kind"], row["reminderId"]) for row in listed["injections"]] == [("reminder", reminder)]
    assert (statuses, left["pendingCount"]) == (["revoked", "already_revoked"], 0)


@pytest.mark.requirement("acp:clear_reminders:ends-queued-and-live", "acp:replace_reminder:replaces-the-body")
@on_pipes
async def test_clearing_ends_queued_and_live_reminders_and_replacing_changes_a_queued_one() -> None:
    async with an_editor(client=EMITS) as editor:
        session = await editor.new()
        await editor.call("session/inject_reminder", sessionId=session, body="Live.", tags=["ci"])
        await editor.prompted(session)
        queued = await editor.call("session/inject_reminder", sessionId=session, body="Queued.", tags=["ci", "x"])
        replaced = await editor.call(
            "_sideband/session/replace_reminder", sessionId=session, reminderId=queued["reminderId"], body="New."
        )
        (row,) = (await editor.call("session/pending_injections", sessionId=session))["injections"]
        counts = [
            (await editor.call("_sideband/session/clear_reminders", sessionId=session, **selector))["removedCount"]
            for selector in ({"tag": "ci", "dedupeKey": "none"}, {"tag": "ci"}, {"tag": "ci"})
        ]
        unselected = await refusal_of(editor.begin("_sideband/session/clear_reminders", sessionId=session))
        await editor.until(lambda: len(editor.reminders()) == 3)
    assert replaced == {"reminderId": queued["reminderId"], "status": "replaced"}
    assert (row["body"], row["position"]) == ("New.", 0)
    assert counts == [0, 2, 0]
    assert unselected.data["code"] == "HARN-RMD-001"
    assert [told["phase"] for told in editor.reminders()[1:]] == ["cleared", "cleared"]


@pytest.mark.requirement("acp:idempotency:key-in-meta")
@on_pipes
async def test_a_repeat_with_the_same_key_gets_the_same_answer() -> None:
    async with an_editor() as editor:
        session = await editor.new()
        keyed = {"sessionId": session, "_meta": {"sideband": {"idempotencyKey": "deploy-7"}}}
        answers = [await editor.call("session/inject_reminder", body=BODY, **keyed) for _ in range(2)]
        conflict = await refusal_of(editor.begin("session/inject_reminder", body="Another.", **keyed))
        pending = await editor.call("session/pending_injections", sessionId=session)
    assert answers[0] == answers[1]
    assert answers[0]["reminderId"] == "deploy-7"
    assert (conflict.code, conflict.data["reason"]) == (-32602, "idempotency_conflict")
    assert pending["pendingCount"] == 1


@pytest.mark.requirement("acp:meta:repeated-to-its-sender", "acp:meta:never-overrides")
@on_pipes
async def test_meta_is_repeated_to_its_sender_and_overrides_nothing() -> None:
    async with an_editor(client=EMITS) as editor:
        first, second = await editor.new(), await editor.new()
        ours = {"sideband": {"turn": 99, "event": "revoked"}, "harn": {"reminder": {"body": "Forged."}}}
        meta = {"trace": "t-1", "sessionId": second, "body": "Forged.", **ours}
        await editor.call("session/inject_reminder", sessionId=first, body=BODY, ttlTurns=1, _meta=meta)
        assert (await editor.call("session/pending_injections", sessionId=second))["pendingCount"] == 0
        await editor.prompted(first)
        emitted, expired = editor.reminders()
    assert (emitted["body"], emitted["_meta"]["trace"], emitted["_meta"]["sideband"]["turn"]) == (BODY, "t-1", 1)
    assert expired["_meta"] == {"trace": "t-1", "sessionId": second, "body": "Forged."}


@pytest.mark.requirement("acp:meta:repeated-to-its-sender")
@on_pipes
async def test_meta_of_a_message_is_repeated_when_it_is_delivered() -> None:
    async with an_editor() as editor:
        session = await editor.new()
        content = [text_block("Hello.")]
        await editor.call("session/inject", sessionId=session, mode="queue", content=content, _meta={"trace": "t-2"})
        chunk = await editor.update("user_message_chunk")
    assert chunk["_meta"] == {"trace": "t-2", "sideband": {"messageId": chunk["messageId"]}}


# Errors.

REFUSED: Final[dict[str, tuple[str, dict[str, Any], int, dict[str, Any]]]] = {
    "unknown-session": (
        "session/inject_reminder",
        {"sessionId": "nope", "body": BODY},
        -32002,
        {"reason": "unknown_session"},
    ),
    "unknown-option": (
        "session/inject_reminder",
        {"body": BODY, "ttl_turns": 2},
        -32602,
        {"reason": "unknown_option", "code": "HARN-RMD-001", "field": "ttl_turns"},
    ),
    "camel-case-in-remind": (
        "session/remind",
        {"body": BODY, "ttlTurns": 2},
        -32602,
        {"reason": "unknown_option", "code": "HARN-RMD-001", "field": "ttlTurns"},
    ),
    "beside-a-nested-reminder": (
        "session/remind",
        {"reminder": {"body": BODY}, "ttl_turns": 2},
        -32602,
        {"reason": "unknown_option", "code": "HARN-RMD-001", "field": "ttl_turns"},
    ),
    "content": ("session/inject_reminder", {"content": BODY}, -32602, {"reason": "invalid_reminder"}),
    "blank-body": ("session/inject_reminder", {"body": " "}, -32602, {"code": "HARN-RMD-002", "field": "body"}),
    "id": ("session/inject_reminder", {"body": BODY, "id": "x"}, -32602, {"code": "HARN-RMD-001", "field": "id"}),
    "propagate": (
        "session/inject_reminder",
        {"body": BODY, "propagate": "far"},
        -32602,
        {"reason": "unknown_propagate", "code": "HARN-RMD-005"},
    ),
    "reminder-mode": (
        "session/inject_reminder",
        {"body": BODY, "mode": "wait_for_completion"},
        -32602,
        {"reason": "unsupported_mode"},
    ),
    "unknown-reminder": (
        "session/revoke_reminder",
        {"reminderId": "r-1"},
        -32002,
        {"reason": "unknown_reminder_id", "reminderId": "r-1"},
    ),
    "unknown-message": (
        "session/revoke_inject",
        {"messageId": "m-1"},
        -32002,
        {"reason": "unknown_message_id", "messageId": "m-1"},
    ),
    "idle-steer": (
        "session/inject",
        {"mode": "steer", "content": [text_block("x")]},
        -32010,
        {"reason": "no_running_turn"},
    ),
    "blank-message": ("session/inject", {"mode": "queue", "content": []}, -32602, {"field": "content"}),
    "no-session": ("session/inject", {"sessionId": 7, "mode": "queue"}, -32602, {"field": "sessionId"}),
    "idle-behaviour": (
        "_session/steering",
        {"prompt": [text_block("x")], "_meta": {"steering": {"idleBehavior": "wait"}}},
        -32602,
        {"field": "_meta.steering.idleBehavior"},
    ),
}


@pytest.mark.requirement("acp:error:data", "acp:steering:idle-behaviour-is-checked")
@pytest.mark.parametrize("name", REFUSED)
@on_pipes
async def test_a_refused_request_names_its_reason_and_changes_nothing(name: str) -> None:
    method, params, code, data = REFUSED[name]
    async with an_editor() as editor:
        session = await editor.new()
        refused = await refusal_of(editor.begin(method, **{"sessionId": session, **params}))
        pending = await editor.call("session/pending_injections", sessionId=session)
    assert refused.code == code
    assert {key: refused.data.get(key) for key in data} == data
    assert refused.data["code"].startswith(("HARN-RMD-", "SIDEBAND-"))
    messages = {-32002: "Resource not found", -32010: "Inject precondition failed"}
    assert refused.message == messages.get(code, refused.message)
    assert pending["pendingCount"] == 0


@pytest.mark.requirement("acp:frames:large-body", "trust:rate:excess-is-refused")
@on_pipes
async def test_limits_of_size_number_and_rate_are_explicit_errors() -> None:
    limits = Limits(
        pending_per_source={Trust.CONTROLLER: 2}, accept_rate={Trust.CONTROLLER: Rate(per_second=0.001, burst=3)}
    )
    async with an_editor(limits=limits) as editor:
        session = await editor.new()
        bodies = ["x" * 1_000_000, BODY, BODY, BODY, BODY]
        answers = [await editor.begin("session/inject_reminder", sessionId=session, body=body) for body in bodies]
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert [(error["code"], error["data"]["reason"]) for error in errors] == [
        (-32010, "body_too_large"),
        (-32010, "too_many_pending"),
        (-32010, "rate_limited"),
    ]
    assert errors[2]["data"]["retryAfterMs"] > 0


# User messages.


@pytest.mark.requirement("acp:capability:mode-not-advertised")
@on_pipes
async def test_an_unknown_mode_is_refused_and_never_served_as_another_one() -> None:
    async with an_editor() as editor:
        session = await editor.new()
        refused = await refusal_of(
            editor.begin("session/inject", sessionId=session, mode="later", content=[text_block("x")])
        )
        assert (await editor.call("session/pending_injections", sessionId=session))["pendingCount"] == 0
    assert (refused.code, refused.data["reason"]) == (-32602, "unsupported_mode")


@pytest.mark.requirement("acp:inject:until-delivered")
@on_pipes
async def test_a_queued_message_can_be_replaced_and_revoked_until_it_is_delivered() -> None:
    held = Held()
    async with an_editor(held.line, "Second.") as editor:
        session = await editor.new()
        first = editor.prompt(session, "First.")
        await held.begun.wait()
        queued = await editor.call("session/inject", sessionId=session, mode="queue", content=[text_block("Old.")])
        message = {"sessionId": session, "messageId": queued["messageId"]}
        replaced = await editor.call("session/replace_inject", **message, content=[text_block("New.")])
        held.release()
        await result_of(first)
        chunk = await editor.update("user_message_chunk")
        late = await refusal_of(editor.begin("session/revoke_inject", **message))
    assert replaced == {"messageId": queued["messageId"], "status": "replaced"}
    assert (chunk["content"], chunk["messageId"]) == (text_block("New."), queued["messageId"])
    assert (late.code, late.data["reason"], late.data["messageId"]) == (
        -32010,
        "already_delivered",
        queued["messageId"],
    )


@pytest.mark.requirement("acp:steering:same-handlers", "acp:steering:idle-session")
@on_pipes
async def test_steering_reaches_the_running_turn_or_starts_one_or_asks_for_a_prompt() -> None:
    held = Held(then=calling("list_dir"))
    model = ScriptedModel([held.line, "Done.", "Started."])
    async with an_editor(model=model) as editor:
        session = await editor.new()
        steer = {"sessionId": session, "prompt": [text_block("Use the new API.")]}
        asked = await editor.call("_session/steering", **steer, _meta={"steering": {"idleBehavior": "promptRequired"}})
        turn = editor.prompt(session, "Go on.")
        await held.begun.wait()
        injected = await editor.call("_session/steering", **steer)
        held.release()
        await result_of(turn)
        started = await editor.call("_session/steering", **{**steer, "prompt": [text_block("Then this.")]})
        await editor.until(lambda: len(model.requests) == 3)
    assert asked == {"outcome": "promptRequired", "reason": "noRunningTurn"}
    assert (injected, started) == ({"outcome": "injected"}, {"outcome": "startedNewTurn"})
    assert "Use the new API." in model.requests[1].text
    assert "Then this." in model.requests[2].text
