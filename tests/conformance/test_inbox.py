"""What waits: how much of it, what is listed and withdrawn, and what is only for the record."""

import msgspec
import pytest

from sideband.core.accept import RevokeStatus, Selector
from sideband.core.errors import AlreadyDelivered, AlreadyRevoked, TooManyPending, UnknownReminder
from sideband.core.events import AuditRecorded, Deduped, QueuedMessage, QueuedReminder, Replaced, Revoked, Started
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.propagation import propagate
from sideband.core.reminder import Propagate, RoleHint, Source
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.state import AuditRecord, Waiting, pending, waiting
from sideband.core.topic import Correlation, publish
from sideband.core.transcript import (
    Strategy,
    Transcript,
    TranscriptEvent,
    Visibility,
    clear_reminders,
    end_turn,
    inject_reminder,
    propagate_reminders,
    reminder_event,
    transcript_compact,
)
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.protocols import wire
from sideband.protocols.acp.messages import PendingMessage, PendingReminder
from tests.builders import a_draft, a_reminder, counting_ids
from tests.sessions import CLIENT, PEER, SERVER, Session

# Quota.


def a_full_session(mode: Mode = Mode.FINISH_STEP) -> Session:
    """One that has taken as many reminders of this mode as it takes."""
    session = Session()
    for _ in range(256):
        session.accept(a_draft(mode=mode), IN_PROCESS)
    return session


@pytest.mark.requirement("inbox:limit:per-session")
def test_the_257th_pending_reminder_of_a_session_is_refused() -> None:
    session = a_full_session()
    with pytest.raises(TooManyPending) as refused:
        session.accept(a_draft(), IN_PROCESS)
    assert (refused.value.reason, refused.value.value, refused.value.limit) == ("too_many_pending", 256, 256)


@pytest.mark.requirement("inbox:limit:messages-have-their-own")
@pytest.mark.parametrize("mode", Mode)
def test_no_number_of_reminders_keeps_a_user_out(mode: Mode) -> None:
    session = a_full_session(mode)
    for number in range(256):
        session.say(f"number {number}", InjectMode.QUEUE, IN_PROCESS)
    with pytest.raises(TooManyPending) as refused:
        session.say("number 257", InjectMode.QUEUE, IN_PROCESS)
    assert (refused.value.value, refused.value.limit) == (256, 256)


@pytest.mark.requirement("inbox:limit:the-record-has-its-own")
def test_what_is_only_recorded_takes_no_room_from_what_is_read() -> None:
    session = a_full_session(Mode.AUDIT_ONLY)
    session.accept(a_draft(), IN_PROCESS)
    session.say("when you are done", InjectMode.QUEUE, IN_PROCESS)
    with pytest.raises(TooManyPending):
        session.accept(a_draft(mode=Mode.AUDIT_ONLY), IN_PROCESS)
    with pytest.raises(TooManyPending):
        session.say("for the record", InjectMode.AUDIT_ONLY, IN_PROCESS)


@pytest.mark.requirement("inbox:limit:interrupts-have-a-reserve")
@pytest.mark.parametrize(("sender", "most"), [(IN_PROCESS, 256), (CLIENT, 64)], ids=["operator", "controller"])
def test_who_is_full_of_reminders_can_still_be_interrupted(sender: Provenance, most: int) -> None:
    session = Session()
    for _ in range(most):
        session.accept(a_draft(), sender)
    for _ in range(16):
        session.accept(a_draft(mode=Mode.INTERRUPT_IMMEDIATE), sender)
    with pytest.raises(TooManyPending) as refused:
        session.accept(a_draft(mode=Mode.INTERRUPT_IMMEDIATE), sender)
    assert refused.value.limit == most + 16
    # The reserve is theirs alone.
    with pytest.raises(TooManyPending):
        session.accept(a_draft(), sender)


@pytest.mark.requirement("inbox:limit:refuses-and-never-evicts")
def test_what_is_refused_for_lack_of_room_leaves_everything_in_place() -> None:
    session = Session()
    for number in range(256):
        session.accept(a_draft(dedupe_key=f"key-{number}"), IN_PROCESS)
    before = list(session.state.inbox.items())
    with pytest.raises(TooManyPending):
        session.accept(a_draft(), IN_PROCESS)
    assert list(session.state.inbox.items()) == before


@pytest.mark.requirement("inbox:limit:refuses-and-never-evicts")
def test_a_full_inbox_still_takes_what_replaces_one_of_its_own() -> None:
    session = Session()
    for number in range(256):
        session.accept(a_draft(dedupe_key=f"key-{number}"), IN_PROCESS)
    assert session.accept(a_draft(dedupe_key="key-7"), IN_PROCESS).deduped_count == 1
    assert len(session.queued_ids) == 256


