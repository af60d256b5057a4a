"""Snapshots and pruning: only events that a snapshot covers are pruned, and readers get an error for them."""

import asyncio
import os
from collections.abc import Iterable
from typing import Any

import apsw
import pytest

from sideband.core.apply import fold
from sideband.core.drain import drain
from sideband.core.errors import CursorExpired, NotStorable, StoreNewer
from sideband.core.events import Event, Queued, ResultRecorded, Revoked, Started
from sideband.core.seams import Seam
from sideband.core.snapshot import encode
from sideband.core.state import SessionState
from sideband.store.batch import Order
from sideband.store.codec import checksum
from sideband.store.replica import Replica
from sideband.store.sqlite import SqliteSettings
from sideband.store.sqlite.committer import SqliteCommitter
from tests.builders import a_draft
from tests.decisions import deciding, saying
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import Sender, SqliteTwin, a_start, played, so_many, told, took, written_at


def a_drain(state: SessionState) -> Iterable[Event]:
    return drain(state, Seam.ITERATION_START).events


async def live_a_little(sender: Sender, rounds: int, *, session_id: str = "s") -> None:
    for number in range(rounds):
        await sender.send(a_draft(dedupe_key=f"k{number % 5}"), session_id=session_id)
        if number % 4 == 3:
            await sender.store.commit(session_id, deciding(a_drain))


def rows_of(sqlite: SqliteTwin, query: str) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(sqlite.path))
    rows = connection.execute(query).fetchall()
    connection.close()
    return rows


def test_a_session_is_read_from_its_snapshot_and_what_came_after_it(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(snapshot_events=20)) as store:
            await live_a_little(Sender(store), 40)
            expected = facts(fold(entry.event for entry in await told(store)))
            assert facts(store.state("s")) == expected
        async with sqlite.open() as store:
            await store.open("s")
            assert facts(store.state("s")) == expected

    played(story)
    ((snapshot, last),) = rows_of(sqlite, "SELECT sequence, (SELECT max(sequence) FROM journal) FROM snapshot")
    assert isinstance(snapshot, int)
    assert isinstance(last, int)
    assert 20 <= snapshot <= last
    assert len(rows_of(sqlite, "SELECT 1 FROM journal")) == last, "nothing was pruned"


def test_a_large_state_is_not_written_anew_for_a_few_words(sqlite: SqliteTwin) -> None:
    large = ResultRecorded(call_id="c", status="ok", message={"role": "tool", "content": "x" * 100_000})

    async def story() -> None:
        async with sqlite.open(SqliteSettings(snapshot_events=10)) as store:
            await store.commit("s", deciding(lambda _: [large] * 10))
            await store.commit("s", so_many(50))
            await store.commit("s", so_many(1))

    played(story)
    assert rows_of(sqlite, "SELECT sequence FROM snapshot") == [(10,)]


