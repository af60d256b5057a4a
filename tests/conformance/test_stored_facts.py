"""Facts in a store: durable, shared by its processes, and no session of their own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import sideband as sb
from sideband.core.errors import InvalidOption, TooManyFacts
from sideband.core.events import Recorded
from sideband.core.limits import Limits
from sideband.inspect.sessions import inspect_store, listed
from sideband.ports import FACTS_SESSION
from sideband.runtime.store import Store
from sideband.store.inspector import verify
from tests.programs import run_python
from tests.stored_agents import address
from tests.unit.store.twins import SqliteTwin, Twin, last_of, played, told, two_of

DECISION: Any = {"kind": "decision", "claim": "Ship on Fridays.", "confidence": 0.9}


@asynccontextmanager
async def stores(twin: Twin, *, facts: int = 10_000) -> AsyncIterator[tuple[Store, Store]]:
    """The stores of two processes."""
    async with two_of(twin) as (here, there):
        yield Store(here, limits=Limits(facts=facts)), Store(there, limits=Limits(facts=facts))


async def claims(store: Store, **options: Any) -> list[str]:  # noqa: ANN401 - options of recall
    return [recalled.fact.claim for recalled in await sb.recall_facts(store=store, **options)]


@pytest.mark.requirement("recall:store:survives-its-process")
def test_a_stored_fact_is_recalled_through_the_store_by_everyone(twin: Twin) -> None:
    evidence = [{"kind": "file_range", "ref": "ci.yml:3", "snippet": "on: friday"}]
    ends = {"event": {"release": 2}, "asserted_at": 5}

    async def story() -> None:
        async with stores(twin) as (here, there):
            stored = await sb.store_fact(
                store=here, **DECISION, evidence=evidence, provenance={"by": ["me"]}, valid_until=ends
            )
            assert [recalled.fact for recalled in await sb.recall_facts(store=there)] == [stored.fact]
            await sb.store_fact(store=there, kind="claim", claim="Tests are slow.", confidence=0.6)
            assert await claims(here, query="slow tests") == ["Tests are slow.", "Ship on Fridays."]
            assert await claims(here, kind_filter="decision") == ["Ship on Fridays."]
            assert await claims(here, namespace="team/facts") == []

    played(story)


@pytest.mark.requirement("recall:store:survives-its-process")
def test_the_next_process_recalls_a_fact(durable: Twin) -> None:
    program = (
        "import asyncio, sys\n"
        "import sideband as sb\n"
        "async def main():\n"
        "    async with sb.open_store(sys.argv[1]) as store:\n"
        "        for fact, _ in await sb.recall_facts(store=store):\n"
        "            print(fact.claim)\n"
        "        await sb.store_fact(store=store, kind='claim', claim='Tests are slow.', confidence=0.6)\n"
        "asyncio.run(main())\n"
    )

    async def story() -> None:
        async with durable.open() as journal:
            await sb.store_fact(store=Store(journal), **DECISION)
        answer = await asyncio.to_thread(run_python, "-c", program, address(durable))
        assert (answer.stdout, answer.stderr) == ("Ship on Fridays.\n", "")
        async with durable.open() as journal:
            assert {fact.claim for fact in await Store(journal).facts()} == {"Ship on Fridays.", "Tests are slow."}

    played(story)


@pytest.mark.requirement("recall:store:same-content-is-refreshed")
def test_the_same_content_again_refreshes_a_fact(twin: Twin) -> None:
    async def story() -> None:
        async with stores(twin) as (here, there):
            first = await sb.store_fact(store=here, **DECISION, asserted_at=1)
            again = await sb.store_fact(store=there, **{**DECISION, "confidence": 0.4}, asserted_at=2)
            assert (first.refreshed, again.refreshed) == (False, True)
            assert first.fact.id == again.fact.id
            assert await here.facts() == (again.fact,)

    played(story)


@pytest.mark.requirement("recall:store:processes-lose-nothing")
def test_processes_that_store_facts_at_once_lose_none(twin: Twin) -> None:
    def storing(store: Store, number: int) -> Any:  # noqa: ANN401 - a coroutine
        return sb.store_fact(store=store, kind="claim", claim=f"Fact {number}.", confidence=0.5)

    async def story() -> None:
        async with stores(twin, facts=30) as both:
            results = await asyncio.gather(
                *(storing(both[number % 2], number) for number in range(40)), return_exceptions=True
            )
            refused = [result for result in results if isinstance(result, TooManyFacts)]
            assert len(refused) == 10
            assert {fact.id for fact in await both[0].facts()} == {
                result.fact.id for result in results if not isinstance(result, BaseException)
            }

    played(story)


@pytest.mark.requirement("recall:store:one-fact-is-one-record")
def test_storing_one_more_fact_writes_nothing_else(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as journal:
            store = Store(journal)
            for number in range(20):
                await sb.store_fact(store=store, kind="claim", claim=f"Fact {number}.", confidence=0.5, asserted_at=1)
            before = await last_of(journal)
            stored = await sb.store_fact(store=store, **DECISION, asserted_at=1)
            await sb.store_fact(store=store, **DECISION, asserted_at=1)
            (logged,) = await told(journal, after=before)
            assert isinstance(logged.event, Recorded)
            assert logged.event.value["fact"]["claim"] == stored.fact.claim
            assert (logged.session_id, await journal.entry(FACTS_SESSION)) == (FACTS_SESSION, None)

    played(story)


@pytest.mark.requirement("recall:store:bounded")
def test_what_exceeds_a_limit_of_facts_is_refused(twin: Twin) -> None:
    async def story() -> None:
        async with stores(twin, facts=1) as (here, _):
            await sb.store_fact(store=here, **DECISION)
            await sb.store_fact(store=here, **DECISION)
            with pytest.raises(TooManyFacts, match=r"the store has 1 facts, .* Store\.forget_fact"):
                await sb.store_fact(store=here, **{**DECISION, "kind": "claim"})
            with pytest.raises(sb.FactError, match=r"HARN-FACT-001: fact has .* bytes as JSON, the limit"):
                await sb.store_fact(store=here, **{**DECISION, "claim": "x" * 16_384})
            with pytest.raises(sb.FactError, match=r"HARN-FACT-008: namespace has 201 bytes, the limit is 200"):
                await sb.store_fact(store=here, **DECISION, namespace="n" * 201)
            assert len(await here.facts()) == 1

    played(story)


@pytest.mark.requirement("recall:store:listed-and-forgotten")
def test_facts_are_listed_and_forgotten(twin: Twin) -> None:
    async def story() -> None:
        async with stores(twin) as (here, there):
            fact = (await sb.store_fact(store=here, **DECISION)).fact
            for namespace in ("team/facts", "user/facts"):
                await sb.store_fact(store=here, **DECISION, namespace=namespace, asserted_at=fact.asserted_at)
            assert await there.facts() == (fact, fact, fact)
            assert await there.facts("team/facts") == (fact,)
            assert set((await there.fact_book()).namespaces) == {"project/facts", "team/facts", "user/facts"}
            assert await there.forget_fact(fact.id, namespace=" team/facts ")
            assert await here.facts("team/facts") == ()
            assert not await here.forget_fact(fact.id, namespace="team/facts")
            assert await here.forget_fact(fact.id)
            assert (await there.facts(), await claims(there)) == ((), [])
            assert not await there.forget_fact("fact_0")

    played(story)


@pytest.mark.requirement("recall:store:reserved-session")
def test_the_session_of_the_facts_is_no_session(twin: Twin) -> None:
    async def story() -> None:
        async with stores(twin) as (here, _):
            await sb.store_fact(store=here, **DECISION)
            assert (await here.sessions()).sessions == ()
            assert await here.find(FACTS_SESSION) is None
            for refused in (here.session, here.begin, here.delete):
                with pytest.raises(InvalidOption, match=r"'sideband:facts' is reserved for the facts of the store"):
                    await refused(FACTS_SESSION)
            assert len(await here.facts()) == 1

    played(story)


@pytest.mark.requirement("recall:store:reserved-session")
def test_commands_do_not_list_the_session_of_the_facts(sqlite: SqliteTwin) -> None:
    async def story() -> None:
        async with sqlite.open() as journal:
            await sb.store_fact(store=Store(journal), **DECISION)

    played(story)
    with inspect_store(address(sqlite)) as store:
        assert listed(store) == []
        (stored,) = store.sessions()
        assert verify(store, stored).faults == ()