# For the record only.


def an_audited_session() -> Session:
    """A session that has recorded one reminder which, were it live, every rule of the lifecycle would touch."""
    session = Session()
    session.accept(
        a_draft(mode=Mode.AUDIT_ONLY, dedupe_key="k", tags=("t",), ttl_turns=1, propagate=Propagate.ALL), CLIENT
    )
    session.drain(Seam.LOOP_EXIT)
    return session


def the_audited(session: Session) -> AuditRecord:
    (audited,) = session.state.audit
    return audited


def an_internal_event() -> TranscriptEvent:
    """The event that the record of such a reminder is."""
    return reminder_event(the_audited(an_audited_session()).reminder, event_id="e1", visibility=Visibility.INTERNAL)


def an_audited_transcript() -> Transcript:
    return Transcript(
        messages=tuple({"role": "user", "content": f"message {number}"} for number in range(3)),
        events=(an_internal_event(),),
    )


@pytest.mark.requirement("inbox:audit:becomes-an-internal-event")
def test_an_audit_only_reminder_becomes_an_internal_event_at_loop_exit() -> None:
    shape = an_internal_event().as_dict()
    assert (shape["kind"], shape["visibility"]) == ("system_reminder", "internal")
    assert (shape["text"], shape["reminder"]["dedupe_key"]) == ("The build is red.", "k")


@pytest.mark.requirement("inbox:audit:is-never-live")
def test_an_audit_only_reminder_is_live_at_no_seam() -> None:
    session = Session()
    session.accept(a_draft(mode=Mode.AUDIT_ONLY))
    for seam in Seam:
        session.drain(seam)
        assert session.turn() == []
    assert session.queued_ids == []
    assert an_audited_transcript().reminders == ()


@pytest.mark.requirement("inbox:audit:ends-as-audit-recorded")
def test_recording_is_the_end_of_an_audit_only_reminder() -> None:
    session = Session()
    reminder_id = session.accept(a_draft(mode=Mode.AUDIT_ONLY)).reminder_id
    recorded, _checkpoint = session.drain(Seam.LOOP_EXIT).events
    assert isinstance(recorded, AuditRecorded)
    published = publish(recorded, Correlation())
    assert published is not None
    assert (published.kind, published.payload["reminder_id"]) == ("transcript.reminder.audit_recorded", reminder_id)
    with pytest.raises(AlreadyDelivered):
        session.revoke(reminder_id)


@pytest.mark.requirement("inbox:audit:is-never-aged")
def test_neither_turns_nor_compactions_age_what_was_recorded() -> None:
    session = an_audited_session()
    before = the_audited(session)
    session.turn()
    session.turn()
    session.compact()
    assert the_audited(session) == before
    assert before.reminder.ttl_turns == 1
    transcript = an_audited_transcript()
    ended = end_turn(end_turn(transcript, 1).value.transcript, 2)
    assert (ended.value.transcript, ended.value.expired_ids, ended.events) == (transcript, (), ())


@pytest.mark.requirement("inbox:audit:is-never-deduped")
@pytest.mark.parametrize("mode", Mode)
def test_a_later_reminder_of_its_key_does_not_replace_what_was_recorded(mode: Mode) -> None:
    session = an_audited_session()
    before = the_audited(session)
    accepted = session.accept(a_draft(mode=mode, dedupe_key="k"))
    drained = [event for seam in Seam for event in session.drain(seam).events]
    assert accepted.deduped_count == 0
    assert not [event for event in drained if isinstance(event, Deduped)]
    assert session.state.audit[0] == before


@pytest.mark.requirement("inbox:audit:is-never-deduped")
def test_injecting_its_key_into_the_transcript_leaves_the_record() -> None:
    injected = inject_reminder(an_audited_transcript(), {"body": "x", "dedupe_key": "k"}, new_id=counting_ids())
    assert injected.value.deduped_count == 0
    assert injected.value.transcript.events[0] == an_internal_event()


@pytest.mark.requirement("inbox:audit:is-never-cleared")
@pytest.mark.parametrize("selector", [Selector(id="id-1"), Selector(tag="t"), Selector(dedupe_key="k")])
def test_no_selector_clears_what_was_recorded(selector: Selector) -> None:
    session = an_audited_session()
    assert selector.matches(the_audited(session).reminder)
    assert session.clear(selector) == ()
    cleared = clear_reminders(an_audited_transcript(), selector)
    assert (cleared.value.transcript, cleared.value.removed_count) == (an_audited_transcript(), 0)


