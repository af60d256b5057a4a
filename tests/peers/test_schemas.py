"""The checks find what a frame of an agent can have wrong."""

import pytest

from tests.peers.schemas import Frame, Sent, dialect, mistakes_in


def an_update(update: Frame) -> Frame:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}


CHUNK = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text", "text": "Hello"}}
EXPIRED = {"sessionUpdate": "reminder_expired", "reminderId": "r", "phase": "cleared"}


def test_the_lists_of_updates_are_those_of_the_protocol() -> None:
    assert len(dialect(1).update_names) == 14
    assert len(dialect(2).update_names) == 19
    assert {"tool_call", "plan", "current_mode_update"} == set(dialect(1).update_names) - set(dialect(2).update_names)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(an_update(CHUNK), id="a-chunk"),
        pytest.param(an_update(EXPIRED), id="an-update-of-ours"),
        pytest.param(an_update({**CHUNK, "_meta": {"anything": 1}}), id="meta"),
        pytest.param(
            an_update({"sessionUpdate": "session_info_update", "_meta": {"sideband": {"update": EXPIRED}}}),
            id="an-update-of-ours-that-is-carried",
        ),
        pytest.param({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}, id="a-cancellation"),
        pytest.param({"jsonrpc": "2.0", "id": None, "error": {"code": -32010, "message": "No"}}, id="an-error-of-ours"),
        pytest.param(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "error": {"code": -32002, "message": "No", "data": {"reason": "unknown_session", "sessionId": "s"}},
            },
            id="an-unknown-session",
        ),
    ],
)
def test_a_right_frame_has_no_mistakes(version: int, frame: Frame) -> None:
    assert dialect(version).mistakes(frame) == []


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("frame", "mistake"),
    [
        pytest.param(an_update({"sessionUpdate": "bananas"}), "not valid under any", id="an-unknown-update"),
        pytest.param(
            an_update({"sessionUpdate": "_sideband_news"}), "not valid under any", id="an-update-with-an-underscore"
        ),
        pytest.param(an_update({**CHUNK, "colour": "red"}), "'colour' was unexpected", id="an-unknown-field"),
        pytest.param(
            an_update({**CHUNK, "content": {"type": "text", "text": "Hello", "colour": "red"}}),
            "update/content: Unevaluated",
            id="an-unknown-field-of-a-block",
        ),
        pytest.param(an_update({**CHUNK, "content": {"type": "poem"}}), "update/content", id="an-unknown-block"),
        pytest.param(
            an_update({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "sleepy"}),
            "update/status",
            id="an-unknown-status",
        ),
        pytest.param(an_update({**EXPIRED, "phase": "bored"}), "update/phase", id="an-unknown-phase"),
        pytest.param(
            an_update(
                {
                    "sessionUpdate": "session_info_update",
                    "_meta": {"sideband": {"update": {**EXPIRED, "phase": "bored"}}},
                }
            ),
            "update of ours",
            id="an-unknown-phase-that-is-carried",
        ),
        pytest.param({"jsonrpc": "2.0", "method": "session/prompt", "params": {}}, "no such", id="a-call-of-clients"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "method": "session/update"}, "no such", id="an-update-with-an-id"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "result": {}}, "which no request has", id="a-result-of-nothing"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "No"}}, "code", id="an-unknown-code"),
        pytest.param(
            {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "No", "data": {"reason": "tired"}}},
            "error data: reason",
            id="an-unknown-reason",
        ),
        pytest.param({"jsonrpc": "2.0", "id": 1, "result": {}, "error": None}, "either", id="a-result-and-an-error"),
        pytest.param({"jsonrpc": "2.0", "id": 1, "result": {}, "extra": 1}, "members", id="a-member-of-a-response"),
        pytest.param({**an_update(CHUNK), "extra": 1}, "members", id="a-member-of-a-call"),
        pytest.param({"id": 1, "result": {}}, "jsonrpc", id="no-version"),
    ],
)
def test_a_wrong_frame_is_found(version: int, frame: Frame, mistake: str) -> None:
    found = dialect(version).mistakes(frame)
    assert len(found) == 1
    assert mistake in found[0]


