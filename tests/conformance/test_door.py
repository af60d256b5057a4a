"""The door of a session: what a producer of any kind may tell it, and what each is told of refusals."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

import pytest

from sideband.core.accept import Accepted, RevokeStatus
from sideband.core.drain import drain
from sideband.core.errors import (
    AlreadyRevoked,
    IdempotencyConflict,
    InvalidReminder,
    NotPermitted,
    RateLimited,
    ReminderError,
    TooManyPending,
    UnknownMessage,
    UnknownOption,
    UnknownReminder,
    UnknownSession,
)
from sideband.core.events import Dropped, DropReason
from sideband.core.limits import Limits, Rate
from sideband.core.seams import Seam
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance, Trust, TrustPolicy
from sideband.core.updates import Viewer
from sideband.runtime.producer import Producer
from sideband.runtime.session import Session
from sideband.runtime.store import Store, open_store
from sideband.store.memory import MemoryStore
from sideband.testing import run_schedule
from sideband.testing.fakes import FakeClock
from tests.sessions import CLIENT, PEER, SERVER
from tests.unit.store.twins import Twin

OTHER_PEER: Final = Provenance(trust=Trust.PEER, principal="reviewer", via="a2a")


def editor(session: Session) -> Producer:
    return Producer(session, CLIENT, surface=Surface.ACP)


def peer(session: Session, provenance: Provenance = PEER, *, policy: TrustPolicy = TrustPolicy.CEILINGS) -> Producer:
    return Producer(session, provenance, surface=Surface.A2A, policy=policy)


def server(session: Session) -> Producer:
    return Producer(session, SERVER, surface=Surface.MCP)


Story = Callable[[Session], Coroutine[Any, Any, None]]


def on_a_session(story: Story, *, limits: Limits | None = None) -> None:
    """Run the story on a session in memory, in virtual time."""

    async def run() -> None:
        async with open_store(limits=limits or Limits()) as store:
            await story(await store.session("s"))

    run_schedule(1, run)


async def journal(session: Session) -> list[object]:
    return [logged.event async for logged in session.talk.journal.history(session_id=session.id)]


async def recorded(session: Session) -> list[tuple[DropReason, int, str | None]]:
    """The refusals that are recorded, with their count and sender."""
    return [
        (event.reason, event.count, None if event.provenance is None else event.provenance.principal)
        for event in await journal(session)
        if isinstance(event, Dropped) and event.at_the_door
    ]


# Payloads.


@pytest.mark.requirement("door:payload:object-or-json-text")
def test_an_object_and_its_json_text_are_the_same_request() -> None:
    async def story(session: Session) -> None:
        producer = peer(session)
        first = await producer.remind({"id": "r1", "body": "Build is red.", "ttlTurns": 2})
        for text in (
            b'{"id": "r1", "ttlTurns": 2, "body": "Build is red."}',
            '{"id":"r1","body":"Build is red.","ttlTurns":2}',
        ):
            assert (await producer.remind(text)).reminder_id == first.reminder_id
        with pytest.raises(InvalidReminder, match="occurs twice"):
            await producer.remind(b'{"id": "r2", "body": "a", "body": "b"}')

    on_a_session(story)


@pytest.mark.requirement("door:payload:rules-of-its-surface")
def test_each_producer_reads_by_the_rules_of_its_surface() -> None:
    async def story(session: Session) -> None:
        await editor(session).remind({"body": "x", "ttlTurns": 1})
        with pytest.raises(UnknownOption, match="did you mean 'ttlTurns'"):
            await editor(session).remind({"body": "x", "ttl_turns": 1})
        await session.remind("x", ttl_turns=1)
        with pytest.raises(UnknownOption):
            await editor(session).remind({"id": "r1", "body": "x"})
        await server(session).remind({"id": "r1", "body": "x", "unknown": 1})

    on_a_session(story)


@pytest.mark.requirement("door:trust:from-the-producer")
def test_the_sender_is_the_producer_whatever_the_payload_says() -> None:
    async def story(session: Session) -> None:
        accepted = await peer(session).remind({"body": "x", "source": "in_pipeline", "roleHint": "system"})
        (pending,) = await session.pending()
        assert (pending.provenance.trust, pending.provenance.principal) == (Trust.PEER, "planner")
        assert pending.provenance.claims == {"source": "in_pipeline"}
        assert (accepted.requested["role_hint"], accepted.effective["role_hint"]) == ("system", "user_block")
        lifted = await peer(session, policy=TrustPolicy.SEED).remind({"body": "y", "roleHint": "system"})
        assert lifted.requested == {}

    on_a_session(story)


@pytest.mark.requirement("door:refusal:changes-nothing")
@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(lambda door: door.remind({"body": ""}), id="invalid"),
        pytest.param(lambda door: door.remind({"body": "x" * 9_000}), id="too-large"),
        pytest.param(lambda door: door.inject("x", mode="steer"), id="no-running-turn"),
        pytest.param(lambda door: door.inject("x", mode="queue", meta={"deep": [[[[[[[[[1]]]]]]]]]}), id="deep-meta"),
        pytest.param(lambda door: door.revoke("r9"), id="revoke-unknown"),
        pytest.param(lambda door: door.replace_reminder("r9", "x"), id="replace-unknown"),
        pytest.param(lambda door: door.clear(), id="clear-without-a-selector"),
    ],
)
def test_a_refused_request_writes_nothing(refused: Callable[[Producer], Awaitable[object]]) -> None:
    async def story(session: Session) -> None:
        await session.remind("one that waits")
        before = await journal(session)
        with pytest.raises(ReminderError):
            await refused(editor(session))
        assert await journal(session) == before

    on_a_session(story)


# Rate.

SLOW: Final = Limits(
    accept_rate={Trust.CONTROLLER: Rate(per_second=1, burst=3), Trust.SERVER: Rate(per_second=1, burst=3)}
)


@pytest.mark.requirement("door:rate:of-sender-and-session")
def test_producers_of_one_sender_share_a_rate_in_each_session() -> None:
    async def run() -> None:
        async with open_store(limits=SLOW) as store:
            session, other = await store.session("s"), await store.session("other")
            for producer in (editor(session), editor(session), editor(await store.session("s"))):
                await producer.remind({"body": "x"})
            with pytest.raises(RateLimited) as refused:
                await editor(session).inject("x", mode="queue")
            await editor(other).remind({"body": "x"})
            await asyncio.sleep(refused.value.retry_after_ms / 1_000)
            await editor(session).remind({"body": "x"})

    run_schedule(1, run)


async def spend(producer: Producer) -> None:
    """Use up the burst of three."""
    for number in range(3):
        await producer.remind({"id": f"spent{number}", "body": "x"})


@pytest.mark.requirement("door:rate:free-requests-cost-nothing")
@pytest.mark.parametrize(
    "free",
    [
        pytest.param({"id": "first", "body": "v1"}, id="a-repeat"),
        pytest.param({"id": "first", "body": "v2"}, id="a-newer-version"),
        pytest.param({"id": "second", "body": "v1", "dedupeKey": "first"}, id="the-same-key"),
    ],
)
def test_a_repeat_or_a_newer_version_needs_no_token(free: Mapping[str, object]) -> None:
    async def story(session: Session) -> None:
        producer = server(session)
        await producer.remind({"id": "first", "body": "v1"})
        for _ in range(9):
            await producer.remind(free)
        await producer.remind({"id": "another", "body": "x"})
        await producer.remind({"id": "a-third", "body": "x"})
        with pytest.raises(RateLimited):
            await producer.remind({"id": "one-too-many", "body": "x"})
        await producer.remind(free)

    on_a_session(story, limits=SLOW)


@pytest.mark.requirement("door:rate:free-requests-cost-nothing")
def test_a_request_that_is_refused_before_its_rate_is_checked_costs_nothing() -> None:
    async def story(session: Session) -> None:
        await peer(session).remind({"id": "taken", "body": "x"})
        other = peer(session, OTHER_PEER)
        for _ in range(9):
            with pytest.raises(IdempotencyConflict):
                await other.remind({"id": "taken", "body": "x"})
        await other.remind({"id": "r1", "body": "x"})

    on_a_session(story, limits=Limits(accept_rate={Trust.PEER: Rate(per_second=0.1, burst=1)}))


@pytest.mark.requirement("door:rate:capacity-comes-after")
def test_a_request_that_is_refused_for_capacity_has_used_its_token() -> None:
    async def story(session: Session) -> None:
        await session.remind("x")
        for _ in range(3):
            with pytest.raises(TooManyPending):
                await editor(session).remind({"body": "x"})
        with pytest.raises(RateLimited):
            await editor(session).remind({"body": "x"})

    on_a_session(story, limits=Limits(accept_rate=SLOW.accept_rate, pending_per_session=1, reserved_for_interrupts=0))


@pytest.mark.requirement("door:rate:refusals-are-recorded")
def test_requests_over_the_rate_are_one_event_a_second() -> None:
    async def story(session: Session) -> None:
        producer = server(session)
        await spend(producer)
        for _ in range(5):
            with pytest.raises(RateLimited):
                await producer.remind({"id": "late", "body": "x"})
        await asyncio.sleep(1.5)
        assert await recorded(session) == [(DropReason.RATE_LIMITED, 5, "watcher")]

    on_a_session(story, limits=SLOW)


# Senders that read no reply.


@pytest.mark.requirement("door:notify:refusal-is-counted")
def test_what_is_refused_without_a_reply_is_counted_by_sender_and_reason() -> None:
    async def story(session: Session) -> None:
        producer, other = (
            server(session),
            Producer(session, Provenance(trust=Trust.SERVER, principal="linter"), surface=Surface.MCP),
        )
        assert await producer.notify({"id": "r1", "body": "Tests pass."}) is not None
        for _ in range(3):
            assert await producer.notify({"body": "without an id"}) is None
        assert await producer.notify(b"no json") is None
        assert await producer.notify({"id": "r2", "body": "x" * 2_000}) is None
        assert await other.notify({"id": "r3"}) is None
        for number in range(9):
            await producer.notify({"id": f"n{number}", "body": "x"})
        producer.count_refusal(DropReason.UNDECLARED_CAPABILITY)
        await asyncio.sleep(1.5)
        assert sorted(await recorded(session)) == [
            (DropReason.INVALID, 1, "linter"),
            (DropReason.INVALID, 4, "watcher"),
            (DropReason.RATE_LIMITED, 6, "watcher"),
            (DropReason.TOO_LARGE, 1, "watcher"),
            (DropReason.UNDECLARED_CAPABILITY, 1, "watcher"),
        ]

    on_a_session(story)


@pytest.mark.requirement("door:notify:refusal-is-counted")
def test_a_session_that_is_over_or_was_never_begun_records_no_refusal() -> None:
    async def story(session: Session) -> None:
        await server(session).notify({"id": "r1"})
        await asyncio.sleep(1.5)
        assert await journal(session) == []
        await session.remind("x")
        await session.close()
        before = await journal(session)
        assert await server(session).notify({"id": "r2", "body": "too late"}) is None
        await asyncio.sleep(1.5)
        assert await journal(session) == before

    on_a_session(story)


@pytest.mark.requirement("door:notify:ends-with-the-store")
def test_closing_the_store_records_the_count_and_leaves_no_task() -> None:
    async def run() -> None:
        store = open_store()
        session = await store.session("s")
        await session.remind("x")
        await server(session).notify({"id": "r1"})
        await store.close()
        assert await recorded(session) == [(DropReason.INVALID, 1, "watcher")]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_schedule(1, run)


# Grants, versions, meta, receipts.


@pytest.mark.requirement("door:grants:raise-the-ceiling")
def test_a_grant_holds_for_its_producer_until_it_ends() -> None:
    clock = FakeClock(start_ms=1_000)

    async def run() -> None:
        session = await Store(MemoryStore(), clock=clock).session("s")

        async def effective(producer: Producer) -> int | None:
            accepted = await producer.remind({"body": "x", "ttlTurns": 9, "dedupeKey": "k"})
            (mine,) = [entry.reminder for entry in await session.pending() if entry.reminder.id == accepted.reminder_id]
            return mine.ttl_turns

        await session.grant("planner", trust="peer", field="ttl_turns", value=7, until=61_000)
        assert (await effective(peer(session)), await effective(peer(session, OTHER_PEER))) == (7, 3)
        clock.advance(61)
        assert await effective(peer(session)) == 3
        with pytest.raises(ReminderError, match="trust must be 'peer' or 'server', not 'operator'"):
            await session.grant("planner", trust="operator", field="ttl_turns", value=7)  # type: ignore[arg-type]

    asyncio.run(run())


async def drained(session: Session) -> list[str]:
    """Drain the inbox as the beginning of an iteration does, and return the ids of the live reminders."""
    await session.talk.write(lambda state: drain(state, Seam.ITERATION_START))
    return [item.id for item in session.talk.state.live]


@pytest.mark.requirement("door:versions:newer-takes-the-place")
@pytest.mark.parametrize("keys", [(None, None), ("a", "a"), ("a", "b")], ids=["no-key", "same-key", "another-key"])
def test_a_newer_version_takes_the_place_of_the_pending_one(keys: tuple[str | None, str | None]) -> None:
    async def story(session: Session) -> None:
        producer = server(session)
        one = {"id": "build", "body": "red", "dedupeKey": keys[0]}
        two = {"id": "build", "body": "green", "dedupeKey": keys[1]}
        first = await producer.remind(one)
        second = await producer.remind(two)
        assert (first.reminder_id, second.reminder_id) == ("watcher:build", "watcher:build~2")
        assert (second.version, second.deduped_count) == (2, 1)
        assert await drained(session) == ["watcher:build~2"]
        third, fourth = await producer.remind(one), await producer.remind(two)
        assert (third.reminder_id, fourth.reminder_id) == ("watcher:build~3", "watcher:build~4")
        assert (await producer.remind(two)).reminder_id == "watcher:build~4", "a repeat of the newest adds nothing"
        assert await drained(session) == ["watcher:build~4"]

    on_a_session(story)


@pytest.mark.requirement("door:versions:id-serves-as-the-key")
def test_the_id_of_a_server_reminder_serves_as_its_key() -> None:
    async def story(session: Session) -> None:
        await server(session).remind({"id": "build", "body": "red"})
        await server(session).remind({"id": "lint", "body": "2 errors", "dedupeKey": "style"})
        assert [entry.reminder.dedupe_key for entry in await session.pending()] == ["build", "style"]

    on_a_session(story)


@pytest.mark.requirement("door:meta:kept-with-the-item")
def test_the_meta_of_a_request_is_kept_with_the_item() -> None:
    async def story(session: Session) -> None:
        meta = {"harn.reminder.origin": "coordinator", "trace": {"id": 7}}
        await peer(session).remind({"body": "x", "_meta": meta})
        await editor(session).inject("x", mode="queue", meta={"correlation": "c1"})
        reminder, message = await session.waiting()
        assert (reminder.item.provenance.meta, message.item.provenance.meta) == (meta, {"correlation": "c1"})

    on_a_session(story)


@pytest.mark.requirement("door:receipt:same-time-and-version")
def test_a_repeat_gets_the_time_of_the_first_reply_even_after_the_end() -> None:
    clock = FakeClock(start_ms=5_000)

    async def run() -> None:
        session = await Store(MemoryStore(), clock=clock).session("s")
        first = await peer(session).remind({"id": "r1", "body": "x"})
        clock.advance(10)
        await session.close()
        again = await peer(session).remind({"id": "r1", "body": "x"})
        assert (again.accepted_at, again.version, again.reminder_id) == (5_000, 1, first.reminder_id)
        with pytest.raises(UnknownSession):
            await peer(session).remind({"id": "r2", "body": "x"})

    asyncio.run(run())


# Visibility and ownership.


@pytest.mark.requirement("door:pending:own-items-only")
def test_a_peer_lists_its_own_items_and_a_controller_all() -> None:
    async def story(session: Session) -> None:
        await session.remind("of the operator")
        await peer(session).remind({"body": "of the planner"})
        await server(session).remind({"id": "r1", "body": "of the watcher"})
        await session.prompt("of the user")
        for producer, bodies in [
            (editor(session), ["of the operator", "of the planner", "of the watcher"]),
            (peer(session), ["of the planner"]),
            (peer(session, OTHER_PEER), []),
            (server(session), ["of the watcher"]),
        ]:
            assert [entry.reminder.body for entry in await producer.pending()] == bodies
        assert [(row.position, row.kind, row.mode) for row in await peer(session).waiting()] == [
            (0, "reminder", "finish_step")
        ]
        assert [row.mode for row in await editor(session).waiting()] == [
            "finish_step",
            "finish_step",
            "finish_step",
            "queue",
        ]

    on_a_session(story)


@pytest.mark.requirement("door:messages:controllers-only")
@pytest.mark.parametrize("foreign", [PEER, SERVER], ids=lambda sender: sender.principal)
def test_a_peer_or_a_server_cannot_send_or_touch_messages(foreign: Provenance) -> None:
    async def story(session: Session) -> None:
        producer = peer(session, foreign)
        message_id = await editor(session).inject("x", mode="queue")
        with pytest.raises(NotPermitted):
            await producer.inject("y", mode="queue")
        for refused in (producer.revoke_message(message_id), producer.replace_message(message_id, "y")):
            with pytest.raises(UnknownMessage):
                await refused
        assert len(await session.waiting()) == 1

    on_a_session(story)


@pytest.mark.requirement("door:owner:unknown-to-other-peers")
def test_a_session_is_unknown_to_peers_that_do_not_own_it() -> None:
    async def story(session: Session) -> None:
        await session.record({"owner": "planner"})
        reminder_id = (await peer(session).remind({"body": "x"})).reminder_id
        stranger = peer(session, OTHER_PEER)
        methods: list[Awaitable[object]] = [
            stranger.remind({"body": "y"}),
            stranger.inject("y", mode="queue"),
            stranger.revoke(reminder_id),
            stranger.revoke_reminder(reminder_id),
            stranger.replace_reminder(reminder_id, "y"),
            stranger.clear(id=reminder_id),
            stranger.pending(),
            stranger.waiting(),
            session.view(Viewer(provenance=OTHER_PEER, sees_all=True)),
            anext(session.updates(Viewer(provenance=OTHER_PEER, sees_all=True))),
        ]
        for method in methods:
            with pytest.raises(UnknownSession):
                await method
        for trusted in (editor(session), server(session)):
            await trusted.pending()

    on_a_session(story)


# All stores.


@pytest.mark.requirement("door:verbs:on-every-store")
def test_every_method_gives_the_same_results_on_all_stores(twin: Twin) -> None:
    async def story() -> list[object]:
        async with twin.open() as journal:
            session = await Store(journal, clock=FakeClock(start_ms=1_000)).session("s")
            seen: list[object] = []
            by_id = {"id": "r1", "body": "red", "tags": ["ci"]}
            seen.append(await peer(session).remind(by_id))
            seen.append(await peer(session).remind(by_id))
            first = await editor(session).remind({"body": "x", "dedupeKey": "k"})
            await editor(session).replace_reminder(first.reminder_id, "y")
            seen += [entry.reminder.body for entry in await session.pending()]
            seen.append(await editor(session).revoke_reminder(first.reminder_id))
            seen.append(await editor(session).revoke(first.reminder_id))
            with pytest.raises(AlreadyRevoked):
                await editor(session).replace_reminder(first.reminder_id, "z")
            message_id = await editor(session).inject([{"type": "text", "text": "go"}], mode="queue")
            await editor(session).replace_message(message_id, "go on")
            seen += [row.kind for row in await session.waiting()]
            seen.append(await editor(session).clear(tag="ci"))
            seen.append(await peer(session).revoke("r1"))
            with pytest.raises(UnknownReminder):
                await peer(session, OTHER_PEER).revoke("r1")
            seen.append(await editor(session).revoke_message(message_id))
            return seen

    accepted = Accepted(
        reminder_id="r1",  # type: ignore[arg-type]  # a plain string
        deduped_count=0,
        requested={"role_hint": "system", "propagate": "session", "ttl_turns": None},
        effective={"role_hint": "user_block", "propagate": "none", "ttl_turns": 3},
        accepted_at=1_000,
    )
    first, repeat, *rest = asyncio.run(story())
    assert isinstance(first, Accepted)
    assert isinstance(repeat, Accepted)
    assert (first, repeat.is_free) == (accepted, True)
    assert rest == [
        "red",
        "y",
        RevokeStatus.REVOKED,
        RevokeStatus.ALREADY_REVOKED,
        "reminder",
        "user",
        1,
        RevokeStatus.ALREADY_REVOKED,
        RevokeStatus.REVOKED,
    ]
