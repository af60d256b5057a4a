"""Updates: what each viewer is told of a session, from which cursor on, and in which form."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec
import pytest

from sideband.core.accept import accept
from sideband.core.errors import CursorExpired
from sideband.core.events import (
    AuditRecorded,
    Begun,
    Cancelled,
    Checkpoint,
    Closed,
    Compacted,
    Deduped,
    Deferred,
    Deleted,
    Dropped,
    DropReason,
    Event,
    Expired,
    ExpiryReason,
    Fired,
    Idled,
    Inherited,
    InjectAccepted,
    InjectDelivered,
    Injected,
    InjectReplaced,
    InjectRevoked,
    PermissionAsked,
    PermissionReplied,
    ProviderEvaluated,
    Queued,
    QueuedMessage,
    QueuedReminder,
    Recorded,
    Replaced,
    RequestCommitted,
    ResultRecorded,
    Revoked,
    Started,
    TurnCommitted,
    TurnVoided,
    Usage,
)
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.state import PendingState
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.core.updates import (
    CheckpointUpdate,
    CompactionUpdate,
    MessageUpdate,
    PermissionUpdate,
    ProviderUpdate,
    ReminderUpdate,
    ResultUpdate,
    RunUpdate,
    SessionUpdate,
    TurnUpdate,
    Update,
    UpdateKind,
    Viewer,
    update_of,
)
from sideband.ports import Journal
from sideband.runtime.session import Session
from tests.builders import a_draft, a_reminder, a_text
from tests.decisions import saying
from tests.naive_viewer import NaiveViewer
from tests.stored_agents import a_session, run
from tests.unit.core.test_updates import without_ttl
from tests.unit.store.twins import Twin, played, two_of
from tests.viewed_histories import ANN, BOB, EDITOR, SERVER

OPERATOR = Viewer()
CLAIMING = Provenance(
    trust=Trust.PEER, principal="ann", claims={"source": "boss"}, meta={"correlation": "c1"}, requested={"ttl_turns": 9}
)
R = a_reminder("r1", dedupe_key="k", ttl_turns=2)
ITEM = QueuedReminder(reminder=R, mode=Mode.FINISH_STEP, provenance=CLAIMING)
CONTENT: tuple[dict[str, Any], ...] = tuple(a_text())
MESSAGE = QueuedMessage(message_id="m1", content=CONTENT, mode=InjectMode.STEER, provenance=EDITOR)
REPLY = {"role": "assistant", "id": "a1", "content": "Done."}
USAGE = Usage(prompt_tokens=7)
OF_R: dict[str, Any] = {"reminder_id": "r1", "reminder": R, "provenance": CLAIMING, "dedupe_key": "k"}
ENDED: dict[str, Any] = {"reminder_id": "r1", "provenance": CLAIMING, "dedupe_key": "k"}


def told(event: Event, viewer: Viewer = OPERATOR) -> Update | None:
    return update_of(event, viewer, cursor=3, time=5)


KINDS = UpdateKind


@pytest.mark.requirement("updates:kinds:one-per-event")
@pytest.mark.parametrize(
    ("event", "shape", "kind", "fields"),
    [
        (Queued(item=ITEM), ReminderUpdate, KINDS.REMINDER_QUEUED, {**OF_R, "mode": Mode.FINISH_STEP}),
        (Replaced(item=ITEM), ReminderUpdate, KINDS.REMINDER_REPLACED, {**OF_R, "mode": Mode.FINISH_STEP}),
        (
            Injected(reminder=R, provenance=CLAIMING, seam=Seam.ITERATION_START),
            ReminderUpdate,
            KINDS.REMINDER_INJECTED,
            {**OF_R, "seam": Seam.ITERATION_START},
        ),
        (
            Inherited(reminder=R, provenance=CLAIMING, sub_agent_id="child"),
            ReminderUpdate,
            KINDS.REMINDER_INHERITED,
            {**OF_R, "sub_agent_id": "child"},
        ),
        (
            Fired(reminder_id="r1", turn=4, rendered_role="user", reminder=R, provenance=CLAIMING),
            ReminderUpdate,
            KINDS.REMINDER_EMITTED,
            {**OF_R, "turn": 4, "rendered_role": "user"},
        ),
        (
            Deferred(reminder_id="r1", turn=4, provenance=CLAIMING),
            ReminderUpdate,
            KINDS.REMINDER_DEFERRED,
            {"reminder_id": "r1", "provenance": CLAIMING, "turn": 4},
        ),
        (
            Deduped(replaced_id="r0", replacing_id="r1", dedupe_key="k", provenance=CLAIMING),
            ReminderUpdate,
            KINDS.REMINDER_DEDUPED,
            {**ENDED, "dropped_ids": ("r0",)},
        ),
        (
            Revoked(reminder_id="r1", dedupe_key="k", provenance=CLAIMING),
            ReminderUpdate,
            KINDS.REMINDER_REVOKED,
            ENDED,
        ),
        (
            Dropped(
                reminder_id="r1",
                reason=DropReason.RATE_LIMITED,
                at_the_door=True,
                count=2,
                dedupe_key="k",
                provenance=CLAIMING,
            ),
            ReminderUpdate,
            KINDS.REMINDER_DROPPED,
            {**ENDED, "reason": DropReason.RATE_LIMITED, "at_the_door": True, "count": 2},
        ),
        (
            AuditRecorded(reminder=R, provenance=CLAIMING, turn=4),
            ReminderUpdate,
            KINDS.REMINDER_AUDIT_RECORDED,
            {**OF_R, "turn": 4},
        ),
        (
            ProviderEvaluated(provider_id="mine", event_name="post_turn", fired=False, error="HARN-RMD-006"),
            ProviderUpdate,
            KINDS.PROVIDER_EVALUATED,
            {"provider_id": "mine", "event_name": "post_turn", "fired": False, "error": "HARN-RMD-006"},
        ),
        (
            InjectAccepted(item=MESSAGE),
            MessageUpdate,
            KINDS.MESSAGE_ACCEPTED,
            {"message_id": "m1", "item": MESSAGE, "content": CONTENT, "revision": 1, "provenance": EDITOR},
        ),
        (
            InjectDelivered(message_id="m1", content=CONTENT, audit_only=True, provenance=EDITOR),
            MessageUpdate,
            KINDS.MESSAGE_DELIVERED,
            {"message_id": "m1", "content": CONTENT, "audit_only": True, "provenance": EDITOR},
        ),
        (
            InjectRevoked(message_id="m1", reason=DropReason.TASK_FINISHED),
            MessageUpdate,
            KINDS.MESSAGE_REVOKED,
            {"message_id": "m1", "reason": DropReason.TASK_FINISHED},
        ),
        (
            InjectReplaced(message_id="m1", content=CONTENT, revision=2),
            MessageUpdate,
            KINDS.MESSAGE_REPLACED,
            {"message_id": "m1", "content": CONTENT, "revision": 2},
        ),
        (
            RequestCommitted(turn=4, reply_id="a1"),
            TurnUpdate,
            KINDS.TURN_OPENED,
            {"turn": 4, "attempt": 1, "reply_id": "a1"},
        ),
        (RequestCommitted(turn=4, attempt=2), TurnUpdate, KINDS.TURN_OPENED, {"turn": 4, "attempt": 2}),
        (
            TurnCommitted(turn=4, reply=REPLY, usage=USAGE),
            TurnUpdate,
            KINDS.TURN_COMMITTED,
            {"turn": 4, "reply_id": "a1", "reply": REPLY, "usage": USAGE},
        ),
        (TurnCommitted(turn=4), TurnUpdate, KINDS.TURN_COMMITTED, {"turn": 4}),
        (TurnVoided(turn=4), TurnUpdate, KINDS.TURN_VOIDED, {"turn": 4}),
        (
            ResultRecorded(call_id="c1", status="ok", message={"role": "tool"}),
            ResultUpdate,
            KINDS.RESULT_RECORDED,
            {"call_id": "c1", "status": "ok", "message": {"role": "tool"}},
        ),
        (
            Compacted(turn=4, archived_messages=2, messages=(REPLY,)),
            CompactionUpdate,
            KINDS.COMPACTED,
            {"turn": 4, "archived_messages": 2, "messages": (REPLY,)},
        ),
        (
            Checkpoint(turn=4, seam=Seam.PRE_TOOL_DISPATCH, ids=("r1",), dispatch_skipped=True),
            CheckpointUpdate,
            KINDS.CHECKPOINT,
            {"turn": 4, "seam": Seam.PRE_TOOL_DISPATCH, "ids": ("r1",), "dispatch_skipped": True},
        ),
        (Started(message_id="m"), RunUpdate, KINDS.RUN_STARTED, {"message_id": "m"}),
        (Started(), RunUpdate, KINDS.RUN_STARTED, {}),
        (Idled(status="completed"), RunUpdate, KINDS.RUN_IDLED, {"status": "completed"}),
        (Idled(), RunUpdate, KINDS.RUN_IDLED, {}),
        (Cancelled(), RunUpdate, KINDS.RUN_CANCELLED, {}),
        (PermissionAsked(request_id="p1"), PermissionUpdate, KINDS.PERMISSION_ASKED, {"request_id": "p1"}),
        (PermissionReplied(request_id="p1"), PermissionUpdate, KINDS.PERMISSION_REPLIED, {"request_id": "p1"}),
        (
            Begun(attributes={"cwd": "/srv"}, messages=(REPLY,)),
            SessionUpdate,
            KINDS.SESSION_BEGUN,
            {"records": {"cwd": "/srv"}, "messages": (REPLY,)},
        ),
        (Recorded(name="title", value="T"), SessionUpdate, KINDS.SESSION_RECORDED, {"records": {"title": "T"}}),
        (
            Closed(reason=DropReason.TASK_FINISHED),
            SessionUpdate,
            KINDS.SESSION_CLOSED,
            {"reason": DropReason.TASK_FINISHED},
        ),
        (Deleted(), SessionUpdate, KINDS.SESSION_DELETED, {}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Event) else "",
)
def test_an_event_is_one_update_with_all_that_it_has(
    event: Event, shape: Callable[..., Update], kind: UpdateKind, fields: dict[str, Any]
) -> None:
    assert told(event) == shape(cursor=3, time=5, kind=kind, **fields)


@pytest.mark.requirement("updates:kinds:emitted")
def test_a_showing_without_new_bytes_has_no_update() -> None:
    assert told(Fired(reminder_id="r1", turn=4, rendered_role="user", carried=True)) is None


@pytest.mark.requirement("updates:kinds:phases")
@pytest.mark.parametrize(
    ("reason", "phase"),
    [
        pytest.param(ExpiryReason.TTL, "ttl_expired", id="ttl"),
        pytest.param(ExpiryReason.CLEARED, "cleared", id="cleared"),
        pytest.param(ExpiryReason.COMPACTION, "compacted_out", id="compaction"),
    ],
)
def test_an_expired_reminder_has_a_phase(reason: ExpiryReason, phase: str) -> None:
    update = told(Expired(reminder_id="r1", reason=reason, turn=4, dedupe_key="k", provenance=CLAIMING))
    assert isinstance(update, ReminderUpdate)
    assert (update.kind, update.phase, update.turn, update.dedupe_key) == ("reminder.expired", phase, 4, "k")


@pytest.mark.requirement("updates:kinds:one-per-event")
def test_the_time_of_an_event_of_an_earlier_version_is_none() -> None:
    update = update_of(Started(), OPERATOR, cursor=3, time=0)
    assert update is not None
    assert update.time is None


# Who sees what.


async def sent(store: Journal, sender: Provenance, reminder_id: str) -> None:
    """A reminder with claims and `_meta` from this sender."""
    draft = a_draft(claims={"source": "boss"}, meta={"correlation": reminder_id})
    await store.commit("s", partial(accept, draft=draft, provenance=sender, new_id=reminder_id, limits=DEFAULT_LIMITS))


async def all_of(session: Session, viewer: Viewer, *, after: int = 0) -> list[Update]:
    """The updates up to now. The last event of the session is one that every viewer sees: a refusal of its own."""
    refused = Dropped(reminder_id="end", reason=DropReason.RATE_LIMITED, at_the_door=True, provenance=viewer.provenance)
    await session.talk.write(saying(refused))
    found: list[Update] = []
    async with aclosing(session.updates(viewer, after=after)) as updates:
        async for update in updates:
            if isinstance(update, ReminderUpdate) and update.reminder_id == "end":
                if update.provenance == viewer.provenance:
                    break
            else:
                found.append(update)
    return found


def ids(updates: list[Update]) -> list[str]:
    return [update.reminder_id for update in updates if isinstance(update, ReminderUpdate)]


@pytest.mark.requirement(
    "updates:viewer:operator-and-controller-see-all",
    "updates:viewer:others-see-their-own",
    "updates:viewer:emit-all",
)
@pytest.mark.parametrize(
    ("viewer", "reminders", "rest"),
    [
        pytest.param(Viewer(), ["own", "anns", "bobs", "servers"], True, id="operator"),
        pytest.param(Viewer(provenance=EDITOR), ["own", "anns", "bobs", "servers"], True, id="controller"),
        pytest.param(Viewer(provenance=ANN), ["anns"], False, id="peer"),
        pytest.param(Viewer(provenance=SERVER), ["servers"], False, id="server-with-the-name-of-a-peer"),
        pytest.param(
            Viewer(provenance=BOB, sees_all=True), ["own", "anns", "bobs", "servers"], False, id="peer-that-sees-all"
        ),
    ],
)
def test_each_viewer_is_told_what_it_may_see(
    twin: Twin,
    viewer: Viewer,
    reminders: list[str],
    rest: bool,  # noqa: FBT001 - a row
) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            for sender, reminder_id in ((EDITOR, "own"), (ANN, "anns"), (BOB, "bobs"), (SERVER, "servers")):
                await sent(store, sender, reminder_id)
            found = await session.view(viewer)
            assert [entry.reminder.id for entry in found.view.reminders] == reminders
            await run(session, "Done.")
            updates = await all_of(session, viewer)
            queued = [update for update in updates if update.kind is UpdateKind.REMINDER_QUEUED]
            assert ids(queued) == reminders
            assert set(ids(updates)) == set(reminders)
            others = {update.kind for update in updates if not isinstance(update, ReminderUpdate)}
            assert ({"message.delivered", "turn.committed", "checkpoint", "run.idled"} <= others) is rest
            assert bool(others) is rest
            assert ((await session.view(viewer)).view.session is not None) is rest

    played(story)


@pytest.mark.requirement("updates:viewer:meta-is-the-senders")
@pytest.mark.parametrize(
    ("viewer", "claims", "meta"),
    [
        pytest.param(Viewer(), {"source": "boss"}, {"correlation": "anns"}, id="operator"),
        pytest.param(Viewer(provenance=EDITOR), {"source": "boss"}, {}, id="controller"),
        pytest.param(Viewer(provenance=ANN), {"source": "boss"}, {"correlation": "anns"}, id="its-sender"),
        pytest.param(Viewer(provenance=BOB, sees_all=True), {}, {}, id="peer-that-sees-all"),
    ],
)
def test_the_meta_of_a_request_is_for_its_sender(
    twin: Twin, viewer: Viewer, claims: dict[str, str], meta: dict[str, str]
) -> None:
    expected = (claims, meta)

    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            await sent(store, ANN, "anns")
            (pending,) = (await session.view(viewer)).view.reminders
            assert (pending.provenance.claims, pending.provenance.meta) == expected
            await run(session, "Done.")
            for update in await all_of(session, viewer):
                if isinstance(update, ReminderUpdate):
                    assert update.provenance is not None
                    assert (update.provenance.claims, update.provenance.meta) == expected

    played(story)


@pytest.mark.requirement("updates:viewer:meta-is-the-senders")
def test_the_meta_of_a_message_is_not_for_other_controllers() -> None:
    sender = msgspec.structs.replace(EDITOR, meta={"correlation": "c1"})
    item = QueuedMessage(message_id="m1", content=tuple(a_text()), mode=InjectMode.QUEUE, provenance=sender)
    other = Viewer(provenance=Provenance(trust=Trust.CONTROLLER, principal="another editor"))
    for viewer, meta in (
        (Viewer(), {"correlation": "c1"}),
        (Viewer(provenance=EDITOR), {"correlation": "c1"}),
        (other, {}),
    ):
        update = told(InjectAccepted(item=item), viewer)
        assert isinstance(update, MessageUpdate)
        assert update.item is not None
        assert update.provenance is not None
        assert update.item.provenance.meta == update.provenance.meta == meta


@pytest.mark.requirement("updates:viewer:unknown-sender")
def test_the_event_of_an_unknown_sender_is_for_those_who_see_all() -> None:
    old = Revoked(reminder_id="r1")
    assert told(old, Viewer(provenance=ANN)) is None
    for viewer in (Viewer(), Viewer(provenance=EDITOR), Viewer(provenance=ANN, sees_all=True)):
        assert told(old, viewer) is not None


# Cursors.


async def take(updates: Any, until: str) -> list[Update]:  # noqa: ANN401 - an async generator of updates
    """The next updates, to the first of this reminder."""
    found: list[Update] = []
    while not found or getattr(found[-1], "reminder_id", None) != until:
        found.append(await anext(updates))
    return found


@pytest.mark.requirement("updates:cursor:replay-and-live")
def test_updates_of_two_processes_are_replayed_and_followed_without_gap_or_repeat(twin: Twin) -> None:
    async def story() -> None:
        async with two_of(twin) as (here, there):
            session, other = await a_session(here), await a_session(there)
            await sent(there, EDITOR, "r1")
            async with aclosing(session.updates()) as updates:
                await take(updates, "r1")
                following = asyncio.ensure_future(take(updates, "r3"))
                await sent(here, EDITOR, "r2")
                await sent(there, EDITOR, "r3")
                live = await following
            assert ids(live) == ["r2", "r3"]
            for cursor, rest in ((0, ["r1", "r2", "r3"]), (live[0].cursor, ["r3"])):
                assert ids(await all_of(other, OPERATOR, after=cursor)) == rest

    played(story)


@pytest.mark.requirement("updates:kinds:one-deduped-per-winner", "updates:cursor:replay-and-live")
def test_all_that_one_reminder_replaces_is_one_update_with_the_cursor_of_its_last_row(twin: Twin) -> None:
    def replaced(reminder_id: str, by: str) -> Deduped:
        return Deduped(replaced_id=reminder_id, replacing_id=by, dedupe_key="k", provenance=ANN)

    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            live = [Injected(reminder=a_reminder(f"r{number}"), provenance=ANN) for number in range(1, 7)]
            # Before there were namespaces, a hand-made transcript could have several reminders of one key.
            ends = (replaced("r1", "r5"), replaced("r2", "r5"), replaced("r3", "r6"), replaced("r4", "r6"))
            await store.commit("s", saying(*live, *ends))
            updates = await all_of(session, Viewer(provenance=ANN))
            assert [
                (update.reminder_id, update.dropped_ids, update.cursor)
                for update in updates
                if isinstance(update, ReminderUpdate) and update.kind is UpdateKind.REMINDER_DEDUPED
            ] == [("r5", ("r1", "r2"), 8), ("r6", ("r3", "r4"), 10)]
            assert await all_of(session, Viewer(provenance=ANN), after=8) == updates[-1:]

    played(story)


@pytest.mark.requirement("updates:cursor:expired", "updates:view:state-and-cursor-of-one-commit")
def test_after_pruning_an_old_cursor_is_expired_and_a_view_goes_on(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            await sent(store, ANN, "r1")
            await run(session, "Done.", task="Mend it.")
            await store.prune("s", keep_events=0)
            async with aclosing(session.updates(after=1)) as updates:
                with pytest.raises(CursorExpired, match="synchronise again"):
                    await anext(updates)
            begin = await session.view()
            assert begin.view.session is not None
            assert [message["role"] for message in begin.view.session.messages] == ["user", "assistant"]
            assert all("id" in message for message in begin.view.session.messages)
            known = NaiveViewer(OPERATOR, begin.view)
            await sent(store, BOB, "r2")
            await run(session, "Done again.", task="And that.")
            for update in await all_of(session, OPERATOR, after=begin.cursor):
                known.take(update)
            assert known.view() == without_ttl((await session.view()).view)

    played(story)


@pytest.mark.requirement("updates:view:state-and-cursor-of-one-commit")
def test_a_view_shows_the_pending_reminders_the_inbox_and_the_open_turn(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            await sent(store, ANN, "queued")
            await session.inject("Later.", mode="queue")
            await store.commit(
                "s",
                saying(
                    Recorded(name="title", value="T"),
                    Injected(reminder=a_reminder("live"), provenance=IN_PROCESS),
                    Started(),
                    RequestCommitted(turn=1, reply_id="a1"),
                ),
            )
            found = (await session.view()).view
            assert [(entry.state, entry.reminder.id, entry.mode) for entry in found.reminders] == [
                (PendingState.QUEUED, "queued", Mode.FINISH_STEP),
                (PendingState.LIVE, "live", None),
            ]
            assert found.session is not None
            assert [list(item.content) for item in found.session.waiting] == [a_text("Later.")]
            seen = found.session
            assert (seen.turn, seen.reply_id, seen.running) == (0, "a1", True)
            assert (seen.records, seen.closed_reason) == ({"title": "T"}, None)

    played(story)


@pytest.mark.requirement("updates:cursor:slow-reader")
def test_a_reader_that_is_slower_than_the_writers_misses_nothing(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            async with aclosing(session.updates()) as updates:
                first = asyncio.ensure_future(anext(updates))
                await asyncio.sleep(0)
                await store.commit("s", saying(Started()))
                seen = [(await first).cursor]
                # More than a subscriber may have unread.
                await store.commit("s", saying(*[PermissionAsked(request_id="p")] * 1_500))
                seen += [(await anext(updates)).cursor for _ in range(1_500)]
            assert seen == list(range(1, 1_502))

    played(story)
