"""The commands on a session of an agent over ACP: what they ask of the agent, and what they print."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pytest

from sideband.cli.agent_session import LISTED
from sideband.cli.clear import clear
from sideband.cli.inject import inject
from sideband.cli.pending import pending
from sideband.cli.remind import remind
from sideband.cli.revoke import revoke
from tests.acp_agents import a_table_agent

Captured = pytest.CaptureFixture[str]

LOADS = {"loadSession": True}
PROPOSED = {**LOADS, "reminders": {"inject": True}, "session": {"inject": {"modes": ["queue", "steer"]}}}
OURS = {**LOADS, "_meta": {"sideband": {"reminders": {"inject": True}, "inject": {"modes": ["steer"]}}}}
LOADED: dict[str, Any] = {"session/load": {"result": {}}}


def an_error(code: int, message: str, reason: str | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "data": {"reason": reason}}}


def a_target(capabilities: Mapping[str, Any], answers: Mapping[str, Any], meta: Mapping[str, Any] | None = None) -> str:
    """The target `--to` of session `s` of an agent with these capabilities and answers."""
    initialized = {"agentCapabilities": dict(capabilities), "_meta": dict(meta or {})}
    return f"acp:{shlex.join(a_table_agent(initialized, answers))}#s"


def test_a_reminder_is_sent_and_lowered_hints_are_printed(capsys: Captured) -> None:
    to = a_target(PROPOSED, {**LOADED, "session/inject_reminder": {"result": {"reminderId": "r", "dedupedCount": 1}}})
    assert remind("x", to=to, role_hint="developer") == 0
    assert capsys.readouterr().out == "accepted r for session s, which replaces 1 that waited, with role_hint system\n"
    assert remind("x", to=to, role_hint="developer", json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["requested"], told["effective"]) == ({"role_hint": "developer"}, {"role_hint": "system"})
    assert remind("x", to=to, id="k") == 2
    assert "the agent does not support idempotency keys" in capsys.readouterr().err
    assert remind(" ", to=to) == 2
    assert "BODY" in capsys.readouterr().err


def test_a_session_of_sideband_is_opened_only_if_it_must_be(capsys: Captured) -> None:
    method = "_sideband/session/inject_reminder"
    assert remind("x", to=a_target(OURS, {method: {"result": {"reminderId": "r"}}})) == 0
    unknown = an_error(-32002, "Resource not found", "unknown_session")
    assert remind("x", to=a_target(OURS, {method: unknown, "session/load": unknown})) == 2
    assert "error: the agent has no session 's'" in capsys.readouterr().err
    assert remind("x", to=a_target(OURS, {method: unknown, **LOADED})) == 1


def test_a_message_that_is_steered_cannot_be_revoked(capsys: Captured) -> None:
    steering = {"steering": {"supported": True}}
    to = a_target(LOADS, {**LOADED, "_session/steering": {"result": {"outcome": "injected"}}}, steering)
    assert inject("x", to=to) == 0
    assert "it cannot be revoked" in capsys.readouterr().out
    assert inject("x", to=to, json=True) == 0
    assert json.loads(capsys.readouterr().out) == {"session": "s", "message_id": None}
    assert inject("x", to=a_target(PROPOSED, {**LOADED, "session/inject": {"result": {"messageId": "m"}}})) == 0
    assert capsys.readouterr().out == "accepted m for session s\n"
    assert revoke("m", to=to) == 2
    assert "the agent does not support session/revoke_reminder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reminder", "message", "status", "said"),
    [
        pytest.param({"result": {}}, {"result": {}}, 0, "revoked: m in session s", id="a-reminder"),
        pytest.param(an_error(-32002, "", "unknown_reminder_id"), {"result": {}}, 0, "revoked: m", id="a-message"),
        pytest.param(
            an_error(-32002, "", "unknown_reminder_id"),
            an_error(-32002, "", "unknown_message_id"),
            1,
            "no reminder or message with the id 'm' is queued",
            id="neither",
        ),
        pytest.param(
            an_error(-32601, "?"), an_error(-32010, "", "already_delivered"), 1, "'m' was already delivered", id="late"
        ),
        pytest.param(an_error(-32603, "broken"), {}, 2, "the agent refused: broken (-32603)", id="broken"),
    ],
)
def test_a_reminder_or_a_message_is_revoked(
    reminder: dict[str, Any], message: dict[str, Any], status: int, said: str, capsys: Captured
) -> None:
    answers = {**LOADED, "session/revoke_reminder": reminder, "session/revoke_inject": message}
    assert revoke("m", to=a_target(PROPOSED, answers)) == status
    printed = capsys.readouterr()
    assert said in printed.out + printed.err


def test_what_waits_is_listed(capsys: Captured) -> None:
    reminder = {
        "kind": "reminder",
        "position": 0,
        "mode": "finish_step",
        "reminderId": "r",
        "body": "The build is red.",
        "tags": [],
        "ttlTurns": 2,
        "roleHint": "system",
        "source": "host",
    }
    message = {
        "kind": "user",
        "position": 1,
        "mode": "queue",
        "messageId": "m",
        "content": [{"type": "text", "text": "Hi"}],
    }
    waiting = {"result": {"pendingCount": 2, "injections": [reminder, message]}}
    to = a_target(PROPOSED, {**LOADED, "session/pending_injections": waiting})
    assert pending(to=to) == 0
    _, first, second, end = capsys.readouterr().out.splitlines()
    assert first.split() == ["queued", "reminder", "r", "finish_step", "2", "-", "host", "The", "build", "is", "red."]
    assert second.split() == ["queued", "user", "m", "queue", "-", "-", "-", "Hi"]
    assert end == "session s: 2 queued"
    assert pending(to=to, json=True) == 0
    rows = json.loads(capsys.readouterr().out)["pending"]
    assert (rows[0]["reminder"]["ttl_turns"], rows[1]["text"]) == (2, "Hi")
    assert pending(to="acp:none") == 2
    assert clear(key="k", to=to) == 2


def test_the_sessions_of_the_agent_are_listed_if_the_one_named_is_missing(capsys: Captured) -> None:
    capabilities = {**PROPOSED, "sessionCapabilities": {"list": {}, "resume": {}}}
    unknown = {"session/resume": an_error(-32602, "no such session")}
    many = [{"sessionId": f"s{number}", "title": "A\nbug"} for number in range(LISTED + 5)]
    assert remind("x", to=a_target(capabilities, {**unknown, "session/list": {"result": {"sessions": many}}})) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: the agent has no session 's'"
    assert lines[1] == "  s0  A\\nbug"
    assert (len(lines), lines[-1]) == (LISTED + 2, "  ...")
    assert remind("x", to=a_target(capabilities, {**unknown, "session/list": an_error(-32603, "broken")})) == 2
    assert capsys.readouterr().err == "error: the agent has no session 's'\n"
    assert remind("x", to=a_target({}, {})) == 2
    assert "it cannot open a session that was begun before" in capsys.readouterr().err