@pytest.mark.parametrize(
    ("code", "data"), [(-32002, {"reason": "unknown_session"}), (-32022, {"supported": [1, 2]}), (-32022, None)]
)
def test_the_data_that_version_2_defines_for_an_error_must_be_there(code: int, data: Frame | None) -> None:
    assert (
        len(dialect(2).mistakes({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "", "data": data}})) == 1
    )


@pytest.mark.parametrize(
    ("version", "update"),
    [
        pytest.param(2, {"sessionUpdate": "plan", "entries": []}, id="the-plan-of-version-1"),
        pytest.param(2, {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"}, id="the-call-of-version-1"),
        pytest.param(1, {"sessionUpdate": "state_update", "state": "idle"}, id="the-state-of-version-2"),
        pytest.param(
            1, {"sessionUpdate": "user_message", "messageId": "m", "content": []}, id="the-message-of-version-2"
        ),
    ],
)
def test_an_update_of_the_other_version_is_found(version: int, update: Frame) -> None:
    assert len(dialect(version).mistakes(an_update(update))) == 1
    assert dialect(3 - version).mistakes(an_update(update)) == []


@pytest.mark.parametrize(
    ("method", "result"),
    [
        pytest.param("session/prompt", {}, id="of-the-protocol"),
        pytest.param("session/prompt", {"stopReason": "end_turn", "messageId": "m", "colour": 1}, id="with-a-field"),
        pytest.param("session/inject_reminder", {"reminderId": "r"}, id="of-a-proposal"),
        pytest.param("_sideband/session/clear_reminders", {}, id="of-ours"),
        pytest.param("_sideband/session/replace_reminder", {}, id="of-ours-without-a-schema"),
        pytest.param("_session/steering", {"outcome": "perhaps"}, id="of-steering"),
        pytest.param("session/explode", {}, id="of-an-unknown-method"),
    ],
)
def test_a_wrong_result_is_found(method: str, result: Frame) -> None:
    for version in (1, 2):
        assert dialect(version).mistakes({"jsonrpc": "2.0", "id": 1, "result": result}, answers=method)


def test_a_conversation_is_read_in_the_version_that_the_agent_has_chosen() -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 9}}
    chosen = {"protocolVersion": 2, "info": {"name": "agent", "version": "1"}}
    update = an_update({"sessionUpdate": "state_update", "state": "idle"})
    loading = {"jsonrpc": "2.0", "id": 2, "method": "session/resume", "params": {"sessionId": "s"}}
    right = [
        Sent(by_agent=False, frame=loading),
        Sent(by_agent=False, frame=asked),
        Sent(by_agent=True, frame={"jsonrpc": "2.0", "id": 1, "result": chosen}),
    ]
    assert mistakes_in([*right, Sent(by_agent=True, frame=update)]) == []
    assert len(mistakes_in([right[0], Sent(by_agent=True, frame=update)])) == 1


@pytest.mark.parametrize(
    ("update", "capabilities"),
    [
        pytest.param(EXPIRED, {"_meta": {"sideband": {"reminders": {"emit": True}}}}, id="reminders"),
        pytest.param(
            {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"},
            {"session": {"compaction": {}}},
            id="compactions",
        ),
        pytest.param(
            {"sessionUpdate": "notice", "severity": "info", "title": "t"}, {"session": {"notices": {}}}, id="notices"
        ),
    ],
)
def test_a_client_of_version_1_must_have_asked_for_some_updates(update: Frame, capabilities: Frame) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientCapabilities": capabilities}}
    loading = Sent(
        by_agent=False, frame={"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": {"sessionId": "s"}}
    )
    told = Sent(by_agent=True, frame=an_update(update))
    assert mistakes_in([Sent(by_agent=False, frame=asked), loading, told]) == []
    assert len(mistakes_in([loading, told])) == 1


def test_an_update_about_a_session_that_the_client_does_not_know_is_found() -> None:
    told = Sent(by_agent=True, frame=an_update(CHUNK))
    asked = Sent(by_agent=False, frame={"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/"}})
    made = Sent(by_agent=True, frame={"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}})
    assert len(mistakes_in([asked, told, made])) == 1
    assert mistakes_in([asked, made, told]) == []
