"""Snapshots and pruning on PostgreSQL, also for processes that have not read the pruned events."""

import asyncio
from collections.abc import Iterable

import pytest

from sideband.core.apply import fold
from sideband.core.errors import CursorExpired, StoreDamaged
from sideband.core.events import Event, Idled, Started
from sideband.core.state import SessionState
from sideband.store.postgres import PostgresSettings
from tests.builders import a_draft
from tests.decisions import deciding, saying
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import PostgresTwin, Sender, a_start, last_of, played, so_many, told, took, written_at

SMALL = PostgresSettings(snapshot_events=10, kept_events=5)


def snapshots(twin: PostgresTwin) -> object:
    return twin.execute("SELECT session_id, sequence FROM sideband.snapshot")


def kept(twin: PostgresTwin) -> list[object]:
    rows = twin.execute("SELECT sequence FROM sideband.journal ORDER BY sequence")
    return [row[0] for row in rows]


def toggled(state: SessionState) -> Iterable[Event]:
    return (Idled(),) if state.running else (Started(),)


@pytest.mark.requirement("events:journal:pruned-behind-a-snapshot")
def test_a_session_that_grows_has_a_snapshot_and_only_events_that_it_covers_are_pruned(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open(SMALL) as store:
            sender = Sender(store)
            for _ in range(14):
                await sender.send(a_draft(dedupe_key="k"))
            # The first reminder of its key logs one event, each of the others two.
            assert snapshots(postgres) == [("s", 21)]
            assert kept(postgres) == list(range(17, 28))
            expected = facts(store.state("s"))
        async with postgres.open(SMALL) as store:
            await store.open("s")
            assert facts(store.state("s")) == expected
            await Sender(store, name="again").send(a_draft(dedupe_key="k"))
            assert len(store.state("s").inbox) == 1

    played(story)


def test_what_a_snapshot_and_the_rest_give_is_what_all_of_it_gives(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open(PostgresSettings(snapshot_events=7, kept_events=None)) as store:
            sender = Sender(store)
            for number in range(20):
                await sender.send(a_draft(dedupe_key=f"k{number % 3}"))
            whole = [entry.event for entry in await told(store)]
        async with postgres.open() as store:
            await store.open("s")
            assert facts(store.state("s")) == facts(fold(whole))

    played(story)
    assert snapshots(postgres) != []


@pytest.mark.requirement("events:subscribe:cursor-expired")
def test_a_cursor_before_pruned_events_is_refused_with_a_valid_one(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("a", so_many(4))
            await store.commit("b", so_many(4))
            assert await store.prune("a", keep_events=1) == 3
            for read in (told(store), anext(store.subscribe()), told(store, session_id="a", after=2)):
                with pytest.raises(CursorExpired) as expired:
                    await read
                assert expired.value.oldest == 3
            assert [entry.sequence for entry in await told(store, after=3)] == [4, 5, 6, 7, 8]
            assert len(await told(store, session_id="b")) == 4

    played(story)


def test_the_last_row_of_the_store_stays_whatever_is_pruned(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("s", so_many(3))
            assert await store.prune("s") == 2
            assert await store.prune("s") == 0
            assert await written_at(store, "s", a_start) == 4
        async with postgres.open() as store:
            await store.open("s")

    played(story)
    assert kept(postgres) == [3, 4]


def test_no_cursor_expires_if_no_row_goes(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("a", so_many(2))
            await store.commit("s", a_start)
            assert await store.prune("s") == 0
            assert len(await told(store, session_id="s")) == 1
            assert len(await told(store)) == 3

    played(story)


def test_a_process_that_was_not_looking_decides_on_what_was_pruned_meanwhile(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as here, postgres.open() as there:
            await here.commit("s", deciding(toggled))
            await here._listener.stop()
            for _ in range(4):
                await there.commit("s", deciding(toggled))
            await there.prune("s")
            assert await here.commit("s", deciding(toggled)) == (Idled(),)
            assert await last_of(here) == 6
            assert not here.state("s").running
            assert await here.commit("s", deciding(toggled)) == (Started(),)
            assert here.state("s").running

    played(story)


def test_who_follows_is_told_of_a_gap_and_a_session_is_shown_as_it_is(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as here, postgres.open() as there:
            await here.open("s")
            source = here.subscribe()
            following = asyncio.ensure_future(took(source, 2))
            woken = here.wake("s")
            await there.commit("s", a_start)
            await woken.wait()
            await here._listener.stop()
            await there.commit("s", so_many(3))
            await there.commit("s", saying(Idled()))
            await there.prune("s")
            here._listener.start(here._feed.end)
            with pytest.raises(CursorExpired, match="after=4"):
                await following
            assert not here.state("s").running
            again = here.subscribe(after=4)
            assert (await anext(again)).sequence == 5
            await again.aclose()

    played(story)


def test_a_session_can_be_opened_while_it_is_written_to(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as here, postgres.open() as there:
            source = here.subscribe()
            following = asyncio.ensure_future(took(source, 40))

            async def write() -> None:
                for _ in range(40):
                    await there.commit("s", deciding(toggled))

            writing = asyncio.ensure_future(write())
            await here.open("s")
            await writing
            await following
            assert facts(here.state("s")) == facts(fold([entry.event for entry in following.result()]))
            await source.aclose()

    played(story)


def test_a_snapshot_that_was_changed_is_not_believed(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("s", so_many(3))
            await store.prune("s")
        postgres.execute("UPDATE sideband.snapshot SET body = body || ' '")
        async with postgres.open() as store:
            with pytest.raises(StoreDamaged, match="the snapshot of session 's' was changed"):
                await store.open("s")
            with pytest.raises(StoreDamaged):
                await store.commit("s", a_start)

    played(story)


def test_who_follows_a_journal_that_can_no_longer_be_read_is_told(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open(PostgresSettings(poll_seconds=0.02)) as store, postgres.open() as other:
            source = store.subscribe()
            following = asyncio.ensure_future(took(source, 2))
            await other.commit("s", a_start)
            postgres.execute(
                "BEGIN; UPDATE sideband.counter SET last = 2; INSERT INTO sideband.journal "
                "SELECT 2, 't', word, checksum, body, time FROM sideband.journal; COMMIT"
            )
            with pytest.raises(StoreDamaged, match="row 2 of the journal was changed"):
                await following

    played(story)


def test_of_many_who_want_a_session_at_once_one_gets_it(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as here, postgres.open() as there:
            asked = [store.acquire("s", f"holder {n}") for n in range(6) for store in (here, there)]
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            # Of a holder's own two attempts both succeed.
            leases = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
            assert len({lease.holder for lease in leases}) == 1
            ((now,),) = postgres.execute("SELECT extract(epoch FROM now()) * 1000")
            assert leases[0].expires_at == pytest.approx(float(str(now)) + 30_000, abs=20_000)

    played(story)
