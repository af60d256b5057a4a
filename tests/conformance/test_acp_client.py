"""The ACP client: how it reads what an agent can do, and what it does where an agent can less."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sideband.core.errors import (
    AlreadyDelivered,
    AlreadyRevoked,
    NoRunningTurn,
    RateLimited,
    ReminderError,
    ReplaceNotSupported,
    UnknownMessage,
    UnknownPropagate,
    UnknownSession,
    UnsupportedMode,
)
from sideband.core.reminder import Draft, Propagate, RoleHint
from sideband.protocols.acp.client import (
    AgentFailed,
    AgentNotUnderstood,
    AgentSession,
    InjectRoute,
    LoginRequired,
    MessageReplaced,
    MessageSent,
    NotSupportedByAgent,
    PermissionRequest,
    Reminded,
    ReminderRoute,
    connect,
)
from sideband.protocols.acp.client.capabilities import CapabilityPlace, PeerCapabilities, read_capabilities
from sideband.protocols.acp.client.session import MARKER
from sideband.protocols.acp.messages import (
    EndPhase,
    PendingMessage,
    PendingReminder,
    ReminderDeduped,
    ReminderEmitted,
    ReminderExpired,
)
from sideband.protocols.frames import LineTransport
from sideband.protocols.jsonrpc import RpcError
from sideband.protocols.wire import SourceWord
from sideband.runtime.producer import RevokeStatus
from tests.acp_agents import SDK_AGENT, a_connection, in_time
from tests.acp_editor import an_agent
from tests.acp_scenes import Held, calling
from tests.piped import piped
from tests.programs import ROOT, run_sideband

REMINDERS = {"inject": True, "emit": True}
INJECT = {"modes": ["queue", "steer"], "steerInStream": ["finish"], "pending": {"replace": True}}
OURS = {"_meta": {"sideband": {"reminders": REMINDERS, "inject": INJECT}}}
STEERING = {"steering": {"supported": True}}


def capabilities_of(agent: Mapping[str, Any], **reply: Any) -> PeerCapabilities:  # noqa: ANN401 - members of a reply
    return read_capabilities({"protocolVersion": 1, "agentCapabilities": agent, **reply})


# What an agent can do.


@pytest.mark.requirement("acp:client:capability-places", "wire:capability:places-in-order")
def test_the_first_place_of_a_capability_counts() -> None:
    none, one = {"inject": False}, {"inject": True}
    places: list[tuple[CapabilityPlace, dict[str, Any]]] = [
        (CapabilityPlace.STANDARD, {"sessionCapabilities": {"reminders": one, "inject": INJECT}}),
        (CapabilityPlace.EXTENSION, {"_meta": {"sideband": {"reminders": one, "inject": INJECT}}}),
        (CapabilityPlace.PROPOSED, {"reminders": one, "session": {"inject": INJECT}}),
        (CapabilityPlace.HARN, {"_meta": {"harn": {"reminders": {}}}}),
    ]
    for number, (place, here) in enumerate(places):
        found = capabilities_of(here)
        assert found.reminders is not None
        assert (found.reminders.place, found.reminders.inject) == (place, True)
        assert place is CapabilityPlace.HARN or (found.inject is not None and found.inject.place is place)
        later = [there for _, there in places[number + 1 :]]
        merged: dict[str, Any] = {"_meta": {}}
        for there in (*later, here):
            merged |= {name: value for name, value in there.items() if name != "_meta"}
            merged["_meta"] |= there.get("_meta", {})
        first = capabilities_of(merged)
        assert first.reminders is not None
        assert first.reminders.place is place
    outside = read_capabilities({"_meta": {"harn": {"reminders": True}}}).reminders
    assert outside is not None
    assert (outside.place, outside.inject, outside.emit) == (CapabilityPlace.HARN, True, True)
    refusing = capabilities_of({"_meta": {"sideband": {"reminders": none}}, "reminders": one})
    assert refusing.reminders is not None
    assert not refusing.reminders.inject


@pytest.mark.requirement(
    "acp:client:capability-defaults", "wire:capability:absent-propagate", "wire:capability:absent-role-hints"
)
def test_absent_values_are_session_and_system() -> None:
    silent = capabilities_of({"reminders": {"inject": True}}).reminders
    assert silent is not None
    assert (silent.emit, silent.propagate, silent.role_hints) == (False, (Propagate.SESSION,), (RoleHint.SYSTEM,))
    telling = {"inject": True, "propagate": ["none", "elsewhere"], "roleHints": ["developer", 7]}
    told = capabilities_of({"reminders": telling}).reminders
    assert told is not None
    assert (told.propagate, told.role_hints) == ((Propagate.NONE,), (RoleHint.DEVELOPER,))


@pytest.mark.requirement("acp:capability:snake-twin-is-read")
@pytest.mark.parametrize("spelling", ["steerInStream", "steer_in_stream"])
def test_both_spellings_of_steer_in_stream_are_read(spelling: str) -> None:
    found = capabilities_of({"session": {"inject": {"modes": ["steer"], spelling: ["finish"]}}}).inject
    assert found is not None
    assert found.steer_in_stream == ("finish",)


@pytest.mark.requirement("acp:client:markers-of-version-2")
def test_an_empty_object_means_yes() -> None:
    inject: dict[str, Any] = {
        "modes": {"queue": {}, "steer": {}},
        "steerInStream": {"finish": {}},
        "pending": {"replace": {}},
    }
    found = read_capabilities(
        {
            "capabilities": {
                "session": {"inject": {}, "resume": {}, "list": {}},
                "_meta": {"sideband": {"reminders": {"inject": {}, "emit": {}}, "inject": inject}},
            },
            "_meta": {"steering": {"supported": {}}},
        }
    )
    assert found.reminders is not None
    assert (found.reminders.inject, found.reminders.emit) == (True, True)
    assert found.inject is not None
    assert (found.inject.modes, found.inject.can_replace) == (("queue", "steer"), True)
    assert (found.steers, found.resumes, found.lists, found.loads) == (True, True, True, False)


@pytest.mark.requirement("acp:client:malformed-capabilities")
@pytest.mark.parametrize("wrong", [None, True, "yes", 1, [], {"inject": "yes"}])
def test_what_is_malformed_counts_as_absent(wrong: object) -> None:
    found = read_capabilities(
        {"agentCapabilities": {"reminders": wrong, "session": wrong, "_meta": wrong}, "_meta": wrong}
    )
    assert found.reminders is None or not found.reminders.inject
    assert found.inject is None
    assert read_capabilities({"agentCapabilities": wrong}) == PeerCapabilities()


# Reminders.


@pytest.mark.requirement("acp:client:declares-emit")
@in_time
async def test_the_client_asks_for_reminder_updates_by_name() -> None:
    async with a_connection() as (_, agent):
        [params] = agent.sent("initialize")
    assert params["protocolVersion"] == 1
    assert params["clientCapabilities"] == {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "_meta": {"sideband": {"reminders": {"emit": True}}},
    }


@pytest.mark.requirement("acp:client:method-names", "acp:client:legacy-remind")
@pytest.mark.parametrize(
    ("capabilities", "method", "key"),
    [
        pytest.param(OURS, "_sideband/session/inject_reminder", "dedupeKey", id="extension"),
        pytest.param({**OURS, "reminders": REMINDERS}, "_sideband/session/inject_reminder", "dedupeKey", id="both"),
        pytest.param({"reminders": REMINDERS}, "session/inject_reminder", "dedupeKey", id="proposed"),
        pytest.param({"_meta": {"harn": {"reminders": True}}}, "session/remind", "dedupe_key", id="harn"),
        pytest.param(
            {"reminders": REMINDERS, "_meta": {"harn": {"reminders": True}}},
            "session/inject_reminder",
            "dedupeKey",
            id="proposed-and-harn",
        ),
    ],
)
@in_time
async def test_the_place_of_the_capability_decides_the_name(
    capabilities: dict[str, Any], method: str, key: str
) -> None:
    async with a_connection(capabilities, {method: {"reminderId": "r-1", "dedupedCount": 2}}) as (client, agent):
        reminded = await client.session("s").remind("The build is red.", dedupe_key="build", meta={"origin": "ci"})
    assert reminded == Reminded(ReminderRoute.ACCEPTED, "r-1", 2, {}, {})
    assert agent.methods() == [method]
    assert agent.sent(method) == [
        {"sessionId": "s", "body": "The build is red.", key: "build", "_meta": {"origin": "ci"}}
    ]


@pytest.mark.requirement("acp:client:hints-are-lowered", "wire:capability:hints-are-lowered-to-fit")
@pytest.mark.parametrize(
    ("supported", "wanted", "sent"),
    [
        pytest.param({}, {}, {}, id="nothing-asked-nothing-sent"),
        pytest.param(
            {},
            {"propagate": "all", "role_hint": "developer"},
            {"propagate": "session", "roleHint": "system"},
            id="absent",
        ),
        pytest.param({"propagate": ["none"]}, {}, {"propagate": "none"}, id="below-the-default"),
        pytest.param(
            {"roleHints": ["user_block", "developer"]},
            {"role_hint": "system"},
            {"roleHint": "developer"},
            id="next-lower",
        ),
        pytest.param({"propagate": ["all", "none"]}, {"propagate": "all"}, {"propagate": "all"}, id="supported"),
    ],
)
@in_time
async def test_hints_are_lowered_to_fit(
    supported: dict[str, Any], wanted: dict[str, Any], sent: dict[str, Any]
) -> None:
    method = "session/inject_reminder"
    async with a_connection({"reminders": {**REMINDERS, **supported}}, {method: {"reminderId": "r"}}) as (
        client,
        agent,
    ):
        reminded = await client.session("s").remind("x", **wanted)
    assert agent.sent(method) == [{"sessionId": "s", "body": "x", **sent}]
    effective = {"propagate": sent.get("propagate"), "role_hint": sent.get("roleHint")}
    for name, value in reminded.effective.items():
        assert (value, reminded.requested[name]) == (effective[name], wanted.get(name, "session"))
    lowered = {name for name, value in effective.items() if value is not None and value != wanted.get(name)}
    assert reminded.effective.keys() == lowered


@pytest.mark.requirement("acp:client:hints-are-lowered")
@in_time
async def test_hints_that_the_agent_lowers_are_told() -> None:
    clamped = {"requested": {"ttlTurns": 9, "mode": "interrupt_immediate"}, "effective": {"ttlTurns": 3, "mode": "x"}}
    method = "_sideband/session/inject_reminder"
    answer = {"reminderId": "r", "dedupedCount": 0, "_meta": {"sideband": clamped}}
    async with a_connection(OURS, {method: answer}) as (client, _):
        reminded = await client.session("s").remind("x", ttl_turns=9)
    assert reminded.requested == {"ttl_turns": 9, "mode": "interrupt_immediate"}
    assert reminded.effective == {"ttl_turns": 3, "mode": "x"}


@pytest.mark.requirement("acp:client:fallbacks", "acp:client:starts-no-turn")
@in_time
async def test_an_agent_without_reminders_is_sent_nothing() -> None:
    shown: list[tuple[str, Draft]] = []

    async def show(session: AgentSession, reminder: Draft) -> None:
        shown.append((session.id, reminder))

    for capabilities in ({}, {"reminders": {"inject": False, "emit": True}}):
        async with a_connection(capabilities) as (client, agent):
            assert await client.session("s").remind("x") == Reminded(ReminderRoute.SUPPRESSED)
            assert agent.methods() == []
        async with a_connection(capabilities, fallback="show", show=show) as (client, agent):
            assert await client.session("s").remind("x", tags=["ci"]) == Reminded(ReminderRoute.SHOWN)
            assert agent.methods() == []
    assert shown == [("s", Draft(body="x", tags=("ci",)))] * 2


@pytest.mark.requirement("acp:client:marked-message-only-if-asked", "acp:client:starts-no-turn")
@in_time
async def test_a_marked_message_goes_with_the_next_prompt_if_so_configured() -> None:
    answers = {"session/prompt": {"stopReason": "end_turn"}}
    async with a_connection({}, answers, fallback="marked_message") as (client, agent):
        session = client.session("s")
        assert (await session.remind("Red.", dedupe_key="build")).route is ReminderRoute.WITH_NEXT_PROMPT
        assert (await session.remind("Green.", dedupe_key="build")).deduped_count == 1
        assert (await session.remind("No pushes.")).deduped_count == 0
        assert (await session.remind("For the record.", mode="audit_only")).route is ReminderRoute.SUPPRESSED
        assert agent.methods() == []
        for _ in range(2):
            assert await session.prompt("Go on.") == "end_turn"
        first, second = agent.sent("session/prompt")
    assert [block["text"] for block in first["prompt"]] == [f"{MARKER}\nGreen.", f"{MARKER}\nNo pushes.", "Go on."]
    assert [block["text"] for block in second["prompt"]] == ["Go on."]


@pytest.mark.requirement("acp:client:marked-message-only-if-asked")
@in_time
async def test_a_marked_message_is_kept_if_the_agent_refuses_its_prompt() -> None:
    outcomes = iter([RpcError(-32000, "Authentication required"), {"stopReason": "end_turn"}])

    async with a_connection({}, {"session/prompt": lambda _params: next(outcomes)}, fallback="marked_message") as (
        client,
        agent,
    ):
        session = client.session("s")
        await session.remind("Red.")
        with pytest.raises(LoginRequired):
            await session.prompt("Go on.")
        await session.prompt("Again.")
        second = agent.sent("session/prompt")[1]
    assert [block["text"] for block in second["prompt"]] == [f"{MARKER}\nRed.", "Again."]


@pytest.mark.requirement("acp:client:errors-by-reason")
@pytest.mark.parametrize(
    ("code", "data", "expected"),
    [
        (-32602, {"reason": "unknown_propagate", "code": "HARN-RMD-005"}, UnknownPropagate),
        (-32010, {"reason": "already_delivered", "messageId": "m"}, AlreadyDelivered),
        (-32002, {"reason": "unknown_message_id", "field": "messageId", "messageId": "m"}, UnknownMessage),
        (-32010, {"reason": "rate_limited", "retryAfterMs": 250}, RateLimited),
        (-32010, {"reason": "no_such_reason"}, RpcError),
        (-32010, None, RpcError),
    ],
)
@in_time
async def test_a_reason_that_is_known_is_its_error(
    code: int, data: dict[str, Any] | None, expected: type[Exception]
) -> None:
    refused = RpcError(code, "Inject precondition failed", data)
    async with a_connection({"session": {"inject": INJECT}}, {"session/revoke_inject": refused}) as (client, _):
        with pytest.raises(expected) as raised:
            await client.session("s").revoke_message("m")
    error = raised.value
    assert isinstance(error, RpcError) or isinstance(error.__cause__, RpcError)
    if isinstance(error, UnknownMessage):
        assert (error.field, error.value) == ("messageId", "m")
    if isinstance(error, RateLimited):
        assert error.retry_after_ms == 250
    elif isinstance(error, ReminderError):
        assert "Inject precondition failed" in str(error)


# Updates.


@pytest.mark.requirement("acp:client:reads-every-form-of-update")
@in_time
async def test_reminder_updates_are_read_in_every_form() -> None:
    emitted = {"sessionUpdate": "reminder_emitted", "reminderId": "r-1", "body": "x", "source": "hook"}
    deduped = {
        "sessionUpdate": "reminder_deduped",
        "reminderId": "r-2",
        "dedupeKey": "k",
        "droppedReminderIds": ["r-1"],
    }
    expired = {"sessionUpdate": "reminder_expired", "reminderId": "r-2", "phase": "cleared"}
    record = {"id": "r-3", "body": "y", "source": "stdlib_provider", "tags": ["t"], "fired_at_turn": 4}
    decorated = {"sessionUpdate": "agent_message_chunk", "_meta": {"harn": {"reminder": record}}}
    async with a_connection() as (client, agent):
        of_session, of_all = client.session("s").reminder_updates(), client.reminder_updates()
        agent.update("s", **emitted, _meta={"harn": {"reminder": record}})
        agent.update("other", **expired)
        agent.update("s", sessionUpdate="session_info_update", _meta={"sideband": {"update": deduped}})
        agent.update("s", sessionUpdate="plan", entries=[])
        agent.update("s", **{**emitted, "source": "elsewhere"})
        for _ in range(2):
            agent.update("s", **decorated)
        agent.update("s", **expired, _meta={"sideband": 7})
        got = [await anext(of_session) for _ in range(4)]
        assert [(await anext(of_all))[0] for _ in range(5)] == ["s", "other", "s", "s", "s"]
    assert got == [
        ReminderEmitted(reminder_id="r-1", body="x", source=SourceWord.HOOK),
        ReminderDeduped(reminder_id="r-2", dedupe_key="k", dropped_reminder_ids=("r-1",)),
        ReminderEmitted(reminder_id="r-3", body="y", source=SourceWord.PROVIDER, tags=("t",), fired_at_turn=4),
        ReminderExpired(reminder_id="r-2", phase=EndPhase.CLEARED),
    ]


# Messages while a turn runs.


@pytest.mark.requirement("acp:client:method-names", "acp:client:edit-only-with-pending-replace")
@pytest.mark.parametrize(("capabilities", "prefix"), [(OURS, "_sideband/"), ({"session": {"inject": INJECT}}, "")])
@in_time
async def test_a_message_is_sent_edited_and_revoked(capabilities: dict[str, Any], prefix: str) -> None:
    answers = {
        f"{prefix}session/inject": {"messageId": "m-1"},
        f"{prefix}session/replace_inject": {"messageId": "m-1", "status": "replaced"},
        f"{prefix}session/revoke_inject": {},
    }
    async with a_connection(capabilities, answers) as (client, agent):
        session = client.session("s")
        assert await session.inject("Use tabs.", mode="queue") == MessageSent(InjectRoute.ACCEPTED, "m-1")
        assert await session.replace_message("m-1", "Use spaces.") == MessageReplaced("m-1", kept_position=True)
        assert await session.revoke_message("m-1") is RevokeStatus.REVOKED
        with pytest.raises(UnsupportedMode):
            await session.inject("x", mode="interrupt_immediate")
        assert agent.methods() == [*answers]
        assert agent.sent(f"{prefix}session/inject") == [
            {"sessionId": "s", "mode": "queue", "content": [{"type": "text", "text": "Use tabs."}]}
        ]


@pytest.mark.requirement("acp:client:edit-only-with-pending-replace", "acp:client:withdrawn-is-not-sent-again")
@in_time
async def test_without_pending_replace_a_message_is_revoked_and_sent_anew() -> None:
    ids = iter(["m-1", "m-2"])
    answers = {
        "session/inject": lambda _: {"messageId": next(ids)},
        "session/revoke_inject": {"status": "revoked"},
    }
    capabilities = {"session": {"inject": {"modes": ["queue"]}}}
    async with a_connection(capabilities, answers) as (client, agent):
        session = client.session("s")
        await session.inject("Use tabs.", mode="queue")
        assert await session.replace_message("m-1", "Use spaces.") == MessageReplaced("m-2", kept_position=False)
        assert agent.methods() == ["session/inject", "session/revoke_inject", "session/inject"]
        assert agent.sent("session/inject")[1]["mode"] == "queue"
        agent.answers["session/revoke_inject"] = {"status": "already_revoked"}
        with pytest.raises(AlreadyRevoked):
            await session.replace_message("m-2", "Use both.")
        agent.answers["session/revoke_inject"] = RpcError(-32010, "Too late", {"reason": "already_delivered"})
        with pytest.raises(AlreadyDelivered):
            await session.replace_message("m-2", "Use both.")
        assert len(agent.sent("session/inject")) == 2


@pytest.mark.requirement("acp:replace:method-not-found")
@in_time
async def test_an_unknown_method_on_replace_is_replace_not_supported() -> None:
    async with a_connection({"session": {"inject": INJECT}}) as (client, _):
        with pytest.raises(ReplaceNotSupported):
            await client.session("s").replace_message("m-1", "x")


@pytest.mark.requirement("acp:client:steering")
@in_time
async def test_a_message_is_steered_where_that_is_all_an_agent_supports() -> None:
    async with a_connection({}, {"_session/steering": {"outcome": "injected"}}, meta=STEERING) as (client, agent):
        session = client.session("s")
        assert await session.inject("Stop.") == MessageSent(InjectRoute.INJECTED)
        [params] = agent.sent("_session/steering")
        assert params == {
            "sessionId": "s",
            "prompt": [{"type": "text", "text": "Stop."}],
            "_meta": {"steering": {"idleBehavior": "promptRequired"}},
        }
        agent.answers["_session/steering"] = {"outcome": "startedNewTurn"}
        assert await session.inject("Stop.") == MessageSent(InjectRoute.STARTED_NEW_TURN)
        agent.answers["_session/steering"] = {"outcome": "promptRequired", "reason": "noRunningTurn"}
        with pytest.raises(NoRunningTurn):
            await session.inject("Stop.")
        agent.answers["_session/steering"] = {"outcome": "failed"}
        with pytest.raises(RpcError, match="could not add the message"):
            await session.inject("Stop.")
        agent.answers["_session/steering"] = {"outcome": "perhaps"}
        with pytest.raises(AgentNotUnderstood):
            await session.inject("Stop.")
        with pytest.raises(UnsupportedMode, match="send it as a prompt"):
            await session.inject("Later.", mode="queue")
        assert len(agent.sent("_session/steering")) == 5


@pytest.mark.requirement("acp:client:without-inject")
@in_time
async def test_without_inject_and_steering_only_cancel_is_left() -> None:
    async with a_connection() as (client, agent):
        session = client.session("s")
        with pytest.raises(NotSupportedByAgent, match=r"all there is is session/cancel"):
            await session.inject("Stop.")
        for refused in (
            session.revoke_message("m"),
            session.replace_message("m", "x", mode="steer"),
            session.pending(),
        ):
            with pytest.raises(NotSupportedByAgent):
                await refused
        assert agent.methods() == []


# Sessions.


@pytest.mark.requirement("acp:client:unknown-session")
@pytest.mark.parametrize("code", [-32002, -32602, -32603])
@in_time
async def test_each_code_for_an_unknown_session_is_understood(code: int) -> None:
    capabilities = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
    refused = RpcError(code, "Internal error", {"details": "no rollout found"})
    async with a_connection(capabilities, {"session/load": refused, "session/resume": refused}) as (client, _):
        for opened in (client.load_session("s"), client.resume_session("s")):
            with pytest.raises(UnknownSession, match="no rollout found"):
                await opened


@pytest.mark.requirement("acp:client:unanswered-requests")
@in_time
async def test_requests_without_a_callback_are_refused() -> None:
    reject = {"optionId": "no", "name": "No", "kind": "reject_once"}
    allow = {"optionId": "yes", "name": "Yes", "kind": "allow_once"}
    async with a_connection() as (_, agent):
        for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create", "_vendor/ask"):
            assert (await agent.ask(method, {"sessionId": "s"}))["error"]["code"] == -32601
        asked = {"sessionId": "s", "toolCall": {}, "options": [allow, reject]}
        refused = await agent.ask("session/request_permission", asked)
        assert refused["result"] == {"outcome": {"outcome": "selected", "optionId": "no"}}
        cancelled = await agent.ask("session/request_permission", {**asked, "options": [allow]})
        assert cancelled["result"] == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.requirement("acp:client:cancel-answers-permissions")
@in_time
async def test_a_cancel_answers_the_open_questions() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()

    async def ask(_request: PermissionRequest) -> str | None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    async with a_connection(ask_permission=ask) as (client, agent):
        question = asyncio.ensure_future(
            agent.ask("session/request_permission", {"sessionId": "s", "toolCall": {}, "options": []})
        )
        await asked.wait()
        client.session("other").cancel()
        client.session("s").cancel()
        assert (await question)["result"] == {"outcome": {"outcome": "cancelled"}}
        assert ended.is_set()
        assert agent.sent("session/cancel") == [{"sessionId": "other"}, {"sessionId": "s"}]


# Agents that cannot be used.


@pytest.mark.requirement("acp:client:version")
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"protocolVersion": 2, "capabilities": {}}, r"speaks version 2 of ACP, and this client speaks version 1"),
        ({"protocolVersion": "1"}, r"answered initialize with .*, which is not ACP"),
        ({}, r"which is not ACP"),
        (None, r"which is not ACP"),
        (RpcError(-32603, "broken"), r"refused to begin a connection \(broken\)"),
    ],
)
@in_time
async def test_an_agent_of_another_version_is_refused(reply: object, said: str) -> None:
    with pytest.raises(AgentNotUnderstood, match=said):
        async with a_connection({}, {"initialize": reply}):
            pass


# (program, what the error says; the program has one line on standard error)
BAD_AGENTS = {
    "dies-at-once": ("import sys; sys.exit(7)", r"ended with exit code 7 before it answered initialize"),
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", r"was killed by signal 9"),
    "closes-its-output": ("import os, time; os.close(1); time.sleep(60)", r"closed its standard output before"),
    "never-answers": ("import time; time.sleep(60)", r"did not answer within 0\.5 s; check that the command"),
    "prints-a-prompt": (
        "print('Welcome! Type a question:', flush=True); input(); import time; time.sleep(60)",
        r"wrote 1 line that are not ACP, first 'Welcome! Type a question:'",
    ),
    "floods-with-junk": ("while True: print('x' * 1000)", r"lines that are not ACP, first 'xxx"),
    "floods-with-broken-frames": ("while True: print('{broken')", r"(did not answer within|does not read)"),
    "floods-without-lines": ("import sys\nwhile True: sys.stdout.write('x' * 100_000)", r"did not answer within"),
    "floods-with-updates": (
        """while True: print('{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}')""",
        r"did not answer within",
    ),
    "answers-garbage": (
        """input(); print('{"jsonrpc":"2.0","id":1,"result":[1,2]}', flush=True); input()""",
        r"answered initialize with \[1, 2\], which is not ACP",
    ),
}


@pytest.mark.requirement("acp:client:failures-of-agents")
@pytest.mark.parametrize("name", BAD_AGENTS)
@in_time
async def test_an_agent_that_fails_is_an_error_that_says_how(name: str) -> None:
    program, said = BAD_AGENTS[name]
    told = "import sys; print('loading', file=sys.stderr, flush=True)\n"
    with pytest.raises(AgentFailed, match=said) as raised:
        async with connect([sys.executable, "-c", told + program], answer_seconds=0.5):
            pass
    if "did not answer" not in said:
        assert raised.value.stderr == "loading\n"
        assert str(raised.value).endswith("The end of its standard error:\nloading")


LEAVES_A_CHILD = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "stubborn" in sys.argv:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
subprocess.Popen(["sh", "-c", "exec sleep 60 > $0", sys.argv[1]], stdin=subprocess.DEVNULL)
input()
print('{"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}', flush=True)
sys.stdin.read()
while "stubborn" in sys.argv:
    signal.pause()
"""