@pytest.mark.requirement("inbox:audit:outlives-compaction")
def test_what_was_recorded_stands_in_the_compacted_transcript_as_it_was() -> None:
    compacted = transcript_compact(an_audited_transcript(), strategy=Strategy.KEEP_LAST, keep_last=1)
    assert compacted.value.archived_messages == 2
    assert compacted.value.transcript.events == (an_internal_event(),)


@pytest.mark.requirement("inbox:audit:is-never-propagated")
def test_what_was_recorded_is_not_handed_to_a_sub_agent() -> None:
    state = an_audited_session().state
    assert propagate(state, agent_id="main", limits=DEFAULT_LIMITS).reminder_propagation == ()
    assert propagate_reminders(an_audited_transcript(), agent_id="main").reminder_propagation == ()


# The list of what waits.


def a_mixed_inbox() -> Session:
    session = Session()
    session.commit([Started()])
    session.accept(a_draft(body="first"))
    session.say("second", InjectMode.QUEUE)
    session.accept(a_draft(body="third", mode=Mode.INTERRUPT_IMMEDIATE))
    session.say("fourth")
    return session


def the_row(row: Waiting) -> dict[str, object]:
    """A row of the list as ACP spells it."""
    item = row.item
    match item:
        case QueuedReminder(reminder=reminder):
            struct: msgspec.Struct = PendingReminder(
                position=row.position,
                mode=item.mode,
                reminder_id=reminder.id,
                body=reminder.body,
                tags=reminder.tags,
                dedupe_key=reminder.dedupe_key,
                ttl_turns=reminder.ttl_turns,
                role_hint=reminder.role_hint,
                source=wire.outward(reminder.source, item.provenance.via),
            )
        case QueuedMessage():
            struct = PendingMessage(
                position=row.position, mode=item.mode, message_id=item.message_id, content=item.content
            )
    fields: dict[str, object] = msgspec.json.decode(msgspec.json.encode(struct))
    return fields


@pytest.mark.requirement("inbox:pending:lists-the-inbox-in-order")
def test_the_list_has_every_item_in_acceptance_order() -> None:
    session = a_mixed_inbox()
    rows = waiting(session.state)
    assert [row.item.id for row in rows] == session.queued_ids == ["id-1", "id-2", "id-3", "id-4"]
    assert len(rows) == len(session.state.inbox)


@pytest.mark.requirement("inbox:pending:kind-and-position")
def test_each_row_says_its_kind_and_its_position_from_0() -> None:
    rows = waiting(a_mixed_inbox().state)
    assert [(row.position, row.kind) for row in rows] == [(0, "reminder"), (1, "user"), (2, "reminder"), (3, "user")]
    assert [the_row(row)["kind"] for row in rows] == [row.kind for row in rows]


@pytest.mark.requirement("inbox:pending:kind-and-position")
def test_each_row_says_its_mode_and_so_does_a_queued_reminder() -> None:
    state = a_mixed_inbox().state
    rows = waiting(state)
    assert [row.mode for row in rows] == [row.item.mode for row in rows]
    assert [row.mode for row in pending(state)] == [row.mode for row in rows if row.kind == "reminder"]


@pytest.mark.requirement("inbox:pending:reminder-row")
def test_the_row_of_a_reminder_has_its_fields() -> None:
    session = Session()
    session.accept(
        a_draft(tags=("ci",), dedupe_key="build", ttl_turns=2, role_hint=RoleHint.DEVELOPER, mode=Mode.AUDIT_ONLY)
    )
    (row,) = waiting(session.state)
    assert the_row(row) == {
        "kind": "reminder",
        "position": 0,
        "reminderId": "id-1",
        "mode": "audit_only",
        "body": "The build is red.",
        "tags": ["ci"],
        "dedupeKey": "build",
        "ttlTurns": 2,
        "roleHint": "developer",
        "source": "host",
    }


@pytest.mark.requirement("inbox:pending:user-row")
def test_the_row_of_a_user_message_has_its_id_and_mode() -> None:
    session = Session()
    message_id = session.say("when you are done", InjectMode.QUEUE)
    (row,) = waiting(session.state)
    shape = the_row(row)
    assert (shape["messageId"], shape["mode"]) == (message_id, "queue")


# Withdrawing a reminder.


