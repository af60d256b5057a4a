"""Inject, replace and clear: the pure transforms on a transcript, and the same rules in a live session."""

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.accept import RevokeStatus, Selector
from sideband.core.errors import AlreadyDelivered, AlreadyRevoked, InvalidOption
from sideband.core.events import Deduped, Expired, ExpiryReason, Injected, Queued
from sideband.core.reminder import Reminder
from sideband.core.seams import Mode, Seam
from sideband.core.transcript import (
    Transcript,
    TranscriptEvent,
    Visibility,
    clear_reminders,
    inject_reminder,
    reminder_event,
)
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from tests.builders import a_draft, a_reminder, counting_ids
from tests.sessions import CLIENT, Session

MESSAGES = ({"role": "user", "content": "Fix the login bug"}, {"role": "assistant", "content": "On it."})
NOTE = TranscriptEvent(id="n1", kind="note", role="system", text="not a reminder")
PEER = Provenance(trust=Trust.PEER, principal="coordinator", via="a2a")


def a_transcript(*reminders: Reminder) -> Transcript:
    """Two messages, an event of another kind, and these reminders."""
    events = [reminder_event(reminder, event_id=f"e-{reminder.id}") for reminder in reminders]
    return Transcript(messages=MESSAGES, events=(NOTE, *events))


def ids(transcript: Transcript) -> list[str]:
    return [reminder.id for reminder in transcript.reminders]


# Inject.


@pytest.mark.requirement("core:inject:returns-transcript-id-and-count")
def test_inject_returns_the_transcript_the_id_and_the_count() -> None:
    result = inject_reminder(Transcript(), {"body": "x"}, new_id=counting_ids())
    assert (ids(result.value.transcript), result.value.reminder_id, result.value.deduped_count) == (["id-1"], "id-1", 0)


@pytest.mark.requirement("core:inject:appends-at-the-end")
def test_inject_puts_the_new_reminder_behind_all_other_events() -> None:
    before = a_transcript(a_reminder("a", dedupe_key="A"), a_reminder("b", dedupe_key="B"))
    after = inject_reminder(before, {"body": "x", "dedupe_key": "A"}, new_id=counting_ids()).value.transcript
    assert [event.id for event in after.events] == ["n1", "e-b", "id-2"]
    assert ids(after) == ["b", "id-1"]


@pytest.mark.requirement(
    "core:inject:replaces-every-one-of-its-key",
    "core:inject:counts-what-it-replaced",
    "core:dedupe:one-event-for-each-replaced",
    "core:dedupe:events-precede-the-new-one",
)
def test_inject_replaces_every_live_reminder_of_its_key() -> None:
    before = a_transcript(
        a_reminder("a", dedupe_key="k"), a_reminder("b", dedupe_key="K"), a_reminder("c", dedupe_key="k")
    )
    result = inject_reminder(before, {"body": "x", "dedupe_key": "k"}, new_id=counting_ids())
    assert (ids(result.value.transcript), result.value.deduped_count) == (["b", "id-1"], 2)
    assert result.events[:2] == (
        Deduped(replaced_id="a", replacing_id="id-1", dedupe_key="k", provenance=IN_PROCESS),
        Deduped(replaced_id="c", replacing_id="id-1", dedupe_key="k", provenance=IN_PROCESS),
    )
    assert [type(event) for event in result.events] == [Deduped, Deduped, Injected]


@pytest.mark.requirement("core:inject:without-a-key-replaces-nothing")
def test_inject_without_a_key_replaces_nothing() -> None:
    new_id = counting_ids()
    once = inject_reminder(Transcript(), {"body": "x"}, new_id=new_id).value.transcript
    twice = inject_reminder(once, {"body": "x"}, new_id=new_id)
    assert ([reminder.body for reminder in twice.value.transcript.reminders], twice.value.deduped_count) == (
        ["x", "x"],
        0,
    )


@pytest.mark.requirement("core:inject:input-is-unchanged", "core:inject:messages-are-unchanged")
def test_inject_leaves_its_input_and_the_messages_as_they_were() -> None:
    before = a_transcript(a_reminder("a", dedupe_key="k"))
    after = inject_reminder(before, {"body": "x", "dedupe_key": "k"}, new_id=counting_ids()).value.transcript
    assert before == a_transcript(a_reminder("a", dedupe_key="k"))
    assert after.messages == MESSAGES


@pytest.mark.requirement("core:inject:replaces-every-one-of-its-key")
def test_inject_never_replaces_what_is_only_for_the_record() -> None:
    recorded = reminder_event(a_reminder("a", dedupe_key="k"), event_id="e", visibility=Visibility.INTERNAL)
    result = inject_reminder(Transcript(events=(recorded,)), {"body": "x", "dedupe_key": "k"}, new_id=counting_ids())
    assert (result.value.deduped_count, result.value.transcript.events[0]) == (0, recorded)


