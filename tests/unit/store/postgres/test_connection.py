"""A PostgreSQL store whose connections are lost: it reconnects, and its answers are correct."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from sideband.core.errors import OutcomeUnknown, StoreUnavailable
from sideband.core.events import Event, Idled, Started
from sideband.core.state import SessionState
from sideband.ports import Journal
from sideband.store.postgres import PostgresSettings, PostgresStore
from tests.builders import a_draft
from tests.decisions import deciding, saying
from tests.postgres_proxy import Loss, Proxy
from tests.unit.store.twins import PostgresTwin, Sender, a_start, last_of, played, told, took, written_at

IMPATIENT = PostgresSettings(patience_seconds=0.2)


@asynccontextmanager
async def behind_a_proxy(
    twin: PostgresTwin, settings: PostgresSettings | None = None
) -> AsyncIterator[tuple[PostgresStore, Proxy]]:
    async with Proxy(twin.server).running() as proxy, twin.open(settings, url=proxy.url(twin.name)) as store:
        yield store, proxy


class Deciding:
    """A decision that counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, state: SessionState) -> Iterable[Event]:
        self.asked += 1
        return (Idled(),) if state.running else (Started(),)


async def kinds(store: Journal) -> tuple[type[Event], ...]:
    return tuple(type(entry.event) for entry in await told(store))


# Commits.


@pytest.mark.parametrize(
    ("loss", "asked"),
    [
        pytest.param(Loss.ANSWER, 1, id="a-commit-that-was-made-is-not-made-again"),
        pytest.param(Loss.QUESTION, 2, id="a-commit-that-was-not-made-is-decided-again"),
    ],
)
def test_a_connection_lost_during_a_commit(postgres: PostgresTwin, loss: Loss, asked: int) -> None:
    decide = Deciding()

    async def story() -> None:
        async with behind_a_proxy(postgres) as (store, proxy):
            await store.commit("s", a_start)
            proxy.losses.append(loss)
            assert await store.commit("s", deciding(decide)) == (Idled(),)
            assert not proxy.losses
            assert await last_of(store) == 2
            assert not store.state("s").running
            assert await written_at(store, "s", deciding(decide)) == 3
            assert await kinds(store) == (Started, Idled, Started)

    played(story)
    assert decide.asked == asked + 1


@pytest.mark.parametrize("loss", Loss)
def test_all_that_were_committed_together_are_told_the_truth(postgres: PostgresTwin, loss: Loss) -> None:
    async def story() -> None:
        async with behind_a_proxy(postgres) as (store, proxy):
            await asyncio.gather(store.open("a"), store.open("b"))
            senders = [Sender(store, name=f"n{number}") for number in range(6)]
            proxy.losses.extend([loss, loss])
            answers = await asyncio.gather(
                *(sender.send(a_draft(dedupe_key="k"), session_id="ab"[n % 2]) for n, sender in enumerate(senders))
            )
            assert sorted(answer.deduped_count for answer in answers) == [0, 0, 1, 1, 1, 1]
            assert (len(store.state("a").inbox), len(store.state("b").inbox)) == (1, 1)
            assert [entry.sequence for entry in await told(store)] == list(range(1, 11))

    played(story)


