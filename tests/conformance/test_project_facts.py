"""The provider that recalls what was stored about a project: which facts, of where, and when."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

import sideband as sb
from sideband.core.errors import StoreUnavailable
from sideband.core.reminder import Reminder
from sideband.ports import FACTS_SESSION
from sideband.runtime.store import Store
from tests.agents import AnAgent, awaited
from tests.conformance.provoked import a_book, a_fact, reminders_of, with_facts
from tests.loop_builders import a_reply
from tests.stored_agents import address
from tests.unit.store.twins import SqliteTwin, Twin, played

ID: Final = "project_facts"


def claims(reminders: list[Reminder]) -> list[str]:
    """What was told, without what is told about it."""
    lines = [line for reminder in reminders for line in reminder.body.split("\n") if line.startswith("> ")]
    return [line.partition("] ")[2].partition(" (evidence")[0] for line in lines]


@pytest.mark.requirement("providers:project_facts:namespace")
@awaited
async def test_project_facts_reads_its_own_namespace_unless_told_otherwise() -> None:
    assert claims(await with_facts(a_book(a_fact()))) == ["Ship on Fridays."]
    elsewhere = a_book(a_fact(), namespace="team/facts")
    assert await with_facts(elsewhere) == []
    assert claims(await with_facts(elsewhere, namespace="team/facts")) == ["Ship on Fridays."]


@pytest.mark.requirement("providers:project_facts:namespace-beats-scope")
@pytest.mark.parametrize(
    ("config", "namespace"),
    [
        ({"scope": "workspace"}, "workspace/facts"),
        ({"scope": "user"}, "user/facts"),
        ({"scope": "user", "namespace": "team/facts"}, "team/facts"),
    ],
)
@awaited
async def test_in_project_facts_a_namespace_beats_a_scope(config: dict[str, Any], namespace: str) -> None:
    assert claims(await with_facts(a_book(a_fact(), namespace=namespace), **config)) == ["Ship on Fridays."]


@pytest.mark.requirement("providers:project_facts:refresh-ratio")
@pytest.mark.parametrize(
    ("tokens", "config", "times"),
    [
        pytest.param(69, {}, 1, id="below-the-default"),
        pytest.param(70, {}, 2, id="at-the-default"),
        pytest.param(84, {"refresh_ratio": 0.85}, 1, id="below-the-configured"),
        pytest.param(85, {"refresh_ratio": 0.85}, 2, id="at-the-configured"),
    ],
)
@awaited
async def test_project_facts_are_told_at_the_start_and_again_from_the_ratio_on(
    tokens: int, config: dict[str, Any], times: int
) -> None:
    assert len(await with_facts(a_book(a_fact()), tokens=tokens, **config)) == times


@pytest.mark.requirement("providers:project_facts:silent-without-facts")
@pytest.mark.parametrize("book", [sb.FactBook(), a_book(a_fact(confidence=0.1))], ids=["empty", "none-passes"])
@awaited
async def test_project_facts_is_silent_where_no_fact_passes(book: sb.FactBook) -> None:
    assert await with_facts(book) == []


@pytest.mark.requirement("providers:project_facts:max-facts")
@pytest.mark.parametrize(
    ("config", "count"),
    [
        ({}, 5),
        ({"max_facts": 8}, 8),
        ({"limit": 3}, 3),
        ({"max_facts": 99}, 25),
        ({"max_facts": 0}, 0),
        ({"limit": -1}, 0),
    ],
)
@awaited
async def test_project_facts_shows_so_many(config: dict[str, Any], count: int) -> None:
    book = a_book(*(a_fact(f"Fact {number}.") for number in range(30)))
    assert len(claims(await with_facts(book, **config))) == count


@pytest.mark.requirement("providers:project_facts:min-confidence")
@pytest.mark.parametrize(("config", "shown"), [({}, ["0.5", "0.9"]), ({"min_confidence": 0.6}, ["0.9"])])
@awaited
async def test_project_facts_shows_facts_from_a_confidence_on(config: dict[str, Any], shown: list[str]) -> None:
    book = a_book(*(a_fact(str(confidence), confidence=confidence) for confidence in (0.49, 0.5, 0.9)))
    assert sorted(claims(await with_facts(book, **config))) == shown


@pytest.mark.requirement("providers:project_facts:kind-filter")
@pytest.mark.parametrize(
    ("kinds", "shown"),
    [(None, ["constraint", "decision", "hypothesis"]), (["Decision", "constraint"], ["constraint", "decision"])],
    ids=["every-kind", "some"],
)
@awaited
async def test_project_facts_shows_the_kinds_that_are_wanted(kinds: list[str] | None, shown: list[str]) -> None:
    book = a_book(*(a_fact(kind, kind=kind) for kind in ("decision", "constraint", "hypothesis")))
    assert sorted(claims(await with_facts(book, kind_filter=kinds))) == shown


@pytest.mark.requirement("providers:project_facts:query")
@pytest.mark.parametrize(
    ("config", "first"),
    [({}, "The login uses tokens."), ({"relevance_query": "cache"}, "The cache is cold.")],
    ids=["the-task", "the-query"],
)
@awaited
async def test_project_facts_searches_for_the_query_or_else_the_task(config: dict[str, Any], first: str) -> None:
    book = a_book(a_fact("The login uses tokens."), a_fact("The cache is cold."), a_fact())
    assert claims(await with_facts(book, task="Mend the login.", **config))[0] == first


# The facts of a store.


@pytest.mark.requirement("providers:project_facts:from-the-store")
@awaited
async def test_project_facts_recalls_what_the_store_has_at_that_moment() -> None:
    agent = AnAgent(a_reply("work", tokens=10), a_reply(text="Done.", tokens=90), context_window=100)
    store = Store(agent.recorded)
    await sb.store_fact(store=store, **a_fact("The login uses tokens."))

    async def learn(_context: object) -> None:
        await sb.store_fact(store=store, **a_fact("The cache is cold."))

    agent.hooks.register_session_hook("post_step", learn)
    result = await agent.play("Mend the login.", reminders=True)
    told = [claims([reminder]) for reminder in reminders_of(agent, ID)]
    assert told == [["The login uses tokens."], ["The login uses tokens.", "The cache is cold."]]
    assert agent.requests_with("The login uses tokens.") == [1]
    assert result.problems == ()


@pytest.mark.requirement("providers:project_facts:from-the-store")
def test_a_session_of_the_next_process_is_told_the_facts(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as journal:
            await sb.store_fact(store=Store(journal), **a_fact())
        async with durable.open() as journal:
            agent = AnAgent()
            session = await Store(journal).session("later")
            await sb.agent_loop("Mend the build.", session=session, model=agent.model)
            assert agent.requests_with("Ship on Fridays.") == [1]

    played(story)


@pytest.mark.requirement("providers:project_facts:book-wins")
@awaited
async def test_a_book_that_is_passed_is_recalled_instead_of_the_store() -> None:
    agent = AnAgent()
    await sb.store_fact(store=Store(agent.recorded), **a_fact("The login uses tokens."))
    await agent.play(facts=a_book(a_fact()), reminders=True)
    assert claims(reminders_of(agent, ID)) == ["Ship on Fridays."]


@pytest.mark.requirement("providers:project_facts:root")
@pytest.mark.parametrize("written", ["url", "path", "home", "url-home"])
def test_root_names_the_store_of_the_facts(sqlite: SqliteTwin, written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(sqlite.path.parent))
    home = f"~/{sqlite.path.name}"
    root = {"url": address(sqlite), "path": str(sqlite.path), "home": home, "url-home": f"sqlite:///{home}"}[written]

    async def story() -> None:
        async with sqlite.open() as journal:
            await sb.store_fact(store=Store(journal), **a_fact())
        agent = AnAgent()
        await sb.store_fact(store=Store(agent.recorded), **a_fact("The login uses tokens."))
        await agent.play(reminders={"config": {ID: {"root": root}}})
        assert claims(reminders_of(agent, ID)) == ["Ship on Fridays."]

    played(story)


@pytest.mark.requirement("providers:project_facts:root")
@pytest.mark.parametrize(
    ("root", "message"),
    [
        pytest.param("missing.db", "root names the store file {}/missing.db, which does not exist; cor", id="missing"),
        pytest.param("~nobody-here/a.db", "{}/~nobody-here/a.db, which does not exist; cor", id="of-an-unknown-user"),
        pytest.param("~", "root names the store file {}, which is not a file; correct the path, store", id="a-folder"),
        pytest.param("notes.txt", "{}/notes.txt is damaged (file is not a database)", id="another-file"),
        pytest.param("memory:", "root must name a store file or a database", id="memory"),
        pytest.param("mysql://host/name", "is not the URL of a store", id="another-database"),
    ],
)
def test_a_root_that_cannot_be_opened_is_a_reported_problem(
    tmp_path: Path, root: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("No store." * 1_000, encoding="utf-8")
    before = sorted(tmp_path.iterdir())

    async def story() -> None:
        agent = AnAgent()
        result = await agent.play(reminders={"config": {ID: {"root": root}}})
        ((where, said, times),) = result.problems
        assert (where, times) == ("provider project_facts on session_start", 1)
        assert said.startswith("the facts cannot be read: ")
        assert message.format(tmp_path) in said
        assert agent.model.requests

    played(story)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.requirement("providers:failure:is-isolated")
@pytest.mark.parametrize("fails", [True, False], ids=["raises", "hangs"])
@awaited
async def test_facts_that_cannot_be_read_stop_nothing(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    agent = AnAgent()
    reads = agent.recorded.read

    async def read(session_id: str, look: Any) -> Any:  # noqa: ANN401 - as the store
        if session_id != FACTS_SESSION:
            return await reads(session_id, look)
        if fails:
            raise StoreUnavailable("the disk is full")
        return await asyncio.Event().wait()

    monkeypatch.setattr(agent.recorded, "read", read)
    result = await agent.play(reminders=True)
    expected = "the facts cannot be read: the disk is full" if fails else "reading the facts took longer than 5 s"
    assert [problem.message for problem in result.problems] == [expected]
    assert result.status is sb.LoopStatus.COMPLETED