# Clear.

CLEARABLE = (
    a_reminder("a", tags=("ci", "red"), dedupe_key="ci:status"),
    a_reminder("b", tags=("ci",), dedupe_key="ci:lint"),
    a_reminder("c", tags=("CI",), dedupe_key="ci"),
    a_reminder("d"),
)


@pytest.mark.parametrize(
    ("selector", "removed"),
    [
        pytest.param(Selector(id="d"), ["d"], id="id", marks=pytest.mark.requirement("core:clear:by-id")),
        pytest.param(Selector(tag="ci"), ["a", "b"], id="tag", marks=pytest.mark.requirement("core:clear:by-tag")),
        pytest.param(
            Selector(dedupe_key="ci:lint"),
            ["b"],
            id="dedupe-key",
            marks=pytest.mark.requirement("core:clear:by-dedupe-key"),
        ),
        pytest.param(
            Selector(tag="ci", dedupe_key="ci:status"),
            ["a"],
            id="tag-and-key",
            marks=pytest.mark.requirement("core:clear:selectors-are-joined-by-and"),
        ),
        pytest.param(
            Selector(id="b", tag="ci", dedupe_key="ci:lint"),
            ["b"],
            id="all-three",
            marks=pytest.mark.requirement("core:clear:selectors-are-joined-by-and"),
        ),
        pytest.param(
            Selector(id="b", tag="red"),
            [],
            id="each-matches-another-one",
            marks=pytest.mark.requirement("core:clear:selectors-are-joined-by-and"),
        ),
        pytest.param(
            Selector(dedupe_key="ci"),
            ["c"],
            id="whole-key",
            marks=pytest.mark.requirement("core:clear:matches-exactly"),
        ),
        pytest.param(
            Selector(tag="Ci"), [], id="case-of-tag", marks=pytest.mark.requirement("core:clear:matches-exactly")
        ),
        pytest.param(
            Selector(id=" d"), [], id="space-around-id", marks=pytest.mark.requirement("core:clear:matches-exactly")
        ),
        pytest.param(
            Selector(id="nobody"), [], id="no-match", marks=pytest.mark.requirement("core:clear:no-match-is-no-error")
        ),
    ],
)
@pytest.mark.requirement("core:clear:returns-transcript-and-count", "core:clear:each-ends-as-cleared")
def test_clear_removes_what_matches_every_selector(selector: Selector, removed: list[str]) -> None:
    before = a_transcript(*CLEARABLE)
    result = clear_reminders(before, selector)
    assert ids(result.value.transcript) == [reminder.id for reminder in CLEARABLE if reminder.id not in removed]
    assert result.value.removed_count == len(removed)
    assert [(event.reminder_id, event.reason) for event in result.events if isinstance(event, Expired)] == [
        (gone, ExpiryReason.CLEARED) for gone in removed
    ]


@pytest.mark.requirement("core:clear:by-dedupe-key")
def test_clear_removes_every_reminder_of_a_key() -> None:
    before = a_transcript(a_reminder("a", dedupe_key="k"), a_reminder("b"), a_reminder("c", dedupe_key="k"))
    assert ids(clear_reminders(before, Selector(dedupe_key="k")).value.transcript) == ["b"]


@pytest.mark.requirement("core:clear:no-match-is-no-error")
def test_clear_that_matches_nothing_returns_an_equal_transcript() -> None:
    before = a_transcript(*CLEARABLE)
    assert clear_reminders(before, Selector(tag="nothing has it")) == ((), (before, 0))


@pytest.mark.requirement("core:clear:input-is-unchanged")
def test_clear_leaves_its_input_as_it_was() -> None:
    before = a_transcript(*CLEARABLE)
    clear_reminders(before, Selector(tag="ci"))
    assert before == a_transcript(*CLEARABLE)


@pytest.mark.requirement("core:clear:needs-a-selector")
def test_clear_needs_a_selector() -> None:
    with pytest.raises(InvalidOption, match="HARN-RMD-001"):
        clear_reminders(Transcript(), Selector())


@pytest.mark.requirement("core:clear:matches-exactly")
@pytest.mark.parametrize("part", ["id", "tag", "dedupe_key"])
def test_a_selector_is_text(part: str) -> None:
    with pytest.raises(InvalidOption, match=f"{part} must be a string, not 5") as refused:
        msgspec.structs.replace(Selector(id="a"), **{part: 5})
    assert refused.value.field == part


