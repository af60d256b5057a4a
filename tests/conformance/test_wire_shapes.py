"""The shapes that travel: which fields each has, which of them it must have, and the words in them."""

from typing import Any, Final

import pytest

from sideband.core.errors import UnknownOption
from sideband.core.parse import parse
from sideband.core.reminder import Source
from sideband.core.surfaces import LIFECYCLE, Case, Surface, spelled
from sideband.protocols import wire
from sideband.protocols.wire import Via
from tests.builders import a_reminder
from tests.unit.protocols.schemas import SCHEMAS, validator

HINTS: Final = "tags dedupeKey ttlTurns preserveOnCompact propagate roleHint"
LEGACY_HINTS: Final = "tags dedupe_key ttl_turns preserve_on_compact propagate role_hint"


def fields(document: str, shape: str) -> tuple[set[str], set[str]]:
    """The fields that a published shape must have, and those that it may have."""
    schema = SCHEMAS[f"{document}.schema.json"]
    found = schema if schema["title"] == shape else schema["$defs"][shape]
    required = set(found.get("required", ()))
    return required, set(found["properties"]) - required


@pytest.mark.parametrize(
    ("document", "shape", "required", "optional"),
    [
        pytest.param(
            "acp/inject_reminder",
            "SessionInjectReminderRequest",
            "sessionId body",
            f"{HINTS} mode _meta",
            marks=pytest.mark.requirement("acp:schema:inject_reminder-request"),
        ),
        pytest.param(
            "acp/inject_reminder",
            "SessionInjectReminderResponse",
            "reminderId dedupedCount",
            "_meta",
            marks=pytest.mark.requirement("acp:schema:inject_reminder-response"),
        ),
        pytest.param(
            "acp/session_update",
            "ReminderEmitted",
            "sessionUpdate reminderId body source",
            "tags dedupeKey providerId firedAtTurn _meta",
            marks=pytest.mark.requirement("acp:schema:reminder-emitted"),
        ),
        pytest.param(
            "acp/session_update",
            "ReminderDeduped",
            "sessionUpdate reminderId dedupeKey droppedReminderIds",
            "_meta",
            marks=pytest.mark.requirement("acp:schema:reminder-deduped"),
        ),
        pytest.param(
            "acp/session_update",
            "ReminderExpired",
            "sessionUpdate reminderId phase",
            "expiredAtTurn _meta",
            marks=pytest.mark.requirement("acp:schema:reminder-expired"),
        ),
        pytest.param(
            "acp/capabilities",
            "ReminderCapability",
            "inject emit",
            "propagate roleHints",
            marks=pytest.mark.requirement("acp:schema:reminders-capability"),
        ),
        pytest.param(
            "acp/inject",
            "SessionInjectRequest",
            "sessionId mode content",
            "_meta",
            marks=pytest.mark.requirement("acp:schema:inject"),
        ),
        pytest.param(
            "acp/inject",
            "SessionInjectResponse",
            "messageId",
            "_meta",
            marks=pytest.mark.requirement("acp:schema:inject"),
        ),
        pytest.param(
            "acp/revoke_inject",
            "SessionRevokeInjectRequest",
            "sessionId messageId",
            "_meta",
            marks=pytest.mark.requirement("acp:schema:revoke-and-replace"),
        ),
        pytest.param(
            "acp/replace_inject",
            "SessionReplaceInjectRequest",
            "sessionId messageId content",
            "_meta",
            marks=pytest.mark.requirement("acp:schema:revoke-and-replace"),
        ),
        pytest.param(
            "acp/capabilities",
            "InjectCapability",
            "modes",
            "steerInStream steer_in_stream pending",
            marks=pytest.mark.requirement("acp:schema:inject-capability"),
        ),
        pytest.param(
            "acp/capabilities",
            "PendingCapability",
            "",
            "replace",
            marks=pytest.mark.requirement("acp:schema:inject-capability"),
        ),
        pytest.param(
            "acp/remind",
            "SessionRemindFlat",
            "body",
            f"{LEGACY_HINTS} mode _meta sessionId",
            marks=pytest.mark.requirement("acp:schema:remind"),
        ),
        pytest.param(
            "acp/remind",
            "LegacyReminder",
            "body",
            f"{LEGACY_HINTS} mode _meta",
            marks=pytest.mark.requirement("acp:schema:remind"),
        ),
        pytest.param(
            "acp/pending_injections",
            "SessionPendingInjectionsResponse",
            "pendingCount injections",
            "_meta",
            marks=pytest.mark.requirement("acp:schema:pending_injections"),
        ),
        pytest.param(
            "acp/pending_injections",
            "PendingReminder",
            "kind position mode reminderId body tags roleHint source",
            "dedupeKey ttlTurns",
            marks=pytest.mark.requirement("acp:schema:pending_injections"),
        ),
        pytest.param(
            "acp/revoke_reminder",
            "SessionRevokeReminderRequest",
            "sessionId reminderId",
            "_meta",
            marks=pytest.mark.requirement("acp:schema:revoke_reminder"),
        ),
        pytest.param(
            "acp/revoke_reminder",
            "SessionRevokeReminderResponse",
            "status",
            "_meta",
            marks=pytest.mark.requirement("acp:schema:revoke_reminder"),
        ),
        pytest.param(
            "a2a/inject_reminder",
            "InjectReminderParams",
            "taskId reminder",
            "metadata tenant",
            marks=pytest.mark.requirement("a2a:schema:inject_reminder-request"),
        ),
        pytest.param(
            "a2a/inject_reminder",
            "InjectedReminder",
            "body",
            f"{HINTS} mode _meta id source firedAtTurn originatingAgentId",
            marks=pytest.mark.requirement("a2a:schema:inject_reminder-request"),
        ),
        pytest.param(
            "a2a/inject_reminder",
            "InjectReminderResult",
            "reminderId dedupedCount acceptedAt",
            "_meta",
            marks=pytest.mark.requirement("a2a:schema:inject_reminder-response"),
        ),
        pytest.param(
            "a2a/notifications",
            "ReminderEmittedParams",
            "taskId reminder metadata",
            "",
            marks=pytest.mark.requirement("a2a:schema:reminder-emitted"),
        ),
        pytest.param(
            "a2a/notifications",
            "EmittedReminder",
            "id body source firedAtTurn",
            "tags dedupeKey",
            marks=pytest.mark.requirement("a2a:schema:reminder-emitted"),
        ),
        pytest.param(
            "a2a/notifications",
            "ReminderDedupedParams",
            "taskId reminder droppedReminderIds metadata",
            "",
            marks=pytest.mark.requirement("a2a:schema:reminder-deduped"),
        ),
        pytest.param(
            "a2a/notifications",
            "KeptReminder",
            "id dedupeKey",
            "",
            marks=pytest.mark.requirement("a2a:schema:reminder-deduped"),
        ),
        pytest.param(
            "a2a/notifications",
            "ReminderExpiredParams",
            "taskId reminder phase metadata",
            "expiredAtTurn",
            marks=pytest.mark.requirement("a2a:schema:reminder-expired"),
        ),
        pytest.param(
            "a2a/notifications",
            "EndedReminder",
            "id",
            "dedupeKey",
            marks=pytest.mark.requirement("a2a:schema:reminder-expired"),
        ),
        pytest.param(
            "a2a/agent_card",
            "ExtensionParams",
            "inject emit",
            "propagate roleHints modes methods",
            marks=pytest.mark.requirement("a2a:schema:reminders-capability"),
        ),
        pytest.param(
            "mcp/reminder",
            "ReminderParams",
            "reminder",
            "_meta",
            marks=pytest.mark.requirement("mcp:schema:reminder-notification"),
        ),
        pytest.param(
            "mcp/reminder",
            "ReminderSpec",
            "id body",
            f"{HINTS} firedAtTurn",
            marks=pytest.mark.requirement("mcp:schema:reminder-notification"),
        ),
        pytest.param(
            "mcp/server_capabilities",
            "EmitCapability",
            "emit",
            "propagate roleHints version",
            marks=pytest.mark.requirement("mcp:schema:reminders-capability"),
        ),
    ],
    ids=lambda value: value.replace("/", "-") if "/" in value else "",
)
def test_a_shape_has_these_fields_and_no_others(document: str, shape: str, required: str, optional: str) -> None:
    assert fields(document, shape) == (set(required.split()), set(optional.split()))