@pytest.mark.requirement("events:journal:pruned-behind-a-snapshot")
def test_only_events_that_a_snapshot_covers_are_pruned(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open(SqliteSettings(snapshot_events=20, kept_events=5)) as store:
            await live_a_little(Sender(store, name="a"), 6, session_id="short")
            await live_a_little(Sender(store, name="b"), 60, session_id="long")
            states = {name: facts(store.state(name)) for name in ("short", "long")}
            last = await written_at(store, "long", saying())
        async with sqlite.open() as store:
            for name, state in states.items():
                await store.open(name)
                assert facts(store.state(name)) == state
            assert await written_at(store, "long", a_start) == last + 1

    played(story)
    ((sequence, pruned),) = rows_of(sqlite, "SELECT sequence, pruned_through FROM snapshot")
    assert isinstance(sequence, int)
    assert isinstance(pruned, int)
    assert 0 < pruned < sequence
    left = [row[0] for row in rows_of(sqlite, "SELECT sequence FROM journal WHERE session_id = 'long'")]
    assert all(number > pruned for number in left if isinstance(number, int))
    assert len([number for number in left if isinstance(number, int) and number <= sequence]) == 5


@pytest.mark.requirement("events:subscribe:cursor-expired")
def test_a_cursor_before_pruned_events_is_expired(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            for name in ("a", "b"):
                await store.commit(name, so_many(10))
            assert await store.prune("a", keep_events=4) == 6
            for after in (0, 5):
                with pytest.raises(
                    CursorExpired, match=f"events after {after} are no longer all kept.*after=6"
                ) as expired:
                    await told(store, after=after)
                assert (expired.value.after, expired.value.oldest) == (after, 6)
                with pytest.raises(CursorExpired):
                    await anext(store.subscribe(session_id="a", after=after))
            assert [entry.sequence for entry in await told(store, after=6)] == list(range(7, 21))
            source = store.subscribe(after=6)
            assert [entry.sequence for entry in await took(source, 14)] == list(range(7, 21))
            await source.aclose()
            assert len(await told(store, session_id="b")) == 10, "its own journal is whole"

    played(story)


def test_the_sequence_goes_on_even_when_all_was_pruned(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.commit("s", so_many(10))
            assert await store.prune("s") == 9
            assert await store.prune("s") == 0
            assert await store.prune("unknown") == 0
        async with sqlite.open() as store:
            assert await written_at(store, "s", a_start) == 11

    played(story)


def test_a_process_that_slept_while_the_journal_was_pruned_continues_from_the_snapshots(sqlite: SqliteTwin) -> None:
    asleep = SqliteSettings(poll_seconds=3_600)

    async def story() -> None:
        async with sqlite.open(asleep) as sleeper, sqlite.open() as busy:
            await live_a_little(Sender(sleeper), 3)
            source = sleeper.subscribe()
            await took(source, 3)
            following = asyncio.ensure_future(anext(source))
            await asyncio.sleep(0)
            # It does not hear the bell, and the next look is far away.
            sleeper._loop.remove_reader(sleeper._bell)  # type: ignore[arg-type]  # there is one
            await live_a_little(Sender(busy, name="b"), 9)
            assert await busy.prune("s", keep_events=1) > 0
            await sleeper.commit("s", a_start)
            assert facts(sleeper.state("s")) == {**facts(busy.state("s")), "running": True}
            with pytest.raises(CursorExpired) as expired:
                await following
            again = sleeper.subscribe(after=expired.value.oldest)
            assert (await anext(again)).sequence == expired.value.oldest + 1
            await again.aclose()

    played(story)


def test_a_snapshot_of_a_later_version_is_left_alone(sqlite: SqliteTwin) -> None:
    later = encode(SessionState()).replace(b'"version":1', b'"version":2')

    async def story() -> None:
        async with sqlite.open() as store:
            await store.commit("s", a_start)
        connection = apsw.Connection(str(sqlite.path))
        connection.execute(
            "INSERT INTO snapshot (session_id, sequence, checksum, body) VALUES ('s', 1, ?, ?)",
            (checksum(1, "s", later), later),
        )
        connection.close()
        async with sqlite.open() as store:
            with pytest.raises(StoreNewer, match="upgrade sideband"):
                await store.open("s")
            with pytest.raises(StoreNewer):
                await store.commit("s", a_start)
            await store.commit("other", a_start)

    played(story)


# What is written.


def test_what_the_journal_gives_back_is_what_was_applied(sqlite: SqliteTwin) -> None:
    message: dict[Any, Any] = {"role": "tool", "content": ("a", "tuple"), 7: float("nan")}

    async def story() -> None:
        async with sqlite.open() as store:
            await store.commit("s", saying(ResultRecorded(call_id="c", status="ok", message=message)))
            kept = {"role": "tool", "content": ["a", "tuple"], "7": None}
            assert store.state("s").messages == [kept]
            assert [entry.event for entry in await told(store)] == [
                ResultRecorded(call_id="c", status="ok", message=kept)
            ]

    played(story)


@pytest.mark.parametrize("value", [pytest.param(object(), id="an-object"), pytest.param("\ud800", id="half-a-letter")])
def test_what_no_journal_can_hold_is_refused_and_nothing_is_written(sqlite: SqliteTwin, value: object) -> None:
    bad = ResultRecorded(call_id="c", status="ok", message={"role": "tool", "content": value})

    async def story() -> None:
        async with sqlite.open() as store:
            outcomes = await asyncio.gather(
                store.commit("s", a_start),
                store.commit("s", saying(Started(), bad)),
                store.commit("s", a_start),
                return_exceptions=True,
            )
            assert [isinstance(outcome, NotStorable) for outcome in outcomes] == [False, True, False]
            assert [entry.event for entry in await told(store)] == [Started(), Started()]

    played(story)


def test_events_that_cannot_be_applied_are_not_written_and_others_go_on(sqlite: SqliteTwin) -> None:
    """A decision that is wrong: what it says has begun to be applied when it turns out not to fit."""

    async def story() -> None:
        async with sqlite.open() as store:
            sender = Sender(store)
            await sender.send(a_draft())
            (entry,) = await told(store)
            assert isinstance(entry.event, Queued)
            unknown = Revoked(reminder_id="nobody")
            outcomes = await asyncio.gather(
                sender.send(a_draft()),
                store.commit("s", saying(Started(), unknown)),
                sender.send(a_draft()),
                store.commit("t", a_start),
                return_exceptions=True,
            )
            assert [isinstance(outcome, KeyError) for outcome in outcomes] == [False, True, False, False]
            assert facts(store.state("s")) == facts(fold(e.event for e in await told(store, session_id="s")))
            assert [item.id for item in store.state("s").inbox.items()] == ["r-1", "r-2", "r-3"]
            assert not store.state("s").running

    played(story)


def test_the_log_beside_the_file_does_not_grow_for_ever(sqlite: SqliteTwin) -> None:
    large = ResultRecorded(call_id="c", status="ok", message={"role": "tool", "content": "x" * 1_000_000})

    async def story() -> None:
        async with sqlite.open() as store:
            sizes = []
            for _ in range(6):
                await store.commit("s", deciding(lambda _: [large] * 5))
                sizes.append(os.stat(f"{sqlite.path}-wal").st_size)  # noqa: PTH116 - where a path would block as well
            assert max(sizes) < 2 * sizes[0]

    played(story)


def test_a_session_that_was_pruned_between_reading_and_opening_it_is_read_again(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as store:
            await store.commit("s", so_many(3))
        committer = SqliteCommitter(sqlite.path, SqliteSettings(), bell=None, now_ms=sqlite.now_ms)
        other = SqliteCommitter(sqlite.path, SqliteSettings(), bell=None, now_ms=sqlite.now_ms)
        stale = committer._reader.load("s")
        orders = [Order(Replica("s"), so_many(3), None, asyncio.get_running_loop().create_future())]
        other.commit(orders)
        assert other.prune(orders[0].replica, keep=0) == 5
        replica = Replica("s")
        committer.adopt(replica, stale, stale.restore(), stale.restore())
        assert facts(replica.ahead) == facts(other._replicas["s"].ahead)
        assert replica.at == 6
        (opened,) = committer.delivery().opened
        assert (opened.at, facts(opened.state)) == (6, facts(replica.ahead))
        committer.close()
        other.close()

    played(story)