@pytest.mark.requirement("core:clear:ends-queued-and-live-reminders-of-a-session", "core:clear:each-ends-as-cleared")
def test_clearing_a_session_ends_queued_and_live_reminders() -> None:
    session = Session()
    session.inject(a_reminder("a", tags=("ci",), dedupe_key="k"))
    session.inject(a_reminder("b"))
    queued, other = session.accept(a_draft(tags=("ci",))).reminder_id, session.accept(a_draft()).reminder_id
    session.turn()
    assert session.clear(Selector(tag="ci")) == (
        Expired(reminder_id=queued, reason=ExpiryReason.CLEARED, turn=1, provenance=CLIENT),
        Expired(reminder_id="a", reason=ExpiryReason.CLEARED, turn=1, dedupe_key="k", provenance=IN_PROCESS),
    )
    assert (session.live_ids, session.queued_ids) == (["b"], [other])


@pytest.mark.requirement("core:clear:audit-records-only-by-id")
def test_a_queued_audit_record_is_cleared_only_by_its_id() -> None:
    session = Session()
    record = session.accept(a_draft(mode=Mode.AUDIT_ONLY, tags=("ci",), dedupe_key="k")).reminder_id
    assert session.clear(Selector(tag="ci")) == session.clear(Selector(dedupe_key="k")) == ()
    assert len(session.clear(Selector(id=record, tag="ci"))) == 1
    assert session.queued_ids == []


@pytest.mark.requirement("core:clear:competes-with-the-drain")
def test_a_clear_competes_with_the_drain_as_a_revoke_does() -> None:
    session = Session()
    first, second = session.accept(a_draft()).reminder_id, session.accept(a_draft()).reminder_id
    session.clear(Selector(id=first))
    assert session.revoke(first) is RevokeStatus.ALREADY_REVOKED
    with pytest.raises(AlreadyRevoked):
        session.replace_reminder(first, "The build is green.")
    assert [item.id for item in session.drain().taken] == [second]
    session.clear(Selector(id=second))
    with pytest.raises(AlreadyDelivered):
        session.revoke(second)
    assert (session.live_ids, session.queued_ids) == ([], [])


# Replacing in a live session.


@pytest.mark.requirement(
    "core:dedupe:accept-displaces-only-queued-items",
    "core:dedupe:count-is-what-left-the-inbox",
    "core:dedupe:events-precede-the-new-one",
    "core:dedupe:one-event-for-each-replaced",
)
def test_accept_displaces_what_waits_and_leaves_what_is_live() -> None:
    session = Session()
    session.inject(a_reminder("live", dedupe_key="k"))
    first = session.accept(a_draft(dedupe_key="k"))
    second = session.accept(a_draft(dedupe_key="k"))
    assert (first.deduped_count, second.deduped_count) == (0, 1)
    assert (session.live_ids, session.queued_ids) == (["live"], [second.reminder_id])
    deduped, queued = session.journal[-2:]
    assert isinstance(queued, Queued)
    assert deduped == Deduped(
        replaced_id=first.reminder_id, replacing_id=second.reminder_id, dedupe_key="k", provenance=CLIENT
    )


class Sender(NamedTuple):
    """What tells the slot of a queued reminder."""

    provenance: Provenance = CLIENT
    dedupe_key: str | None = "k"
    mode: Mode = Mode.FINISH_STEP


@pytest.mark.parametrize(
    ("second", "deduped_count"),
    [
        pytest.param(
            Sender(), 1, id="all-the-same", marks=pytest.mark.requirement("core:dedupe:same-namespace-key-and-kind")
        ),
        pytest.param(
            Sender(provenance=Provenance()),
            1,
            id="operator-and-client-share-a-namespace",
            marks=pytest.mark.requirement("core:dedupe:same-namespace-key-and-kind"),
        ),
        pytest.param(
            Sender(mode=Mode.INTERRUPT_IMMEDIATE),
            1,
            id="other-mode",
            marks=pytest.mark.requirement("core:dedupe:same-namespace-key-and-kind"),
        ),
        pytest.param(
            Sender(provenance=PEER),
            0,
            id="other-namespace",
            marks=pytest.mark.requirement("core:dedupe:same-namespace-key-and-kind"),
        ),
        pytest.param(
            Sender(dedupe_key="K"),
            0,
            id="other-key",
            marks=pytest.mark.requirement("core:dedupe:same-namespace-key-and-kind"),
        ),
        pytest.param(
            Sender(dedupe_key=None),
            0,
            id="no-key",
            marks=pytest.mark.requirement("core:dedupe:same-namespace-key-and-kind"),
        ),
        pytest.param(
            Sender(mode=Mode.AUDIT_ONLY),
            0,
            id="only-for-the-record",
            marks=pytest.mark.requirement("core:dedupe:audit-only-stays-apart"),
        ),
    ],
)
def test_an_accepted_reminder_displaces_only_its_own_slot(second: Sender, deduped_count: int) -> None:
    session = Session()
    earlier = session.accept(a_draft(dedupe_key="k")).reminder_id
    later = session.accept(a_draft(dedupe_key=second.dedupe_key, mode=second.mode), second.provenance)
    assert session.queued_ids == [earlier, later.reminder_id][deduped_count:]
    assert later.deduped_count == deduped_count


