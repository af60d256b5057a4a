"""What waits in an inbox: accepted reminders and user messages."""

from typing import Any

import msgspec

from sideband.core.reminder import Reminder
from sideband.core.seams import INJECT_CLASS, InjectMode, Mode
from sideband.core.trust import Provenance


# No cycle leads through an item, so that the garbage collector need not visit them, however many wait.
class QueuedReminder(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="kind", tag="reminder"
):
    """An accepted reminder; `caller_id` and `fingerprint` recognise an idempotent repeat."""

    reminder: Reminder
    mode: Mode
    provenance: Provenance
    caller_id: str | None = None
    fingerprint: str | None = None
    deduped_count: int = 0

    @property
    def id(self) -> str:
        return self.reminder.id

    @property
    def waits_in(self) -> Mode | None:
        return self.mode

    @property
    def effective(self) -> dict[str, Any]:
        """What the sender got where that is less than it asked for."""
        requested = self.provenance.requested
        if not requested:
            return {}
        return {field: self.mode if field == "mode" else getattr(self.reminder, field) for field in requested}


class QueuedMessage(
    msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="kind", tag="user"
):
    """An accepted user message; a replacement keeps its id and place and raises its revision."""

    message_id: str
    content: tuple[dict[str, Any], ...]
    mode: InjectMode
    provenance: Provenance
    revision: int = 1

    @property
    def id(self) -> str:
        return self.message_id

    @property
    def waits_in(self) -> Mode | None:
        """The class in which seams take it; None waits for the session to be idle."""
        return INJECT_CLASS[self.mode]


InboxItem = QueuedReminder | QueuedMessage
