"""What a session keeps and for how long: ids, records, events that can be replayed alone, and earlier formats."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import pytest

from sideband.core.accept import RevokeStatus, Selector
from sideband.core.apply import fold
from sideband.core.errors import TaskFinished, UnknownReminder, UnknownSession
from sideband.core.events import (
    Begun,
    Deduped,
    Dropped,
    DropReason,
    Event,
    Expired,
    Fired,
    InjectDelivered,
    InjectReplaced,
    InjectRevoked,
    Recorded,
    Revoked,
    Started,
)
from sideband.core.inbox import MAX_TOMBSTONES
from sideband.core.seams import InjectMode, Seam
from sideband.core.snapshot import decode, encode
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS
from sideband.core.turn import OpenedTurn, PlannedRequest, Shown, Unusable, close_turn, open_request
from tests.builders import a_draft, a_reminder, a_text
from tests.sessions import CLIENT, PEER, Session, opened

# The session.


@pytest.mark.requirement("promises:close:task-finished")
def test_a_session_whose_task_has_ended_refuses_all_requests_as_task_finished() -> None:
    session = Session()
    session.say("go on", InjectMode.QUEUE)
    session.accept(a_draft(caller_id="mine"), PEER)
    reasons = [event.reason for event in session.close(DropReason.TASK_FINISHED) if isinstance(event, Dropped)]
    assert reasons == [DropReason.TASK_FINISHED]
    attempts: list[Callable[[], object]] = [
        lambda: session.accept(a_draft(), PEER),
        lambda: session.say("one more thing", InjectMode.QUEUE),
        lambda: session.record(title="t"),
    ]
    for attempt in attempts:
        with pytest.raises(TaskFinished) as refused:
            attempt()
        assert refused.value.reason == "task_finished"
    assert session.accept(a_draft(caller_id="mine"), PEER).reminder_id == "mine", "a repeat still gets its reply"


@pytest.mark.requirement("promises:delete:leaves-nothing")
def test_a_deleted_session_is_empty_and_can_be_begun_again() -> None:
    session = Session()
    session.begin(title="t")
    session.inject(a_reminder("live"))
    queued = session.accept(a_draft(caller_id="mine")).reminder_id
    ended = session.delete()
    assert [event.reminder_id for event in ended if isinstance(event, Dropped | Expired)] == [queued, "live"]
    left = SessionState()
    left.deleted = True
    assert encode(session.state) == encode(left)
    assert session.delete() == ()
    with pytest.raises(UnknownSession, match="deleted"):
        session.accept(a_draft())
    assert session.begin()
    assert session.accept(a_draft(caller_id="mine", body="another life")).reminder_id == "mine"


@pytest.mark.requirement("promises:begin:never-twice")
@pytest.mark.parametrize("begun", [Begun(attributes={"cwd": "/a"}), Started()], ids=["begun", "used-without-beginning"])
def test_a_session_that_exists_is_not_begun_again(begun: Event) -> None:
    session = Session()
    session.commit([begun])
    before = encode(session.state)
    assert not session.begin([{"role": "user", "content": "copied"}], cwd="/b")
    assert encode(session.state) == before


@pytest.mark.requirement("promises:begin:never-twice")
def test_a_session_begins_with_its_records_and_messages() -> None:
    session = Session()
    assert session.begin([{"role": "user", "content": "copied"}], cwd="/b")
    assert (session.state.records, session.state.messages) == ({"cwd": "/b"}, [{"role": "user", "content": "copied"}])


@pytest.mark.requirement("promises:records:set-and-removed")
def test_records_are_set_and_removed_and_written_only_if_they_change() -> None:
    session = Session()
    session.begin(cwd="/src", title="old")
    assert session.record(cwd="/src", title=None, task={"id": "t1"}) == (
        Recorded(name="title", value=None),
        Recorded(name="task", value={"id": "t1"}),
    )
    assert session.state.records == {"cwd": "/src", "task": {"id": "t1"}}
    assert session.record(task={"id": "t1"}, title=None) == ()


# Ids of messages.


@pytest.mark.requirement("promises:ids:message")
def test_a_message_has_the_id_of_its_inject_in_the_conversation_and_in_snapshots() -> None:
    session = Session()
    queued = session.say("one", InjectMode.QUEUE)
    session.start()
    steer = session.say("two")
    session.drain()
    said = [
        {"role": "user", "id": queued, "content": a_text("one")},
        {"role": "user", "id": steer, "content": a_text("two")},
    ]
    assert session.state.messages == said
    assert decode(encode(session.state)).messages == said


@pytest.mark.requirement("promises:ids:reply")
def test_the_id_of_a_reply_is_minted_with_its_request_and_kept_by_further_attempts() -> None:
    session = Session()
    session.commit([Started()])
    session.decide(
        open_request(session.state, session.state.basis, PlannedRequest(route="r"), repeats=False, reply_id="a")
    )
    again = session.decide(
        open_request(session.state, session.state.basis, PlannedRequest(), repeats=True, reply_id="another")
    )
    assert again == OpenedTurn(1, 2, "a")
    snapped = decode(encode(session.state))
    for state in (session.state, snapped):
        fold(close_turn(state, reply={"role": "assistant", "content": "done"}, usage=None).events, state)
        assert state.messages == [{"role": "assistant", "id": "a", "content": "done"}]


# Events that observers can be told of without the state.


def end_of_a_queued_message(session: Session) -> None:
    session.commit([Started()])
    first, second, third = (session.say("hi") for _ in range(3))
    session.replace_message(first, "ho")
    session.revoke_message(second)
    session.drain()
    assert third in [message["id"] for message in session.state.messages]


def unusable(session: Session) -> None:
    reminder_id = session.accept(a_draft(dedupe_key="k")).reminder_id
    session.drain()
    planned = PlannedRequest(unusable=(Unusable(reminder_id, DropReason.TOO_LARGE),))
    session.commit(opened(session.state, planned))


def drained(session: Session, **fields: object) -> Session:
    session.accept(a_draft(dedupe_key="k", **fields))
    session.drain()
    return session


@pytest.mark.requirement("promises:events:ends-name-owner-and-key")
@pytest.mark.parametrize(
    ("end", "kind", "key"),
    [
        pytest.param(lambda session: drained(session, ttl_turns=1).turn(), Expired, "k", id="ttl"),
        pytest.param(lambda session: drained(session).clear(Selector(dedupe_key="k")), Expired, "k", id="cleared"),
        pytest.param(lambda session: drained(session).compact(), Expired, "k", id="compacted"),
        pytest.param(lambda session: drained(session).close(), Expired, "k", id="closed"),
        pytest.param(lambda session: drained(drained(session)), Deduped, "k", id="replaced"),
        pytest.param(
            lambda session: [session.accept(a_draft(dedupe_key="k")) for _ in range(2)], Deduped, "k", id="displaced"
        ),
        pytest.param(
            lambda session: session.revoke(session.accept(a_draft(dedupe_key="k")).reminder_id),
            Revoked,
            "k",
            id="revoked",
        ),
        pytest.param(
            lambda session: [session.accept(a_draft(dedupe_key="k")), session.close()], Dropped, "k", id="dropped"
        ),
        pytest.param(unusable, Dropped, "k", id="unusable"),
        pytest.param(end_of_a_queued_message, InjectDelivered, None, id="message-delivered"),
        pytest.param(end_of_a_queued_message, InjectReplaced, None, id="message-replaced"),
        pytest.param(end_of_a_queued_message, InjectRevoked, None, id="message-revoked"),
    ],
)
def test_the_end_of_an_item_names_its_owner_and_its_key(
    end: Callable[[Session], object], kind: type[Any], key: str | None
) -> None:
    session = Session()
    end(session)
    found = [event for event in session.journal if isinstance(event, kind)]
    assert found
    for event in found:
        assert event.provenance == CLIENT
        assert getattr(event, "dedupe_key", None) == key


@pytest.mark.requirement("promises:events:fired-holds-the-record")
def test_a_showing_holds_the_record_and_the_sender_unless_it_was_carried() -> None:
    session = Session()
    session.inject(a_reminder("r1", ttl_turns=3))
    session.turn()
    session.commit(opened(session.state, PlannedRequest(shown=(Shown("r1", "user"),))))
    session.take_reply()
    session.commit(opened(session.state, PlannedRequest(shown=(Shown("r1", "user", carried=True),))))
    assert [
        (event.turn, event.reminder, event.provenance) for event in session.journal if isinstance(event, Fired)
    ] == [
        (1, a_reminder("r1", ttl_turns=3), IN_PROCESS),
        (2, a_reminder("r1", ttl_turns=2), IN_PROCESS),
        (3, None, None),
    ]


# Bounds.


@pytest.mark.requirement("promises:bounded:tombstones")
def test_a_session_remembers_the_newest_4096_items_that_left_its_inbox() -> None:
    session = Session()
    first, second = (session.accept(a_draft(dedupe_key="k")).reminder_id for _ in range(2))
    for _ in range(4_096):
        session.accept(a_draft(dedupe_key="k"))
    assert MAX_TOMBSTONES == 4_096
    for state in (session.state, decode(encode(session.state))):
        session.state = state
        with pytest.raises(UnknownReminder):
            session.revoke(first)
        assert session.revoke(second) is RevokeStatus.ALREADY_REVOKED


@pytest.mark.requirement("promises:bounded:receipts")
def test_ids_that_callers_supply_are_answered_again_and_are_not_in_the_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sideband.core.inbox.MAX_TOMBSTONES", 10)
    session = Session()
    first = session.accept(a_draft(caller_id="first", dedupe_key="k"), PEER, now=7)
    sizes = []
    for number in range(100, 300):
        session.accept(a_draft(caller_id=f"id-{number}", dedupe_key="k"), PEER)
        sizes.append(len(encode(session.state)))
    assert max(sizes[20:]) == min(sizes[20:])
    journal = len(session.journal)
    again = session.accept(a_draft(caller_id="first", dedupe_key="k"), PEER, now=8)
    assert (again.reminder_id, again.accepted_at, len(session.journal)) == (first.reminder_id, 7, journal)


# Formats of earlier versions.

PLANNER: Final = {"trust": 2, "principal": "planner", "via": "a2a"}
# As the version before records, receipts and message ids wrote it.
EARLIER: Final[Mapping[str, Any]] = {
    "version": 1,
    "inbox": {
        "items": [
            {
                "kind": "reminder",
                "reminder": {"id": "waits", "body": "The build is red.", "ttl_turns": 3, "source": "bridge"},
                "mode": "finish_step",
                "provenance": PLANNER,
                "caller_id": "waits",
                "fingerprint": "f",
            }
        ],
        "tombstones": [
            ["mine", False, "delivered", {**PLANNER, "requested": {"ttl_turns": 9}}],
            ["m1", True, "delivered", {"trust": 1, "principal": "editor", "via": "acp"}],
            ["gone", False, "withdrawn", PLANNER],
        ],
        "receipts": {"mine": ["peer:planner", "f", "mine", 0, {"ttl_turns": 9}, {"ttl_turns": 3}]},
    },
    "live": {
        "turn": 1,
        "next_place": 1,
        "items": [
            {
                "reminder": {"id": "mine", "body": "x", "ttl_turns": 3, "fired_at_turn": 1},
                "provenance": PLANNER,
                "place": 0,
                "first_turn": 1,
                "last_turn": 3,
                "left_out": 0,
            }
        ],
    },
    "ledger": {"route": "", "since": 1, "fragments": [], "standing": {}, "next_handle": 1},
    "audit": [],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "open_calls": {},
    "request": {"turn": 2, "attempt": 1, "route": "r", "fragments": [], "messages": 1, "settling": {}, "left_out": {}},
    "running": True,
    "closed": False,
    "queue_held": False,
    "skipped_batches": 0,
    "window": 0,
    "permissions": {},
    "grants": [],
    "equipped": [],
    "head": None,
}


def a_session_from(snapshot: Mapping[str, Any]) -> Session:
    session = Session()
    session.state = decode(msgspec.json.encode(snapshot))
    return session


@pytest.mark.requirement("promises:format:earlier-snapshots")
def test_a_snapshot_of_an_earlier_version_is_read_and_continued() -> None:
    session = a_session_from(EARLIER)
    state = session.state
    assert (state.exists, state.deleted, state.closed, state.records, state.closing) == (True, False, False, {}, {})
    assert state.messages == EARLIER["messages"]
    assert session.revoke("gone", PEER) is RevokeStatus.ALREADY_REVOKED
    with pytest.raises(UnknownReminder):
        session.revoke("gone", msgspec.structs.replace(PEER, principal="stranger"))
    session.take_reply()
    assert [item.id for item in session.drain(Seam.ITERATION_START).taken] == ["waits"]
    assert session.live_ids == ["mine", "waits"]
    assert decode(encode(state)).messages == state.messages


@pytest.mark.requirement("promises:format:earlier-snapshots")
def test_a_session_that_an_earlier_version_closed_is_closed() -> None:
    session = a_session_from({**EARLIER, "closed": True, "running": False})
    assert session.state.closed_reason is DropReason.SESSION_CLOSED
    with pytest.raises(UnknownSession):
        session.accept(a_draft())


@pytest.mark.requirement("promises:format:earlier-events")
@pytest.mark.parametrize(
    ("written", "missing"),
    [
        (b'{"event":"fired","reminder_id":"r","turn":1,"rendered_role":"system"}', ("reminder", "provenance")),
        (b'{"event":"revoked","reminder_id":"r"}', ("provenance", "dedupe_key")),
        (b'{"event":"expired","reminder_id":"r","reason":"cleared","turn":1}', ("provenance", "dedupe_key")),
        (b'{"event":"deduped","replaced_id":"r","replacing_id":"s","dedupe_key":"k"}', ("provenance",)),
        (b'{"event":"dropped","reminder_id":"r","reason":"invalid"}', ("provenance", "dedupe_key")),
        (b'{"event":"inject_delivered","message_id":"m","content":[]}', ("provenance",)),
        (b'{"event":"inject_revoked","message_id":"m"}', ("provenance",)),
        (b'{"event":"inject_replaced","message_id":"m","content":[],"revision":2}', ("provenance",)),
        (b'{"event":"request_committed","turn":1}', ("reply_id",)),
        (b'{"event":"idled"}', ("status",)),
        (b'{"event":"equipped","ids":[]}', ("closing",)),
        (b'{"event":"closed"}', ()),
    ],
    ids=lambda value: value.decode().split('"')[3] if isinstance(value, bytes) else "",
)
def test_an_event_of_an_earlier_version_is_read(written: bytes, missing: tuple[str, ...]) -> None:
    event = msgspec.json.decode(written, type=Event)
    assert not any(getattr(event, field) for field in missing)
    assert msgspec.json.encode(event) == written
