"""The pure transforms with this process's ids, telling the active event log what they did."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sideband.core import transcript as pure
from sideband.core.lifecycle import Selector
from sideband.core.propagation import Handoff
from sideband.core.reminder import ReminderId
from sideband.core.transcript import CustomCompactor, Strategy, Summarizer, Transcript, TranscriptEvent
from sideband.runtime.eventlog import emit
from sideband.runtime.ids import new_id


class Injection(NamedTuple):
    """The transcript with the new reminder, its id, and how many older ones of its key it replaced."""

    transcript: Transcript
    reminder_id: ReminderId
    deduped_count: int


def inject_reminder(transcript: Transcript, **options: Any) -> Injection:  # noqa: ANN401 - checked by the parser
    """Append a reminder to a copy of `transcript`; the input and its messages stay as they are.

    Options: `body` (required), `tags`, `dedupe_key`, `ttl_turns`, `preserve_on_compact`, `propagate`, `role_hint`.
    An older reminder with the same `dedupe_key` is replaced. A wrong or unknown option raises `ReminderError`.
    """
    result = pure.inject_reminder(transcript, options, new_id=new_id)
    emit(result.events)
    return Injection(result.transcript, result.reminder_id, result.deduped_count)


class Clearing(NamedTuple):
    """The transcript without the reminders that matched, and how many those were."""

    transcript: Transcript
    removed_count: int


def clear_reminders(
    transcript: Transcript,
    *,
    id: str | None = None,
    tag: str | None = None,
    dedupe_key: str | None = None,
) -> Clearing:
    """Remove every live reminder that matches all that is given; at least one selector must be."""
    result = pure.clear_reminders(transcript, Selector(id=id, tag=tag, dedupe_key=dedupe_key))
    emit(result.events)
    return Clearing(result.transcript, result.removed_count)


def transcript_reminder_event(reminder: Mapping[str, object]) -> TranscriptEvent:
    """The transcript event of a reminder-like mapping, leniently: what cannot be used becomes its default."""
    return pure.transcript_reminder_event(reminder, new_id=new_id)


class TurnEnd(NamedTuple):
    """The transcript one turn older, and the ids of the reminders whose last turn that was."""

    transcript: Transcript
    expired_ids: tuple[str, ...]


def end_turn(transcript: Transcript, turn: int) -> TurnEnd:
    """The post-turn pass over a copy: finite reminders there by `turn` age by one and expire at their last."""
    result = pure.end_turn(transcript, turn)
    emit(result.events)
    return TurnEnd(result.transcript, result.expired_ids)


class Compaction(NamedTuple):
    """The shorter transcript; `archived_messages` is 0 where there was nothing to compact."""

    transcript: Transcript
    archived_messages: int


def transcript_compact(
    transcript: Transcript,
    *,
    strategy: str = Strategy.SUMMARIZE,
    keep_last: int = pure.DEFAULT_KEEP_LAST,
    summarizer: Summarizer | None = None,
    custom_compactor: CustomCompactor | None = None,
) -> Compaction:
    """Compact a copy: finite TTLs fall by one, keys collapse to the newest, only preserved reminders stay.

    `summarize` replaces all but the last messages by what `summarizer` makes of them, `keep_last` only drops them;
    `custom` asks `custom_compactor(messages, reminders)`.
    """
    result = pure.transcript_compact(
        transcript,
        strategy=strategy,
        keep_last=keep_last,
        summarizer=summarizer,
        custom_compactor=custom_compactor,
    )
    emit(result.events)
    return Compaction(result.transcript, result.archived_messages)


def propagate(transcript: Transcript, *, agent_id: str) -> Handoff:
    """The `reminder_propagation` of a handoff from this transcript's agent to a sub-agent."""
    return pure.propagate_reminders(transcript, agent_id=agent_id)
