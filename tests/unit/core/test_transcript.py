"""A transcript as a value: what it shows, and what it refuses to hold."""

from collections.abc import Callable
from typing import Any

import pytest

from sideband.core.accept import Selector
from sideband.core.errors import InvalidOption
from sideband.core.transcript import (
    Transcript,
    TranscriptEvent,
    Visibility,
    clear_reminders,
    end_turn,
    reminder_event,
    tail_start,
    transcript_compact,
)
from tests.builders import a_reminder


def test_an_event_of_another_kind_shows_no_reminder() -> None:
    event = TranscriptEvent(id="n1", kind="note", role="system", text="Only a note.")
    assert event.as_dict() == {
        "id": "n1",
        "kind": "note",
        "role": "system",
        "visibility": "public",
        "text": "Only a note.",
        "blocks": [{"type": "text", "text": "Only a note.", "visibility": "public"}],
    }


def test_only_public_reminder_events_are_live() -> None:
    events = (
        reminder_event(a_reminder("live"), event_id="e1"),
        reminder_event(a_reminder("recorded"), event_id="e2", visibility=Visibility.INTERNAL),
        TranscriptEvent(id="e3", kind="system_reminder", role="system"),
        TranscriptEvent(id="e4", kind="quote", role="system", reminder=a_reminder("quoted")),
    )
    assert [reminder.id for reminder in Transcript(events=events).reminders] == ["live"]


def test_changing_an_event_shown_as_a_dict_changes_nothing_else() -> None:
    event = reminder_event(a_reminder(tags=("ci",)), event_id="e1")
    event.as_dict()["reminder"]["tags"].append("changed")
    assert event.as_dict()["metadata"]["tags"] == ["ci"]


def test_a_transcript_in_which_an_id_stands_twice_is_refused() -> None:
    twice = Transcript(events=tuple(reminder_event(a_reminder("a"), event_id=name) for name in ("e1", "e2")))
    with pytest.raises(InvalidOption, match="two reminders with id 'a'"):
        clear_reminders(twice, Selector(tag="ci"))


@pytest.mark.parametrize("turn", [None, "1", 1.0, True], ids=repr)
def test_a_turn_that_is_no_whole_number_is_refused(turn: Any) -> None:  # noqa: ANN401 - what no caller should give
    with pytest.raises(InvalidOption, match="turn must be a whole number") as caught:
        end_turn(Transcript(), turn)
    assert (caught.value.code, caught.value.field, caught.value.value) == ("HARN-RMD-001", "turn", turn)


@pytest.mark.parametrize(
    "form", [list, tuple, lambda messages: Transcript(messages=messages)], ids=["a-list", "a-tuple", "a-transcript"]
)
def test_a_compactor_that_gives_the_messages_back_has_compacted_nothing(form: Callable[[Any], object]) -> None:
    # Nothing keeps a caller without a type checker from giving a list where a tuple is asked for.
    messages: Any = [{"role": "user", "content": "hello"}]
    transcript = Transcript(messages=messages, events=(reminder_event(a_reminder("a"), event_id="e1"),))
    compacted = transcript_compact(transcript, strategy="custom", custom_compactor=lambda given, _: form(given))
    assert compacted == ((), (transcript, 0))


@pytest.mark.parametrize(
    ("roles", "keep_last", "start"),
    [
        pytest.param("uaua", 2, 2, id="a-tail"),
        pytest.param("uaua", 0, 4, id="nothing"),
        pytest.param("uaua", 4, 0, id="everything"),
        pytest.param("uaua", 9, 0, id="more-than-there-is"),
        pytest.param("", 2, 0, id="no-messages"),
        pytest.param("uatta", 2, 1, id="results-stay-with-their-call"),
        pytest.param("uatta", 0, 5, id="nothing-needs-no-call"),
        pytest.param("tta", 2, 0, id="results-without-a-call"),
    ],
)
def test_a_tail_begins_with_no_result_of_a_call_outside_it(roles: str, keep_last: int, start: int) -> None:
    names = {"u": "user", "a": "assistant", "t": "tool"}
    assert tail_start([{"role": names[role]} for role in roles], keep_last) == start
