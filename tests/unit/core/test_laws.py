"""Laws of reminders: in the pure transforms, in a session, and that both agree."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, Protocol

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.accept import Selector
from sideband.core.events import Injected
from sideband.core.reminder import Reminder
from sideband.core.seams import Seam
from sideband.core.state import Decided
from sideband.core.transcript import (
    REMINDER_KIND,
    Transcript,
    TranscriptEvent,
    Visibility,
    clear_reminders,
    end_turn,
    inject_reminder,
    reminder_event,
    transcript_compact,
)
from tests.builders import a_reminder, counting_ids
from tests.sessions import Session
from tests.unit.core.core_and_naive import Pair
from tests.unit.core.session_machine import asks, places, seams, selectors, whos
from tests.unit.core.state_checks import ends

options = asks.map(lambda ask: {name: value for name, value in ask.items() if name != "mode"})
ttls = st.none() | st.integers(1, 4)


# The pure transforms.


@st.composite
def transcripts(draw: st.DrawFn) -> Transcript:
    """Messages, reminders (of which a hand-made transcript may have several of a key), and what else there may be."""
    roles = draw(st.lists(st.sampled_from(["user", "assistant", "tool"]), max_size=6))
    events: list[TranscriptEvent] = []
    for place, fields in enumerate(draw(st.lists(options, max_size=6))):
        reminder = a_reminder(f"r{place}", **fields, fired_at_turn=draw(st.integers(0, 3)))
        visibility = draw(st.sampled_from([Visibility.PUBLIC, Visibility.PUBLIC, Visibility.INTERNAL]))
        events.append(reminder_event(reminder, event_id=f"e{place}", visibility=visibility))
        if draw(st.booleans()):
            events.append(TranscriptEvent(id=f"o{place}", kind="tool_call", role="assistant", text="ls"))
    messages = tuple({"role": role, "content": [f"{place}"]} for place, role in enumerate(roles))
    return Transcript(messages=messages, events=tuple(events))


class Transformed(Protocol):
    @property
    def transcript(self) -> Transcript: ...


Transform = Callable[[Transcript], Decided[Transformed]]


def reworded(messages: Sequence[dict[str, Any]], _survivors: Sequence[Reminder]) -> Sequence[dict[str, Any]]:
    return [*messages[1:], {"role": "user", "content": "and so on"}]


def ids_in(transcript: Transcript) -> list[str]:
    return [reminder.id for reminder in transcript.reminders]


steadfast: st.SearchStrategy[Transform] = st.one_of(
    st.builds(partial, st.just(inject_reminder), options=options, new_id=st.builds(counting_ids)),
    st.builds(partial, st.just(clear_reminders), selector=selectors.filter(bool).map(lambda given: Selector(**given))),
    st.builds(partial, st.just(end_turn), turn=st.integers(0, 4)),
)
compactions: st.SearchStrategy[Transform] = st.one_of(
    st.builds(partial, st.just(transcript_compact), strategy=st.just("keep_last"), keep_last=st.integers(0, 6)),
    st.just(partial(transcript_compact, keep_last=2, summarizer=lambda archived: f"{len(archived)} before")),
    st.just(partial(transcript_compact, strategy="custom", custom_compactor=reworded)),
)


@given(transcripts(), steadfast | compactions)
def test_every_reminder_that_a_transform_removes_has_an_event(before: Transcript, transform: Transform) -> None:
    transformed = transform(before)
    after, events = transformed.value.transcript, transformed.events
    gone = set(ids_in(before)) - set(ids_in(after))
    assert {reminder_id: len(words) for reminder_id, words in ends(events).items()} == dict.fromkeys(gone, 1)
    arrived = [event.reminder.id for event in events if isinstance(event, Injected)]
    assert [new for new in ids_in(after) if new not in ids_in(before)] == arrived


@given(transcripts(), steadfast | compactions)
def test_no_transform_changes_its_input(before: Transcript, transform: Transform) -> None:
    copy = deepcopy(before)
    transform(before)
    assert before == copy


@given(transcripts(), steadfast)
def test_only_compaction_touches_messages(before: Transcript, transform: Transform) -> None:
    assert transform(before).value.transcript.messages == before.messages


@given(transcripts(), steadfast | compactions)
def test_no_transform_touches_what_is_not_a_live_reminder(before: Transcript, transform: Transform) -> None:
    def others(transcript: Transcript) -> list[TranscriptEvent]:
        return [e for e in transcript.events if e.kind != REMINDER_KIND or e.visibility is Visibility.INTERNAL]

    assert others(transform(before).value.transcript) == others(before)


@given(transcripts(), steadfast | compactions)
def test_what_stays_keeps_its_order_and_all_but_its_ttl(before: Transcript, transform: Transform) -> None:
    after = transform(before).value.transcript
    assert [old for old in ids_in(before) if old in ids_in(after)] == [
        old for old in ids_in(after) if old in ids_in(before)
    ]
    originals = {reminder.id: reminder for reminder in before.reminders}
    for reminder in after.reminders:
        original = originals.get(reminder.id, reminder)
        assert msgspec.structs.replace(reminder, ttl_turns=original.ttl_turns) == original


@given(transcripts(), options)
def test_injecting_leaves_the_new_one_as_the_only_one_of_its_key(
    before: Transcript, given_options: dict[str, Any]
) -> None:
    after, reminder_id, deduped_count = inject_reminder(before, given_options, new_id=counting_ids()).value
    assert ids_in(after)[-1] == reminder_id
    assert deduped_count == len(ids_in(before)) - len(ids_in(after)) + 1
    key = given_options["dedupe_key"]
    same = [reminder.id for reminder in after.reminders if reminder.dedupe_key == key]
    assert key is None or same == [reminder_id]


@given(transcripts(), compactions)
def test_compaction_keeps_the_preserved_the_unexpired_and_the_newest(before: Transcript, shorten: Transform) -> None:
    compacted = shorten(before)
    aged = [
        reminder if reminder.ttl_turns is None else msgspec.structs.replace(reminder, ttl_turns=reminder.ttl_turns - 1)
        for reminder in before.reminders
        if reminder.ttl_turns != 1
    ]
    newest = {reminder.dedupe_key or reminder.id: reminder for reminder in aged}
    kept = tuple(r for r in aged if r in newest.values() and r.preserve_on_compact)
    assert compacted.value.transcript.reminders == (kept if compacted.events else before.reminders)


# A session.

happenings: st.SearchStrategy[Callable[[Pair], object]] = st.one_of(
    st.builds(partial, st.just(Pair.accept), ask=asks, who=whos),
    st.builds(partial, st.just(Pair.accept), ask=asks, who=whos),
    st.builds(partial, st.just(Pair.inject), ask=asks),
    st.builds(partial, st.just(Pair.drain), seam=seams),
    st.builds(partial, st.just(Pair.drain), seam=st.just(Seam.ITERATION_START)),
    st.builds(partial, st.just(Pair.turn), too_much=st.sets(places)),
    st.builds(partial, st.just(Pair.clear), selector=selectors.filter(bool), who=whos),
    st.builds(partial, st.just(Pair.compact), archived=st.just(1)),
)
histories = st.lists(happenings, max_size=30)


def what_became_of(session: Session) -> list[str]:
    """Every id, once for each place it is in: the inbox, live, or ended."""
    ended = [reminder_id for reminder_id, words in ends(session.journal).items() for _ in words]
    return [*session.queued_ids, *session.live_ids, *ended]


@given(histories)
def test_a_reminder_of_a_session_waits_is_live_or_has_ended_once(history: list[Callable[[Pair], object]]) -> None:
    pair = Pair("main")
    for happens in history:
        happens(pair)
        places_taken = what_became_of(pair.core)
        assert sorted(places_taken) == sorted(pair.naive.known)


@given(histories)
def test_once_closed_each_has_ended_exactly_once(history: list[Callable[[Pair], object]]) -> None:
    pair = Pair("main")
    for happens in history:
        happens(pair)
    pair.close()
    assert not pair.core.queued_ids
    assert not pair.core.live_ids
    assert ends(pair.core.journal).keys() == pair.naive.known.keys()
    assert all(len(words) == 1 for words in ends(pair.core.journal).values())


@given(histories)
def test_reminders_never_become_messages(history: list[Callable[[Pair], object]]) -> None:
    pair = Pair("main")
    for happens in history:
        happens(pair)
    assert pair.core.state.messages == []


# How long.


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 5), min_size=1),
    st.lists(st.tuples(st.sampled_from(["turn", "turn", "retry", "void", "compact"]), st.sets(st.sampled_from("abc")))),
)
def test_a_finite_reminder_is_shown_in_its_ttl_turns_less_the_compactions_since(
    ttl_of: dict[str, int], moments: list[tuple[str, set[str]]]
) -> None:
    session = Session()
    for reminder_id, ttl in ttl_of.items():
        session.inject(a_reminder(reminder_id, ttl_turns=ttl, preserve_on_compact=True))
    shown, lost = dict.fromkeys(ttl_of, 0), dict.fromkeys(ttl_of, 0)
    for moment, missing in moments:
        there = session.live_ids
        if moment == "compact":
            session.compact()
            for reminder_id in there:
                lost[reminder_id] += shown[reminder_id] > 0
        else:
            showing = session.send_request(left_out=missing & set(there))
            if moment == "retry":
                session.send_request(left_out=missing & set(there), attempt=2)
            if moment == "void":
                session.void()
                continue
            session.take_reply()
            for reminder_id in showing:
                shown[reminder_id] += 1
        for reminder_id, ttl in ttl_of.items():
            assert (reminder_id in session.live_ids) == (shown[reminder_id] + lost[reminder_id] < ttl)


@given(histories)
def test_a_compaction_of_a_session_keeps_the_preserved_and_the_unexpired(
    history: list[Callable[[Pair], object]],
) -> None:
    pair = Pair("main")
    for happens in history:
        happens(pair)
    live = pair.core.state.live
    lowered = [
        (item.id, left if left is None or item.first_turn is None else left - 1, item.reminder.preserve_on_compact)
        for item in live
        for left in [live.remaining(item)]
    ]
    pair.core.compact()
    kept = [(item_id, left) for item_id, left, preserved in lowered if preserved and left != 0]
    assert [(item.id, live.remaining(item)) for item in live] == kept


@given(st.lists(ttls, max_size=5), st.integers(1, 6))
def test_a_session_and_end_turn_agree_on_what_is_shown_from_the_start(each: list[int | None], turns: int) -> None:
    session, transcript, new_id = Session(), Transcript(), counting_ids()
    for ttl in each:
        injected = inject_reminder(transcript, {"body": "x", "ttl_turns": ttl}, new_id=new_id)
        transcript = injected.value.transcript
        session.inject(transcript.reminders[-1])
    for turn in range(1, turns + 1):
        session.turn()
        transcript = end_turn(transcript, turn).value.transcript
        live = session.state.live
        assert tuple(live.current(item) for item in live) == transcript.reminders
