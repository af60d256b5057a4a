"""The functions of `sideband.core.transcript` with ids of this process; they report to the active event log."""

from collections.abc import Mapping
from typing import Never, TypeVar

from sideband.core import transcript as pure
from sideband.core.accept import Selector
from sideband.core.propagation import Handoff
from sideband.core.reminder import Propagate, PropagateWord, RoleHint, RoleHintWord, Tags
from sideband.core.state import Decided
from sideband.core.transcript import (
    ClearedReminders,
    CompactedTranscript,
    CustomCompactor,
    EndedTurn,
    InjectedReminder,
    Strategy,
    Summarizer,
    Transcript,
    TranscriptEvent,
)
from sideband.runtime.eventlog import emit
from sideband.runtime.system import new_id

_Value = TypeVar("_Value")


def inject_reminder(
    transcript: Transcript,
    *,
    body: str,
    tags: Tags = (),
    dedupe_key: str | None = None,
    ttl_turns: int | None = None,
    preserve_on_compact: bool = False,
    propagate: PropagateWord = Propagate.SESSION,
    role_hint: RoleHintWord = RoleHint.SYSTEM,
    **unknown: Never,
) -> InjectedReminder:
    """Append a reminder to a copy of `transcript`; the input and its messages are not changed.

    An older reminder with the same `dedupe_key` is replaced. Without `ttl_turns` the reminder lives until it is cleared
    or compacted away. A wrong or unknown option raises `ReminderError`.
    """
    options = {
        "body": body,
        "tags": tags,
        "dedupe_key": dedupe_key,
        "ttl_turns": ttl_turns,
        "preserve_on_compact": preserve_on_compact,
        "propagate": propagate,
        "role_hint": role_hint,
        **unknown,
    }
    return _emit(pure.inject_reminder(transcript, options, new_id=new_id))


def clear_reminders(
    transcript: Transcript,
    *,
    id: str | None = None,
    tag: str | None = None,
    dedupe_key: str | None = None,
) -> ClearedReminders:
    """Remove every live reminder that matches all given selectors; at least one is required."""
    return _emit(pure.clear_reminders(transcript, Selector(id=id, tag=tag, dedupe_key=dedupe_key)))


def transcript_reminder_event(reminder: Mapping[str, object]) -> TranscriptEvent:
    """The transcript event of a reminder-like mapping; a field that is missing or invalid gets its default."""
    return pure.transcript_reminder_event(reminder, new_id=new_id)


def end_turn(transcript: Transcript, turn: int) -> EndedTurn:
    """Age a copy by one turn: finite reminders that were there by `turn` age by one, and expire after their last turn."""
    return _emit(pure.end_turn(transcript, turn))


def transcript_compact(
    transcript: Transcript,
    *,
    strategy: str = Strategy.SUMMARIZE,
    keep_last: int = pure.DEFAULT_KEEP_LAST,
    summarizer: Summarizer | None = None,
    custom_compactor: CustomCompactor | None = None,
) -> CompactedTranscript:
    """Compact a copy: finite TTLs fall by one, of each dedupe key the newest stays, and only preserved reminders stay.

    `summarize` replaces all but the last messages with what `summarizer` returns for them, `keep_last` drops them, and
    `custom` calls `custom_compactor(messages, reminders)`.
    """
    return _emit(
        pure.transcript_compact(
            transcript,
            strategy=strategy,
            keep_last=keep_last,
            summarizer=summarizer,
            custom_compactor=custom_compactor,
        )
    )


def propagate(transcript: Transcript, *, agent_id: str) -> Handoff:
    """The `reminder_propagation` of a handoff from this transcript's agent to a sub-agent."""
    return pure.propagate_reminders(transcript, agent_id=agent_id)


def _emit(decided: Decided[_Value]) -> _Value:
    """Report the events to the active event log, and return the value."""
    emit(decided.events)
    return decided.value
