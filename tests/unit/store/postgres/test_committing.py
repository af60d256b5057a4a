"""Commits that are made together and have nothing else to do with each other."""

import asyncio
from collections.abc import Iterable
from unittest.mock import patch

import psycopg
import pytest

from sideband.core.events import Event, Idled, Started
from sideband.core.failures import NotStorable
from sideband.core.state import SessionState
from sideband.ports import Committed
from sideband.store.postgres import committing
from sideband.store.postgres.reading import row_sum
from sideband.store.records import record
from tests.unit.store.twins import PostgresTwin, a_start, played, so_many, told

IDLED = record(Idled())
A_FEW_BYTES = 10 * len(record(Started()).body)


def kinds(outcomes: Iterable[object]) -> list[type]:
    return [type(outcome) for outcome in outcomes]


def test_a_commit_that_is_too_large_fails_alone(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await asyncio.gather(*(store.open(name) for name in "abc"))
            asked = [("a", a_start), ("b", so_many(11)), ("a", a_start), ("c", so_many(9))]
            outcomes = await asyncio.gather(*(store.commit(*each) for each in asked), return_exceptions=True)
            assert kinds(outcomes) == [Committed, NotStorable, Committed, Committed]
            assert "too large" in str(outcomes[1])
            assert [entry.session_id for entry in await told(store)] == ["a"] * 2 + ["c"] * 9
            assert (await store.commit("b", a_start)).sequence == 12

    with patch.object(committing, "MOST_BYTES", A_FEW_BYTES):
        played(story)


def test_many_that_are_too_large_only_together_are_all_made(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await store.open("s")
            committed = await asyncio.gather(*(store.commit("s", so_many(6)) for _ in range(4)))
            assert [done.sequence for done in committed] == [6, 12, 18, 24]

    with patch.object(committing, "MOST_BYTES", A_FEW_BYTES):
        played(story)


def test_what_the_server_cannot_hold_keeps_nobody_else_from_being_heard(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            await asyncio.gather(store.commit("a", a_start), store.commit("b", a_start))
            postgres.execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE program_limit_exceeded USING MESSAGE = 'far too much'; END $$"
            )
            postgres.execute(
                "CREATE TRIGGER refusing BEFORE INSERT ON sideband.journal FOR EACH ROW "
                "WHEN (NEW.session_id = 'b') EXECUTE FUNCTION refuse()"
            )
            outcomes = await asyncio.gather(
                *(store.commit(name, a_start) for name in ("a", "b", "c")), return_exceptions=True
            )
            assert kinds(outcomes) == [Committed, NotStorable, Committed]
            assert "far too much" in str(outcomes[1])

    try:
        played(story)
    finally:
        postgres.execute("DROP FUNCTION IF EXISTS refuse CASCADE")


@pytest.mark.parametrize("writes", [False, True], ids=["nothing-to-write", "something-to-write"])
def test_a_commit_stands_behind_everything_that_its_decision_has_seen(
    postgres: PostgresTwin,
    writes: bool,  # noqa: FBT001 - a row
) -> None:
    seen: list[bool] = []

    def decide(state: SessionState) -> Iterable[Event]:
        seen.append(state.running)
        return (Started(),) if writes else ()

    async def story() -> None:
        async with postgres.open() as store:
            await store.commit("s", a_start)
            async with await psycopg.AsyncConnection.connect(postgres.url) as other:
                await other.execute("SELECT FROM sideband.session FOR UPDATE")
                asked = asyncio.ensure_future(store.commit("s", decide))
                await asyncio.to_thread(postgres.is_waited_for)
                await other.execute("UPDATE sideband.counter SET last = 2")
                values = IDLED.word, row_sum("s", IDLED.body), IDLED.body
                await other.execute("INSERT INTO sideband.journal VALUES (2, 's', %s, %s, %s)", values)
            assert (await asked).sequence == 2 + writes

    played(story)
    assert seen == [False]


def test_what_is_prepared_outlives_the_first_commit_that_has_nothing_to_write(postgres: PostgresTwin) -> None:
    async def story() -> None:
        async with postgres.open() as store:
            # So often that the driver has prepared something by itself.
            for number in range(12):
                assert (await store.commit(f"s{number}", a_start)).sequence == number + 1
            await store.commit("s0", lambda _: ())
            assert (await store.commit("s0", a_start)).sequence == 13

    played(story)
