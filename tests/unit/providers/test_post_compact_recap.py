"""`post_compact_recap`: when it fires, and what it says."""

from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.core.reminder import MAX_TTL_TURNS
from sideband.providers.context import ProviderContext
from sideband.providers.post_compact_recap import PROVIDER
from tests.unit.providers.contexts import a_context, said, told


def a_compaction(archived: object = 12, summary: object = None, **config: object) -> ProviderContext:
    return a_context("post_compact", payload={"archived_messages": archived, "summary": summary}, config=config)


@pytest.mark.parametrize("archived", [0, -1, None, "12", True, 1.5])
def test_it_is_silent_when_nothing_was_archived(archived: object) -> None:
    assert told(PROVIDER, a_compaction(archived, "A summary.")) is None


def test_the_summary_is_trimmed_and_quoted() -> None:
    body = said(PROVIDER, a_compaction(12, "  We fixed the login.\nTests are green.  \n")).body
    assert body.startswith("A compaction took 12 messages")
    assert body.endswith("\n> We fixed the login.\n> Tests are green.")


@pytest.mark.parametrize("summary", [None, "", "  \n ", {"text": "x"}, ["x"]])
def test_without_a_summary_it_gives_the_count(summary: object) -> None:
    body = said(PROVIDER, a_compaction(1_200, summary)).body
    assert "1,200 messages" in body
    assert "gave no summary" in body
    assert ">" not in body


def test_a_single_message_is_counted_as_one() -> None:
    assert said(PROVIDER, a_compaction(1)).body == (
        "A compaction took 1 message out of this conversation; its exact words are no longer part of it. "
        "The compaction gave no summary of it."
    )


@pytest.mark.parametrize(
    ("configured", "ttl"),
    [
        pytest.param(10, 10, id="more-turns"),
        pytest.param(2.9, 2, id="a-part-of-a-turn-does-not-count"),
        pytest.param(1, 2, id="it-is-never-lowered"),
        pytest.param(-4, 2, id="not-even-below-zero"),
        pytest.param(None, 2, id="null-is-absent"),
        pytest.param(10**12, MAX_TTL_TURNS, id="no-more-than-a-reminder-may-have"),
    ],
)
def test_its_ttl_may_only_be_raised(configured: Any, ttl: int) -> None:  # noqa: ANN401 - a column of the table
    assert said(PROVIDER, a_compaction(ttl_turns=configured)).ttl_turns == ttl


def test_a_ttl_that_is_not_a_number_is_an_error() -> None:
    with pytest.raises(InvalidOption, match="ttl_turns must be a number"):
        PROVIDER.evaluate(a_compaction(ttl_turns="long"))


@pytest.mark.parametrize("summary", ["x" * 50_000, "\n.\n" * 20_000, "要約" * 9_000, "a\x00b\x1b[0m\u202e"])
def test_any_summary_makes_a_valid_reminder_of_which_each_line_is_quoted(summary: str) -> None:
    _, *quoted = said(PROVIDER, a_compaction(3, summary)).body.split("\n")
    assert quoted
    assert all(line.startswith(">") for line in quoted)
