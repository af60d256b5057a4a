"""Rules for the texts of every built-in provider."""

import re
from typing import Final

import pytest

from sideband.lint.literals import Position, Scalar, TableEntry
from sideband.lint.rules import body_problems
from sideband.providers.context import MountedRoot, MountMode, Provider, WorkspaceAnchor
from sideband.providers.registry import CANONICAL
from sideband.recall.facts import FactBook, store_fact
from tests.unit.providers.contexts import a_context, said

FACTS: Final = store_fact(
    FactBook(), {"kind": "decision", "claim": "Ship on Fridays.", "confidence": 0.9}, asserted_at=0
).book
ANCHOR: Final = WorkspaceAnchor(primary="/repo", roots=(MountedRoot(path="/lib", mode=MountMode.READ_ONLY),))
ORIGINS: Final = {
    "token_pressure": "A prompt of this conversation took",
    "idle_nudge": "going by its wake interval",
    "tool_output_truncated": "The output of `tool`",
    "post_compact_recap": "The summary that the compaction made of them",
    "resume_continuity": "Reason given for the suspension",
    "project_facts": "Facts recalled from `project/facts`",
    "workspace_anchor": "as its host set it",
    "grounded_review": r"reported at post_\w+\. The quoted lines are what was reported",
}
EVERYTHING: Final = {
    "prompt_tokens": 99,
    "context_window": 100,
    "wake_interval_ms": 60_000,
    "truncated": True,
    "archived_messages": 3,
    "summary": "We fixed the login.",
    "error": "gone",
    "reason": "waiting",
    "input": "go on",
    "digest": "so far",
    "continue_transcript": False,
}


def bodies(provider: Provider) -> list[str]:
    """What the provider says to an event of each kind that gives it every reason to speak."""
    contexts = (a_context(event, payload=EVERYTHING, facts=FACTS, anchor=ANCHOR) for event in provider.subscribes_to)
    return [said(provider, ctx).body for ctx in contexts]


@pytest.mark.parametrize("provider", CANONICAL, ids=lambda provider: provider.id)
def test_no_built_in_text_asks_for_secrecy_brings_a_frame_or_is_never_the_same_twice(provider: Provider) -> None:
    at = Position(line=1, column=1)
    for body in bodies(provider):
        assert list(body_problems(TableEntry(key="body", value=Scalar(value=body, at=at), at=at))) == []


@pytest.mark.parametrize("provider", CANONICAL, ids=lambda provider: provider.id)
def test_every_built_in_text_says_where_it_comes_from(provider: Provider) -> None:
    assert all(re.search(ORIGINS[provider.id], body) for body in bodies(provider))


@pytest.mark.parametrize("provider", CANONICAL, ids=lambda provider: provider.id)
def test_the_same_event_gives_the_same_words(provider: Provider) -> None:
    assert bodies(provider) == bodies(provider)
