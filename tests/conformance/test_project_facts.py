"""The provider that recalls what was stored about a project: which facts, of where, and when."""

from typing import Any

import pytest

import sideband as sb
from sideband.core.reminder import Reminder
from tests.agents import awaited
from tests.conformance.provoked import a_book, a_fact, with_facts


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
