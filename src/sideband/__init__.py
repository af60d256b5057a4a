"""Sideband: the ambient-context layer for AI agents.

Typed, short-lived facts for a running agent that nobody typed: a file changed, the build is red, the context is
nearly full. Names are loaded when first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sideband.core.errors import ReminderError as ReminderError
    from sideband.core.propagation import Handoff as Handoff
    from sideband.core.reminder import Propagate as Propagate
    from sideband.core.reminder import Reminder as Reminder
    from sideband.core.reminder import RoleHint as RoleHint
    from sideband.core.reminder import Source as Source
    from sideband.core.seams import Mode as Mode
    from sideband.core.seams import Seam as Seam
    from sideband.core.transcript import Transcript as Transcript
    from sideband.core.transcript import TranscriptEvent as TranscriptEvent
    from sideband.recall.facts import Fact as Fact
    from sideband.recall.facts import FactBook as FactBook
    from sideband.recall.facts import FactError as FactError
    from sideband.recall.facts import recall_facts as recall_facts
    from sideband.runtime.eventlog import EventLog as EventLog
    from sideband.runtime.facts import store_fact as store_fact
    from sideband.runtime.transcripts import clear_reminders as clear_reminders
    from sideband.runtime.transcripts import end_turn as end_turn
    from sideband.runtime.transcripts import inject_reminder as inject_reminder
    from sideband.runtime.transcripts import propagate as propagate
    from sideband.runtime.transcripts import transcript_compact as transcript_compact
    from sideband.runtime.transcripts import transcript_reminder_event as transcript_reminder_event

_HOMES = {
    "EventLog": "sideband.runtime.eventlog",
    "Fact": "sideband.recall.facts",
    "FactBook": "sideband.recall.facts",
    "FactError": "sideband.recall.facts",
    "Handoff": "sideband.core.propagation",
    "Mode": "sideband.core.seams",
    "Propagate": "sideband.core.reminder",
    "Reminder": "sideband.core.reminder",
    "ReminderError": "sideband.core.errors",
    "RoleHint": "sideband.core.reminder",
    "Seam": "sideband.core.seams",
    "Source": "sideband.core.reminder",
    "Transcript": "sideband.core.transcript",
    "TranscriptEvent": "sideband.core.transcript",
    "clear_reminders": "sideband.runtime.transcripts",
    "end_turn": "sideband.runtime.transcripts",
    "inject_reminder": "sideband.runtime.transcripts",
    "propagate": "sideband.runtime.transcripts",
    "recall_facts": "sideband.recall.facts",
    "store_fact": "sideband.runtime.facts",
    "transcript_compact": "sideband.runtime.transcripts",
    "transcript_reminder_event": "sideband.runtime.transcripts",
}

__all__ = [*_HOMES]  # noqa: PLE0604 - the names are the table's


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
