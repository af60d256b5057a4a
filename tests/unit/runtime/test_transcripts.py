"""The pure transforms with the ids of this process."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from sideband.core.errors import InvalidOption, UnknownOption
from sideband.core.reminder import Reminder, RoleHint, Source
from sideband.core.transcript import Transcript
from sideband.runtime.transcripts import (
    clear_reminders,
    end_turn,
    inject_reminder,
    propagate,
    transcript_compact,
    transcript_reminder_event,
)

MESSAGES = ({"role": "user", "content": "Fix the login bug"}, {"role": "assistant", "content": "On it."})


def a_transcript(**options: Any) -> Transcript:  # noqa: ANN401 - options of a reminder
    """Two messages and one reminder."""
    return inject_reminder(Transcript(messages=MESSAGES), **{"body": "The build is red.", **options}).transcript


def test_inject_gives_a_new_transcript_the_id_and_how_many_were_replaced() -> None:
    before = a_transcript(dedupe_key="build")
    after, reminder_id, deduped_count = inject_reminder(before, body="The build is green.", dedupe_key="build")
    assert deduped_count == 1
    assert [(reminder.id, reminder.body) for reminder in after.reminders] == [(reminder_id, "The build is green.")]
    assert [reminder.body for reminder in before.reminders] == ["The build is red."]
    assert after.messages == before.messages


def test_ids_of_reminders_and_events_are_new_each_time_and_sort_by_age() -> None:
    transcript = Transcript()
    for _ in range(5):
        transcript = inject_reminder(transcript, body="x").transcript
    ids = [reminder.id for reminder in transcript.reminders]
    events = [event.id for event in transcript.events]
    assert sorted(ids) == ids
    assert len({*ids, *events}) == 10
    assert {uuid.UUID(identity).version for identity in (*ids, *events)} == {7}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param({"body": " "}, InvalidOption, id="a-blank-body"),
        pytest.param({"body": "x", "ttl_turns": 0}, InvalidOption, id="a-wrong-value"),
        pytest.param({"body": "x", "mode": "finish_step"}, UnknownOption, id="an-unknown-option"),
    ],
)
def test_inject_refuses_what_the_parser_refuses(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="HARN-RMD-001"):
        inject_reminder(Transcript(), **options)


def test_clear_gives_a_new_transcript_and_how_many_are_gone() -> None:
    before = a_transcript(tags=["ci"], dedupe_key="build")
    after, removed_count = clear_reminders(before, tag="ci", dedupe_key="build")
    assert (after, removed_count) == (Transcript(messages=MESSAGES), 1)
    assert len(before.reminders) == 1


def test_clear_by_an_id_takes_only_that_one() -> None:
    first = inject_reminder(Transcript(), body="x")
    second = inject_reminder(first.transcript, body="y")
    cleared = clear_reminders(second.transcript, id=first.reminder_id)
    assert [reminder.body for reminder in cleared.transcript.reminders] == ["y"]
    assert clear_reminders(second.transcript, id="another") == (second.transcript, 0)


def test_clear_needs_a_selector() -> None:
    with pytest.raises(InvalidOption, match="HARN-RMD-001"):
        clear_reminders(a_transcript())


def test_an_event_is_built_from_whatever_can_be_used() -> None:
    event = transcript_reminder_event({"body": "x", "role_hint": "developer", "ttl_turns": "soon", "mood": "good"})
    assert event.reminder is not None
    assert (event.text, event.role) == ("x", "developer")
    assert (event.reminder.role_hint, event.reminder.ttl_turns) == (RoleHint.DEVELOPER, None)
    assert len({uuid.UUID(event.id), uuid.UUID(event.reminder.id)}) == 2


def test_the_end_of_a_turn_ages_and_expires() -> None:
    before = inject_reminder(a_transcript(ttl_turns=1), body="y", ttl_turns=2).transcript
    transcript, expired_ids = end_turn(before, turn=1)
    assert expired_ids == (before.reminders[0].id,)
    assert [(reminder.body, reminder.ttl_turns) for reminder in transcript.reminders] == [("y", 1)]
    assert end_turn(transcript, turn=2).transcript.reminders == ()


def test_compaction_summarises_the_messages_and_keeps_what_asked_for_it() -> None:
    before = inject_reminder(a_transcript(), body="policy", preserve_on_compact=True).transcript
    told: list[Sequence[dict[str, Any]]] = []

    def summarizer(archived: Sequence[dict[str, Any]]) -> str:
        told.append(archived)
        return "They greeted each other."

    after, archived_messages = transcript_compact(before, keep_last=1, summarizer=summarizer)
    assert archived_messages == 1
    assert told == [MESSAGES[:1]]
    assert after.messages == ({"role": "system", "content": "They greeted each other."}, MESSAGES[1])
    assert [reminder.body for reminder in after.reminders] == ["policy"]


def test_a_conversation_that_is_short_enough_is_not_compacted() -> None:
    before = a_transcript(ttl_turns=2)
    assert transcript_compact(before, summarizer=lambda _: "never asked") == (before, 0)


def test_a_custom_compactor_is_given_messages_and_reminders() -> None:
    seen: list[str] = []

    def compactor(messages: Sequence[dict[str, Any]], reminders: Sequence[Reminder]) -> list[dict[str, Any]]:
        seen.extend(reminder.body for reminder in reminders)
        return [*messages[-1:]]

    after, archived_messages = transcript_compact(a_transcript(), strategy="custom", custom_compactor=compactor)
    assert (seen, archived_messages) == (["The build is red."], 1)
    assert after == Transcript(messages=MESSAGES[1:])


def test_a_handoff_carries_what_propagates_with_its_origin() -> None:
    before = inject_reminder(a_transcript(), body="local", propagate="none").transcript
    handoff = propagate(before, agent_id="main")
    assert handoff.at_hop_limit == ()
    (handed,) = (entry.reminder for entry in handoff.reminder_propagation)
    assert (handed.body, handed.originating_agent_id) == ("The build is red.", "main")
    assert handed.source is Source.IN_PIPELINE