@pytest.mark.requirement("acp:client:ends-the-process-group")
@pytest.mark.parametrize("how", ["willing", "stubborn"])
@in_time
async def test_the_process_group_of_an_agent_is_ended(how: str, tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    async with connect([sys.executable, "-c", LEAVES_A_CHILD, str(held), how]) as agent:
        assert agent.capabilities == PeerCapabilities()
        # The child holds the pipe open for writing, so it ends when the last process of the group has ended.
        ended = asyncio.create_task(asyncio.to_thread(held.read_bytes))
    assert await ended == b""


# The command line.


def a_stored_session(tmp_path: Path) -> tuple[str, str]:
    """A session of our own agent: the command that starts the agent, and the id of the session."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    command = f"{sys.executable} -m sideband.cli acp --store {url}"

    async def begin() -> str:
        async with connect(command, cwd=ROOT) as agent:
            return (await agent.new_session(tmp_path)).id

    return command, asyncio.run(asyncio.wait_for(begin(), 60))


def answered(*arguments: str) -> Any:  # noqa: ANN401 - any JSON value
    answer = run_sideband(*arguments, "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    return json.loads(answer.stdout)


@pytest.mark.requirement("acp:client:command-line-target")
def test_the_commands_reach_a_session_of_an_agent(tmp_path: Path) -> None:
    command, session_id = a_stored_session(tmp_path)
    to = ("--to", f"acp:{command}#{session_id}")
    first = answered("remind", "The build is red.", "--key", "build", "--ttl", "2", "--id", "deploy-7", *to)
    assert first == {"session": session_id, "reminder_id": "deploy-7", "deduped_count": 0}
    assert answered("remind", "Never force-push.", *to)["deduped_count"] == 0
    rows = answered("pending", *to)["pending"]
    assert [row["reminder"]["body"] for row in rows] == ["The build is red.", "Never force-push."]
    assert rows[0]["reminder"]["dedupe_key"] == "build"
    assert run_sideband("pending", *to).stdout.endswith(f"session {session_id}: 2 queued\n")
    assert answered("revoke", "deploy-7", *to)["status"] == "revoked"
    assert answered("clear", "--id", rows[1]["id"], *to)["removed_count"] == 1
    idle = run_sideband("inject", "Use tabs.", *to)
    assert (idle.returncode, idle.stdout) == (1, "")
    assert "no turn is running" in idle.stderr
    queued = run_sideband("inject", "Use tabs.", "--mode", "queue", *to)
    assert (queued.returncode, queued.stdout) == (2, "")
    assert "would end with this command" in queued.stderr


@pytest.mark.requirement("acp:client:command-line-target")
def test_an_agent_that_cannot_do_it_is_a_clear_error(tmp_path: Path) -> None:
    command, session_id = a_stored_session(tmp_path)
    for to, said in (
        (f"acp:{command}#lost", f"error: the agent has no session 'lost'\n  {session_id}"),
        (f"acp:{' '.join(SDK_AGENT)}#lost", "error: the agent has no session 'lost'\n  listed-0  Title 0  /\n"),
        (f"acp:{' '.join(SDK_AGENT)}#s", "error: the agent takes no reminders"),
        (f"acp:{sys.executable} -c 'exit(\"no key\")'#s", "ended with exit code 1 before it answered initialize"),
        (f"acp:{tmp_path}/none#s", "No such file or directory; check the spelling"),
        ("acp:agent", "error: --to must name an agent and a session: acp:COMMAND#ID"),
    ):
        answer = run_sideband("remind", "x", "--to", to)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert said in answer.stderr
    for arguments in (("remind", "x", "--store", "user:"), ("transcript",)):
        answer = run_sideband(*arguments, "--to", f"acp:{command}#{session_id}")
        assert (answer.returncode, answer.stdout) == (2, "")


# A real agent.


@pytest.mark.requirement("acp:client:sessions")
@in_time
async def test_an_agent_on_the_official_sdk_is_driven(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not saved yet", encoding="utf-8")

    async def read(params: dict[str, Any]) -> dict[str, Any]:
        return {"content": await asyncio.to_thread(Path(params["path"]).read_text, encoding="utf-8")}

    async def ask(request: PermissionRequest) -> str | None:
        assert (request.session_id, request.tool_call["title"]) == (session.id, "Delete")
        return str(request.options[0]["optionId"])

    async with connect(SDK_AGENT, ask_permission=ask, answers={"fs/read_text_file": read}) as agent:
        session = await agent.new_session(tmp_path)
        assert session.id == f"s:{tmp_path}"
        for prompt, expected in (("hi", "hi"), (f"read {tmp_path / 'notes.txt'}", "not saved yet"), ("ask", "yes")):
            turn = session.prompt(prompt)
            assert [update["content"]["text"] async for update in turn] == [expected]
            assert turn.stop_reason == "end_turn"
        turn = session.prompt("wait")
        await anext(turn)
        session.cancel()
        assert await turn == "cancelled"
        assert [listed.title async for listed in agent.list_sessions()] == ["Title 0", "Title 1"]
        replay = agent.updates()
        loaded = await agent.load_session("old")
        assert (await anext(replay))[1]["content"]["text"] == "what was said before"
        with pytest.raises(UnknownSession):
            await agent.load_session("lost")
        with pytest.raises(NotSupportedByAgent):
            await agent.resume_session("old")
        await loaded.close()


@pytest.mark.requirement("acp:client:sessions", "acp:client:method-names")
@in_time
async def test_the_client_and_the_agent_of_sideband_understand_each_other(tmp_path: Path) -> None:
    held = Held(calling("write_file", path="notes.txt", content="x"))
    asked: list[PermissionRequest] = []

    async def ask(request: PermissionRequest) -> str | None:
        asked.append(request)
        return None

    async with (
        an_agent(held.line, "I was told.") as served,
        piped() as (transport, far),
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(served.serve(LineTransport(far.reader, far.writer)))
        async with connect(transport, ask_permission=ask) as client:
            session = await client.new_session(tmp_path)
            lifecycle = session.reminder_updates()
            turn = session.prompt("Write the notes.")
            await held.begun.wait()
            reminded = await session.remind("The build is red.", dedupe_key="build")
            newer = await session.remind("The build is green.", dedupe_key="build")
            assert newer.deduped_count == 1
            assert reminded.reminder_id is not None
            assert await session.inject("Use tabs.") != await session.inject("Then stop.")
            reminder, first, second = await session.pending()
            assert isinstance(reminder, PendingReminder)
            assert isinstance(first, PendingMessage)
            assert isinstance(second, PendingMessage)
            assert reminder.body == "The build is green."
            assert await session.replace_message(first.message_id, "Use spaces.") == MessageReplaced(
                first.message_id, kept_position=True
            )
            assert await session.revoke_message(second.message_id) is RevokeStatus.REVOKED
            assert await session.revoke_message(second.message_id) is RevokeStatus.ALREADY_REVOKED
            held.release()
            updates = [update async for update in turn]
            assert turn.stop_reason == "end_turn"
            assert [request.tool_call["toolCallId"] for request in asked] == ["c-1"]
            delivered = [update for update in updates if update["sessionUpdate"] == "user_message_chunk"]
            assert [update["content"]["text"] for update in delivered] == ["Use spaces."]
            with pytest.raises(AlreadyDelivered):
                await session.replace_message(first.message_id, "Use both.")
            deduped, emitted = await anext(lifecycle), await anext(lifecycle)
            assert isinstance(deduped, ReminderDeduped)
            assert deduped.dropped_reminder_ids == (reminded.reminder_id,)
            assert isinstance(emitted, ReminderEmitted)
            resumed = await client.resume_session(session.id)
            with pytest.raises(UnknownMessage):
                await resumed.revoke_message("m")
            with pytest.raises(UnknownSession):
                await client.session("lost").remind("x")


@pytest.mark.requirement("acp:client:method-names")
@in_time
async def test_an_agent_with_the_proposed_names_is_told_reminders() -> None:
    async with connect([*SDK_AGENT, "reminders"]) as agent:
        session = await agent.new_session()
        lifecycle = session.reminder_updates()
        reminded = await session.remind("The build is red.", role_hint="developer")
        assert (reminded.reminder_id, reminded.effective) == ("r-1", {"role_hint": "system"})
        emitted = await anext(lifecycle)
        assert isinstance(emitted, ReminderEmitted)
        assert (emitted.reminder_id, emitted.body) == ("r-1", "The build is red.")
        assert await session.inject("Then test.", mode="queue") == MessageSent(InjectRoute.ACCEPTED, "m-1")
        with pytest.raises(NoRunningTurn):
            await session.inject("Stop.")
        with pytest.raises(NotSupportedByAgent):
            await session.pending()