@pytest.mark.requirement("inbox:revoke_reminder:revoked")
def test_a_reminder_that_waits_can_be_withdrawn() -> None:
    session = Session()
    reminder_id = session.accept(a_draft()).reminder_id
    other = session.accept(a_draft()).reminder_id
    assert session.revoke(reminder_id) is RevokeStatus.REVOKED
    assert RevokeStatus.REVOKED.value == "revoked"
    assert session.journal[-1] == Revoked(reminder_id=reminder_id, provenance=CLIENT)
    assert session.queued_ids == [other]


@pytest.mark.requirement("inbox:revoke_reminder:repeat-is-already-revoked")
def test_withdrawing_it_again_changes_nothing_and_says_so() -> None:
    session = Session()
    reminder_id = session.accept(a_draft()).reminder_id
    session.revoke(reminder_id)
    events = len(session.journal)
    assert session.revoke(reminder_id) is RevokeStatus.ALREADY_REVOKED
    assert RevokeStatus.ALREADY_REVOKED.value == "already_revoked"
    assert len(session.journal) == events


@pytest.mark.requirement("inbox:revoke_reminder:after-the-drain-is-already-delivered")
def test_withdrawing_a_reminder_after_its_drain_is_too_late() -> None:
    session = Session()
    reminder_id = session.accept(a_draft()).reminder_id
    session.drain()
    with pytest.raises(AlreadyDelivered) as refused:
        session.revoke(reminder_id)
    assert (refused.value.reason, refused.value.value) == ("already_delivered", reminder_id)
    assert session.live_ids == [reminder_id]


@pytest.mark.requirement("inbox:revoke_reminder:after-the-drain-is-already-delivered")
@pytest.mark.parametrize("source", [Source.HOOK, Source.STDLIB_PROVIDER, Source.IN_PIPELINE])
def test_withdrawing_what_went_live_without_waiting_is_too_late_from_the_start(source: Source) -> None:
    session = Session()
    session.inject(a_reminder("r1", source=source))
    with pytest.raises(AlreadyDelivered):
        session.revoke("r1")


@pytest.mark.requirement("inbox:revoke_reminder:unknown")
def test_withdrawing_an_id_that_nobody_has_is_refused() -> None:
    session = a_mixed_inbox()
    message_id = session.queued_ids[1]
    for unknown in ("nobody", message_id):
        with pytest.raises(UnknownReminder) as refused:
            session.revoke(unknown)
        assert (refused.value.reason, refused.value.value) == ("unknown_reminder_id", unknown)


# Replacing the body of a reminder.


@pytest.mark.requirement("inbox:replace:body-of-a-reminder")
@pytest.mark.parametrize("mode", Mode)
def test_a_replaced_body_changes_nothing_else(mode: Mode) -> None:
    session = Session()
    drafts = [a_draft(mode=mode, dedupe_key=f"k{number}", ttl_turns=2, tags=("t",)) for number in range(3)]
    ids = [session.accept(draft).reminder_id for draft in drafts]
    before = {item.id: item for item in session.state.inbox.items()}
    (event,) = session.replace_reminder(ids[1], "The build is green.")
    assert isinstance(event, Replaced)
    after = {item.id: item for item in session.state.inbox.items()}
    assert [*after] == ids
    assert after.pop(ids[1]) == event.item
    item = before.pop(ids[1])
    assert isinstance(item, QueuedReminder)
    reminder = msgspec.structs.replace(item.reminder, body="The build is green.")
    assert event.item == msgspec.structs.replace(item, reminder=reminder)
    assert after == before
    published = publish(event, Correlation())
    assert published is not None
    assert published.kind == "transcript.reminder.replaced"


@pytest.mark.requirement("inbox:replace:reminder-competes-with-the-drain")
def test_the_body_of_a_reminder_is_replaced_before_its_drain_or_not_at_all() -> None:
    session = Session()
    drained, revoked = (session.accept(a_draft(body=body), PEER).reminder_id for body in ("one", "two"))
    session.replace_reminder(drained, "uno", PEER)
    session.revoke(revoked, PEER)
    session.drain()
    for actor in (PEER, CLIENT):
        with pytest.raises(AlreadyDelivered):
            session.replace_reminder(drained, "too late", actor)
        with pytest.raises(AlreadyRevoked):
            session.replace_reminder(revoked, "too late", actor)
    waits = session.accept(a_draft(), PEER).reminder_id
    for reminder_id, actor in [("nobody", CLIENT), (waits, SERVER), (drained, SERVER), (revoked, SERVER)]:
        with pytest.raises(UnknownReminder):
            session.replace_reminder(reminder_id, "not mine", actor)
    assert [item.reminder.body for item in session.state.live] == ["uno"]
