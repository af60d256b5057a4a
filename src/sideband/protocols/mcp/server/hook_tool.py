"""The hook tool: reminders in the form of a hook's answer, for hosts that ignore the notification.

Claude Code's hooks can call a tool of an MCP server. The text that the tool returns is the answer of the hook.
"""

from typing import Any, Final

import msgspec
from mcp.server.extension import ToolBinding

from sideband.core.reminder import Reminder, ReminderId
from sideband.core.trust import Provenance, Trust
from sideband.protocols.mcp.messages import ReminderSpec
from sideband.protocols.mcp.server.outbox import Outbox
from sideband.render.shapes import PARAGRAPH, tagged

TOOL: Final = "pending_reminders"
DEFAULT_EVENT: Final = "PostToolUse"
DESCRIPTION: Final = (
    "Returns the reminders since the last call in the form of a hook's answer, {} if there are none. It is called by "
    "hooks of the host; `event` is the name of the hook's event."
)


class PendingReminders:
    """What was emitted since the last call of the tool: merged by key, at most 64, each reminder once.

    `name` is the server's name in the text. The text is framed as a notice of that server and does not claim to come from
    the user.
    """

    def __init__(self, name: str) -> None:
        self.outbox = Outbox()
        self._provenance = Provenance(trust=Trust.SERVER, principal=name)

    @property
    def binding(self) -> ToolBinding:
        options = {"name": TOOL, "description": DESCRIPTION, "structured_output": False}
        return ToolBinding(self.pending_reminders, kwargs=options)

    def pending_reminders(self, event: str = DEFAULT_EVENT) -> str:
        """The answer of a hook of this event; `{}` if nothing was emitted since the last call."""
        notices = []
        while (params := self.outbox.take()) is not None:
            notices.append(self._notice(params.reminder))
        answer: dict[str, Any] = {}
        if notices:
            answer["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": PARAGRAPH.join(notices)}
        return msgspec.json.encode(answer).decode()

    def _notice(self, reminder: ReminderSpec) -> str:
        shown = Reminder(id=ReminderId(reminder.id), body=reminder.body)
        return tagged(shown, self._provenance, turns=reminder.ttl_turns)
