"""Receipts of tool calls: the call, its status, and the reminders that hooks added around it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from sideband.core.masking import mask, mask_text
from sideband.core.reminder import Reminder
from sideband.core.serialize import JsonRecord


class ReminderReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder that a hook added around a tool call, without its body."""

    hook_event: str
    session_id: str
    tool_call_id: str
    reminder_id: str
    tags: tuple[str, ...]
    dedupe_key: str | None
    source: str
    role_hint: str
    ttl_turns: int | None
    deduped_count: int


class Audit(msgspec.Struct, kw_only=True):
    reminders: list[ReminderReceipt] = []


class ToolCallReceipt(JsonRecord, msgspec.Struct, kw_only=True):
    """One tool call, with masked arguments; `status` is None while it runs."""

    session_id: str
    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    status: str | None = None
    audit: Audit = msgspec.field(default_factory=Audit)


class AuditLog:
    """The receipts of all tool calls made while the log is active, in the order in which the calls began."""

    def __init__(self) -> None:
        self.receipts: list[ToolCallReceipt] = []

    def open(self, session_id: str, call_id: str, name: str, args: dict[str, Any]) -> ToolCallReceipt:
        receipt = ToolCallReceipt(session_id=session_id, tool_call_id=call_id, tool_name=name, args=mask(args))
        self.receipts.append(receipt)
        return receipt


_ACTIVE: Final[ContextVar[AuditLog | None]] = ContextVar("sideband_audit_log", default=None)


@contextmanager
def with_audit_log() -> Iterator[AuditLog]:
    """Keep a receipt of every tool call made inside the block."""
    log = AuditLog()
    token = _ACTIVE.set(log)
    try:
        yield log
    finally:
        _ACTIVE.reset(token)


def active_audit_log() -> AuditLog | None:
    """The log of the enclosing `with_audit_log()` block; None outside of one."""
    return _ACTIVE.get()


def reminder_receipt(
    reminder: Reminder, *, hook_event: str, session_id: str, call_id: str, deduped_count: int
) -> ReminderReceipt:
    return ReminderReceipt(
        hook_event=hook_event,
        session_id=session_id,
        tool_call_id=call_id,
        reminder_id=reminder.id,
        tags=tuple(map(mask_text, reminder.tags)),
        dedupe_key=mask(reminder.dedupe_key),
        source=reminder.source.value,
        role_hint=reminder.role_hint.value,
        ttl_turns=reminder.ttl_turns,
        deduped_count=deduped_count,
    )