def test_a_process_that_lost_its_answer_is_the_first_in_the_journal_all_the_same(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with behind_a_proxy(postgres) as (store, proxy), postgres.open() as other:
            await store.open("s")
            source = store.subscribe()
            following = asyncio.ensure_future(took(source, 3))
            proxy.losses.append(Loss.ANSWER)
            first = asyncio.ensure_future(store.commit("s", a_start))
            await other.wake("s").wait()
            await other.commit("s", saying(Idled()))
            await store.commit("s", a_start)
            await first
            assert [(entry.sequence, entry.event) for entry in await following] == [
                (1, Started()),
                (2, Idled()),
                (3, Started()),
            ]
            await source.aclose()

    played(story)


def test_where_the_server_cannot_be_asked_in_time_the_outcome_is_called_unknown(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with behind_a_proxy(postgres, IMPATIENT) as (store, proxy):
            await store.commit("s", saying())
            proxy.losses.append(Loss.ANSWER)
            proxy.is_down = True
            with pytest.raises(OutcomeUnknown, match="whether it was made cannot be found out now"):
                await store.commit("s", a_start)
            proxy.is_down = False
            assert await store.commit("s", deciding(Deciding())) == (Idled(),), "it was made"
            assert await kinds(store) == (Started, Idled)

    played(story)


def test_while_the_server_cannot_be_reached_nothing_is_accepted(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with behind_a_proxy(postgres, IMPATIENT) as (store, proxy):
            await store.commit("s", a_start)
            proxy.is_down = True
            proxy.drop_all()
            asked = [store.commit("s", a_start), store.acquire("s", "me"), told(store), store.open("other")]
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 4
            proxy.is_down = False
            assert await written_at(store, "s", saying(Idled())) == 2
            assert await kinds(store) == (Started, Idled)

    played(story)


def test_what_waits_for_the_server_is_committed_in_the_order_it_was_asked_for(postgres: PostgresTwin) -> None:
    async def story() -> list[tuple[Event, ...]]:
        async with behind_a_proxy(postgres) as (store, proxy):
            await store.commit("s", a_start)
            proxy.is_down = True
            proxy.drop_all()
            waiting = [asyncio.ensure_future(store.commit("s", deciding(Deciding()))) for _ in range(4)]
            await asyncio.sleep(0)
            proxy.is_down = False
            answers = await asyncio.gather(*waiting)
            assert await kinds(store) == (Started, Idled, Started, Idled, Started)
            return answers

    assert played(story) == [(Idled(),), (Started(),), (Idled(),), (Started(),)]


def test_a_connection_lost_between_deciding_and_writing_costs_nothing_but_another_try(postgres: PostgresTwin) -> None:
    asked: list[bool] = []

    def decide(state: SessionState) -> Iterable[Event]:
        asked.append(state.running)
        if len(asked) == 1:
            postgres.server.disconnect(postgres.name, state="idle in transaction")
        return (Started(),)

    async def story() -> None:
        async with postgres.open() as store:
            assert await written_at(store, "s", deciding(decide)) == 1
            assert await kinds(store) == (Started,)

    played(story)
    assert asked == [False, False]


def test_a_process_whose_rows_were_taken_away_while_it_was_silent_introduces_itself_again(
    postgres: PostgresTwin,
) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("s", a_start)
            postgres.execute("DELETE FROM sideband.writer")
            postgres.execute("DELETE FROM sideband.session")
            assert await written_at(store, "s", deciding(Deciding())) == 2
            assert await kinds(store) == (Started, Idled)

    played(story)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE sideband.journal RENAME TO hidden",
        "ALTER TABLE sideband.counter ADD CHECK (last < 2)",
    ],
    ids=["nothing-can-be-read", "nothing-can-be-written"],
)
def test_what_will_not_pass_by_waiting_is_said_at_once(postgres: PostgresTwin, statement: str) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("s", a_start)
            postgres.execute(statement)
            refused = await asyncio.gather(*(store.commit("s", a_start) for _ in range(2)), return_exceptions=True)
            assert [type(error) for error in refused] == [StoreUnavailable] * 2
            assert store.state("s").running
            postgres.execute("ALTER TABLE IF EXISTS sideband.hidden RENAME TO journal")
            postgres.execute("ALTER TABLE sideband.counter DROP CONSTRAINT IF EXISTS counter_last_check")
            assert await written_at(store, "s", saying(Idled())) == 2

    played(story)


# News.


def test_a_subscriber_misses_nothing_that_happened_while_the_connection_was_lost(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with behind_a_proxy(postgres) as (store, proxy), postgres.open() as other:
            await store.open("s")
            source = store.subscribe()
            following = asyncio.ensure_future(took(source, 9))
            for number in range(3):
                await other.commit("s", a_start)
                proxy.is_down = True
                proxy.drop_all()
                await other.commit("s", a_start)
                proxy.is_down = False
                assert await written_at(store, "s", a_start) == 3 * number + 3
            assert [entry.sequence for entry in await following] == list(range(1, 10))
            assert store.state("s").running
            await source.aclose()

    played(story)


def test_what_the_server_did_not_tell_is_found_by_looking(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open(PostgresSettings(poll_seconds=0.02)) as store, postgres.open() as other:
            await store.open("s")
            await other.commit("s", a_start)
            wake = store.wake("s")
            source = store.subscribe(after=1)
            following = asyncio.ensure_future(anext(source))
            postgres.execute(
                "BEGIN; UPDATE sideband.counter SET last = 2; INSERT INTO sideband.journal "
                "SELECT 2, session_id, word, checksum, body, time FROM sideband.journal; COMMIT"
            )
            assert (await following).sequence == 2
            assert wake.is_set()
            await source.aclose()

    played(story)


@pytest.mark.parametrize("hint", ["", "nonsense", "-1 s", "99999999999999999999999 s", "7", "7 another"])
def test_a_hint_that_is_wrong_does_no_harm(postgres: PostgresTwin, hint: str) -> None:
    async def story() -> None:
        async with postgres.open() as store, postgres.open() as other:
            await store.open("s")
            woken = store.wake("s")
            postgres.execute("SELECT pg_notify('sideband', %s)", hint)
            await other.commit("s", a_start)
            await woken.wait()
            assert store.state("s").running

    played(story)


def test_a_process_that_is_interested_in_nothing_reads_nothing(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store, postgres.open() as other:
            for _ in range(3):
                await other.commit("s", a_start)
            await store.open("mine")
            woken = store.wake("mine")
            await other.commit("mine", a_start)
            await woken.wait()
            assert store.announced == 4
            source = store.subscribe(after=2)
            assert [entry.sequence for entry in await took(source, 2)] == [3, 4]
            await source.aclose()

    played(story)


# Cancelling and closing.


def test_a_caller_that_is_cancelled_during_a_statement_leaves_the_connection_usable(
    postgres: PostgresTwin,
) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            for _ in range(5):
                impatient = [
                    asyncio.ensure_future(question)
                    for question in (store.acquire("s", "me"), told(store), store.open("s"))
                ]
                for _ in range(3):
                    await asyncio.sleep(0)
                for task in impatient:
                    task.cancel()
                await asyncio.gather(*impatient, return_exceptions=True)
            await store.acquire("s", "me")
            await store.open("s")
            assert await told(store) == []

    played(story)


def test_a_store_whose_server_is_gone_can_be_closed(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with behind_a_proxy(postgres) as (store, proxy):
            await store.acquire("s", "me")
            proxy.is_down = True
            proxy.drop_all()

    played(story)