@pytest.mark.requirement("core:dedupe:audit-only-stays-apart")
def test_audit_only_reminders_displace_each_other_and_nothing_else() -> None:
    session = Session()
    session.accept(a_draft(dedupe_key="k", mode=Mode.AUDIT_ONLY))
    recorded = session.accept(a_draft(dedupe_key="k", mode=Mode.AUDIT_ONLY))
    shown = session.accept(a_draft(dedupe_key="k"))
    assert (recorded.deduped_count, shown.deduped_count) == (1, 0)
    assert session.queued_ids == [recorded.reminder_id, shown.reminder_id]


@pytest.mark.requirement("core:dedupe:audit-only-stays-apart")
def test_what_is_recorded_at_loop_exit_displaces_no_live_reminder() -> None:
    session = Session()
    session.inject(a_reminder("live", dedupe_key="k"))
    session.accept(a_draft(dedupe_key="k", mode=Mode.AUDIT_ONLY))
    session.drain(Seam.LOOP_EXIT)
    assert (session.live_ids, session.queued_ids) == (["live"], [])


@pytest.mark.requirement("core:dedupe:same-namespace-key-and-kind")
def test_a_peer_displaces_no_live_reminder_of_the_session() -> None:
    session = Session()
    session.inject(a_reminder("live", dedupe_key="k"))
    theirs = session.accept(a_draft(dedupe_key="k"), PEER).reminder_id
    session.drain()
    assert session.live_ids == ["live", theirs]


@pytest.mark.requirement("core:dedupe:live-one-goes-when-the-newer-is-drained")
def test_a_live_reminder_goes_in_the_drain_that_brings_the_newer_one() -> None:
    session = Session()
    session.inject(a_reminder("old", dedupe_key="k"))
    new = session.accept(a_draft(dedupe_key="k")).reminder_id
    drained = session.drain()
    assert drained.events[0] == Deduped(replaced_id="old", replacing_id=new, dedupe_key="k", provenance=CLIENT)
    assert isinstance(drained.events[1], Injected)
    assert session.live_ids == [new]


STEPS = st.lists(st.sampled_from(["accept", "inject", "drain", "turn", "revoke", "peer", "audit"]), max_size=30)


def play(session: Session, step: str) -> list[str] | None:
    """One step of a history about a single key; a turn tells what it showed."""
    match step:
        case "accept":
            session.accept(a_draft(dedupe_key="k"))
        case "peer":
            session.accept(a_draft(dedupe_key="k"), PEER)
        case "audit":
            session.accept(a_draft(dedupe_key="k", mode=Mode.AUDIT_ONLY))
        case "inject":
            session.inject(a_reminder(session.new_id(), dedupe_key="k"))
        case "drain":
            session.drain()
        case "revoke":
            for waiting in session.queued_ids[:1]:
                session.revoke(waiting)
        case _:
            return session.turn()
    return None


@pytest.mark.requirement("core:dedupe:no-request-has-neither")
@given(steps=STEPS)
def test_once_a_key_was_shown_every_request_shows_one_of_it(steps: list[str]) -> None:
    session = Session()
    shown_before = False
    for step in steps:
        showing = play(session, step)
        if showing is not None:
            # A reminder of a peer has a TTL; after its end, no reminder with this key may be live.
            own = {item.id for item in session.state.live if item.provenance.namespace == IN_PROCESS.namespace}
            assert own.intersection(showing) or not shown_before
            shown_before = shown_before or bool(own.intersection(showing))


@pytest.mark.requirement("core:dedupe:at-most-one-queued-and-one-live")
@given(steps=STEPS)
def test_a_key_has_at_most_one_queued_and_one_live_reminder_in_a_namespace(steps: list[str]) -> None:
    session = Session()
    for step in steps:
        play(session, step)
        queued = [item.provenance.namespace for item in session.state.inbox.items() if item.waits_in != Mode.AUDIT_ONLY]
        live = [item.provenance.namespace for item in session.state.live]
        assert len(queued) == len(set(queued))
        assert len(live) == len(set(live))