# Where each shape stands: the whole message, and a word that it may not have.


def a_frame(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@pytest.mark.parametrize(
    ("document", "shape", "message", "field", "words"),
    [
        pytest.param(
            "acp/session_update",
            "ReminderExpired",
            {"sessionUpdate": "reminder_expired", "reminderId": "r-1"},
            "phase",
            {"ttl_expired", "cleared", "compacted_out"},
            marks=pytest.mark.requirement("acp:schema:reminder-expired"),
        ),
        pytest.param(
            "acp/session_update",
            "ReminderEmitted",
            {"sessionUpdate": "reminder_emitted", "reminderId": "r-1", "body": "x"},
            "source",
            {"host", "provider", "hook", "bridge", "inherited"},
            marks=pytest.mark.requirement("acp:schema:reminder-emitted"),
        ),
        pytest.param(
            "acp/inject_reminder",
            "SessionInjectReminderRequest",
            {"sessionId": "s", "body": "x"},
            "mode",
            {"interrupt_immediate", "finish_step", "audit_only"},
            marks=pytest.mark.requirement("acp:schema:inject_reminder-request"),
        ),
        pytest.param(
            "acp/inject_reminder",
            "SessionInjectReminderRequest",
            {"sessionId": "s", "body": "x"},
            "propagate",
            {"all", "session", "none"},
            marks=pytest.mark.requirement("acp:schema:inject_reminder-request"),
        ),
        pytest.param(
            "acp/inject_reminder",
            "SessionInjectReminderRequest",
            {"sessionId": "s", "body": "x"},
            "roleHint",
            {"system", "developer", "user_block", "ephemeral_cache"},
            marks=pytest.mark.requirement("acp:schema:inject_reminder-request"),
        ),
        pytest.param(
            "acp/revoke_reminder",
            "SessionRevokeReminderResponse",
            {},
            "status",
            {"revoked", "already_revoked"},
            marks=pytest.mark.requirement("acp:schema:revoke_reminder"),
        ),
        pytest.param(
            "acp/inject",
            "SessionInjectRequest",
            {"sessionId": "s", "content": [{"type": "text", "text": "x"}]},
            "mode",
            {"queue", "steer", "interrupt_immediate", "finish_step", "audit_only"},
            marks=pytest.mark.requirement("acp:schema:inject"),
        ),
        pytest.param(
            "a2a/notifications",
            "ReminderExpiredParams",
            {"taskId": "t", "reminder": {"id": "r-1"}, "metadata": {}},
            "phase",
            {"ttl_expired", "cleared", "compacted_out"},
            marks=pytest.mark.requirement("a2a:schema:reminder-expired"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" not in value else "",
)
def test_a_field_has_these_words_and_no_others(
    document: str, shape: str, message: dict[str, Any], field: str, words: set[str]
) -> None:
    decide = validator(document, shape)
    everybody = {*words, "later", "HOST", "ttl", "user", "queue", "children", ""}
    assert {word for word in everybody if decide.is_valid({**message, field: word})} == words


@pytest.mark.requirement("acp:schema:inject-capability")
@pytest.mark.parametrize(
    ("capability", "valid"),
    [
        pytest.param({"modes": ["queue"]}, True, id="queue-alone"),
        pytest.param({"modes": ["queue", "steer"], "steerInStream": ["finish"]}, True, id="steer-that-waits"),
        pytest.param({"modes": ["steer"], "steerInStream": ["interrupt", "finish"]}, True, id="steer-of-both-kinds"),
        pytest.param({"modes": ["queue"], "pending": {"replace": True}}, True, id="with-replace"),
        pytest.param({"modes": []}, False, id="no-mode"),
        pytest.param({"modes": ["queue", "steer"]}, False, id="steer-that-does-not-say-how"),
        pytest.param({"modes": ["steer"], "steerInStream": ["politely"]}, False, id="steer-in-an-unknown-way"),
    ],
)
def test_a_capability_to_inject_says_what_is_honoured(capability: dict[str, Any], *, valid: bool) -> None:
    assert validator("acp/capabilities").is_valid({"session": {"inject": capability}}) is valid


@pytest.mark.requirement("acp:schema:remind")
def test_a_legacy_reminder_has_the_names_of_the_record() -> None:
    required, optional = fields("acp/remind", "LegacyReminder")
    assert required | optional == {*LIFECYCLE, "mode", "_meta"}


@pytest.mark.requirement("acp:remind:snake-case-only")
@pytest.mark.parametrize("name", [spelled(field, Case.CAMEL) for field in LIFECYCLE if "_" in field])
def test_a_camel_case_field_of_a_legacy_reminder_is_refused(name: str) -> None:
    with pytest.raises(UnknownOption) as refused:
        parse({"body": "x", name: 1}, Surface.ACP_LEGACY)
    assert (refused.value.code, refused.value.field) == ("HARN-RMD-001", name)
    assert not validator("acp/remind").is_valid({"body": "x", name: None})


@pytest.mark.requirement("acp:remind:snake-case-only")
def test_a_snake_case_field_of_a_legacy_reminder_is_read() -> None:
    payload = {"body": "x", "dedupe_key": "k", "ttl_turns": 2, "preserve_on_compact": True, "role_hint": "developer"}
    draft = parse(payload, Surface.ACP_LEGACY)
    assert {name: getattr(draft, name) for name in payload} == payload
    validator("acp/remind").validate(payload)


@pytest.mark.requirement("a2a:schema:inject_reminder-response")
@pytest.mark.parametrize(
    ("moment", "valid"),
    [
        pytest.param("2026-10-02T08:15:30.042Z", True, id="utc-with-milliseconds"),
        pytest.param("2026-10-02T08:15:30Z", False, id="without-milliseconds"),
        pytest.param("2026-10-02T08:15:30.042+02:00", False, id="not-utc"),
        pytest.param(1790928930042, False, id="a-number"),
    ],
)
def test_the_time_of_acceptance_is_utc_with_milliseconds(moment: object, *, valid: bool) -> None:
    result = {"reminderId": "r-1", "dedupedCount": 0, "acceptedAt": moment}
    assert validator("a2a/inject_reminder", "InjectReminderResult").is_valid(result) is valid


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param(
            "a2a/notifications",
            a_frame(
                "tasks/reminderEmitted",
                {
                    "taskId": "t",
                    "reminder": {"id": "r", "body": "x", "source": "host", "firedAtTurn": 1},
                    "metadata": {},
                },
            ),
            marks=pytest.mark.requirement("a2a:schema:reminder-emitted"),
        ),
        pytest.param(
            "a2a/notifications",
            a_frame(
                "tasks/reminderDeduped",
                {"taskId": "t", "reminder": {"id": "r", "dedupeKey": "k"}, "droppedReminderIds": ["q"], "metadata": {}},
            ),
            marks=pytest.mark.requirement("a2a:schema:reminder-deduped"),
        ),
        pytest.param(
            "a2a/notifications",
            a_frame(
                "tasks/reminderExpired",
                {"taskId": "t", "reminder": {"id": "r"}, "phase": "cleared", "metadata": {}},
            ),
            marks=pytest.mark.requirement("a2a:schema:reminder-expired"),
        ),
        pytest.param(
            "mcp/reminder",
            a_frame("notifications/reminder", {"reminder": {"id": "r", "body": "x"}}),
            marks=pytest.mark.requirement("mcp:schema:reminder-notification"),
        ),
    ],
    ids=lambda value: value["method"].replace("/", "-") if isinstance(value, dict) else "",
)
def test_a_notification_is_known_by_its_method(document: str, message: dict[str, Any]) -> None:
    decide = validator(document)
    decide.validate(message)
    assert not decide.is_valid({**message, "method": "tasks/artifactUpdate"})
    assert not decide.is_valid({**message, "params": {}})


# The words for the source.


@pytest.mark.parametrize(
    ("source", "via", "word"),
    [
        pytest.param(Source.STDLIB_PROVIDER, None, "provider", marks=pytest.mark.requirement("wire:source:provider")),
        pytest.param(Source.HOOK, None, "hook", marks=pytest.mark.requirement("wire:source:hook")),
        pytest.param(Source.INHERITED, None, "inherited", marks=pytest.mark.requirement("wire:source:inherited")),
        pytest.param(Source.INHERITED, Via.ACP, "inherited", marks=pytest.mark.requirement("wire:source:inherited")),
        pytest.param(
            Source.BRIDGE, Via.ACP, "host", marks=pytest.mark.requirement("wire:source:bridge-from-a-client-is-host")
        ),
        pytest.param(
            Source.BRIDGE, Via.HTTP, "host", marks=pytest.mark.requirement("wire:source:bridge-from-a-client-is-host")
        ),
        pytest.param(
            Source.BRIDGE, Via.A2A, "bridge", marks=pytest.mark.requirement("wire:source:bridge-from-a-peer-is-bridge")
        ),
        pytest.param(
            Source.BRIDGE, Via.MCP, "bridge", marks=pytest.mark.requirement("wire:source:bridge-from-a-peer-is-bridge")
        ),
        pytest.param(
            Source.IN_PIPELINE, None, "host", marks=pytest.mark.requirement("wire:source:in-pipeline-is-host")
        ),
    ],
)
def test_peers_are_told_the_source_in_a_word_of_theirs(source: Source, via: Via | None, word: str) -> None:
    reminder = a_reminder(source=source)
    assert wire.to_camel(reminder, via=via)["source"] == word
    update = {"sessionUpdate": "reminder_emitted", "reminderId": "r-1", "body": "x", "source": word}
    validator("acp/session_update", "ReminderEmitted").validate(update)
