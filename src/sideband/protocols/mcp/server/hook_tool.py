"""The hook tool: reminders in the form of a hook's answer, for hosts that ignore the notification.

Claude Code's hooks can call a tool of an MCP server. The text that the tool returns is the answer of the hook.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from mcp.server.extension import ToolBinding
from pydantic import Field

from sideband.core.reminder import Reminder, ReminderId
from sideband.core.trust import Provenance, Trust
from sideband.protocols.mcp.messages import ReminderSpec
from sideband.protocols.mcp.server.outbox import Outbox
from sideband.render.shapes import PARAGRAPH, tagged

TOOL: Final = "pending_reminders"
DEFAULT_EVENT: Final = "PostToolUse"
MAX_TEXT: Final = 8_000
MAX_EVENT: Final = 64
# Characters that the line with the number of omitted notices may need.
_RESERVED: Final = 100
DESCRIPTION: Final = (
    "Returns the reminders since the last call in the form of a hook's answer, {} if there are none. It is called by "
    "hooks of the host; `event` is the name of the hook's event."
)


class PendingReminders:
    """What was emitted since the last call of the tool: merged by key, at most 64, each reminder once.

    `name` is the server's name in the text. The text is framed as a notice of that server and does not claim to come
    from the user. It has at most `MAX_TEXT` characters: the newest notices that fit, and the number of the others.
    """

    def __init__(self, name: str) -> None:
        self.outbox = Outbox()
        self._provenance = Provenance(trust=Trust.SERVER, principal=name)

    @property
    def binding(self) -> ToolBinding:
        options = {"name": TOOL, "description": DESCRIPTION, "structured_output": False}
        return ToolBinding(self.pending_reminders, kwargs=options)

    def pending_reminders(self, event: Annotated[str, Field(max_length=MAX_EVENT)] = DEFAULT_EVENT) -> str:
        """The answer of a hook of this event; `{}` if nothing was emitted since the last call."""
        notices = []
        while (params := self.outbox.take()) is not None:
            notices.append(self._notice(params.reminder))
        answer: dict[str, Any] = {}
        if notices:
            answer["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": _bounded(notices)}
        return msgspec.json.encode(answer).decode()

    def _notice(self, reminder: ReminderSpec) -> str:
        shown = Reminder(id=ReminderId(reminder.id), body=reminder.body)
        return tagged(shown, self._provenance, turns=reminder.ttl_turns)


def _bounded(notices: Sequence[str]) -> str:
    """The text of the notices; if it is too long, that of the newest which fit, and the number of the others."""
    text = PARAGRAPH.join(notices)
    if len(text) <= MAX_TEXT:
        return text
    kept: list[str] = []
    room = MAX_TEXT - _RESERVED
    for notice in reversed(notices):
        size = len(notice) + len(PARAGRAPH)
        if size <= room:
            room -= size
            kept.append(notice)
    count = len(notices) - len(kept)
    were = "1 further notice was" if count == 1 else f"{count} further notices were"
    return PARAGRAPH.join([*reversed(kept), f"{were} left out."])
