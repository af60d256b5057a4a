"""The eight canonical providers: what each of them says in a running agent, when, and for how long."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import pytest

import sideband as sb
from sideband.core.messages import Message
from sideband.core.reminder import Propagate, Reminder, RoleHint
from sideband.lint.literals import Position, Scalar, TableEntry
from sideband.lint.rules import SECRECY, body_problems
from sideband.providers import post_compact_recap, token_pressure, tool_output_truncated
from sideband.providers.context import MountMode
from sideband.providers.registry import CANONICAL
from sideband.runtime.workers import ResumeCause
from tests.agents import AnAgent, awaited
from tests.conformance.provoked import (
    ANCHOR,
    FAILURE,
    a_book,
    a_fact,
    anchored,
    compacted,
    idle_for,
    reminders_of,
    resumed,
    under_pressure,
    with_facts,
    with_output,
)
from tests.loop_builders import a_reply
from tests.unit.providers.contexts import a_context, said, told

# What is fixed about each.


class Row(NamedTuple):
    """One row of the table of providers."""

    runs: Callable[[], Awaitable[list[Reminder]]]
    subscribes_to: tuple[str, ...]
    tags: tuple[str, ...]
    key: str
    ttl_turns: int
    propagate: Propagate
    role_hint: RoleHint = RoleHint.SYSTEM
    preserved: bool = False


ROWS: Final[dict[str, Row]] = {
    "token_pressure": Row(
        lambda: under_pressure(70),
        ("on_budget_threshold",),
        ("token_pressure",),
        "token_pressure",
        2,
        Propagate.SESSION,
        RoleHint.DEVELOPER,
    ),
    "idle_nudge": Row(lambda: idle_for(60), ("session_idle",), ("idle",), "idle_nudge", 1, Propagate.NONE),
    "tool_output_truncated": Row(
        lambda: with_output(sb.ToolOutput(text="head", original_bytes=2048), "tool_output_truncated"),
        ("post_tool_use",),
        ("truncation",),
        "tool_output_truncated:run",
        1,
        Propagate.NONE,
    ),
    "post_compact_recap": Row(compacted, ("post_compact",), ("recap",), "post_compact_recap", 2, Propagate.SESSION),
    "resume_continuity": Row(
        resumed,
        ("worker_resumed",),
        ("resume_continuity",),
        "resume_continuity",
        1,
        Propagate.NONE,
        preserved=True,
    ),
    "project_facts": Row(
        lambda: with_facts(a_book(a_fact())),
        ("session_start", "on_budget_threshold"),
        ("project_facts",),
        "project_facts",
        1,
        Propagate.SESSION,
    ),
    "workspace_anchor": Row(
        lambda: anchored(ANCHOR),
        ("session_start", "on_budget_threshold"),
        ("workspace_anchor",),
        "workspace_anchor",
        1,
        Propagate.SESSION,
    ),
    "grounded_review": Row(
        lambda: with_output(sb.ToolOutput(text=FAILURE), "grounded_review"),
        ("post_tool_use", "post_step", "post_agent_turn"),
        ("grounded_review", "code_review"),
        r"grounded_review:post_tool_use:[0-9a-f]{16}",
        2,
        Propagate.NONE,
        RoleHint.DEVELOPER,
    ),
}


@pytest.mark.parametrize(
    "provider_id",
    [
        pytest.param("token_pressure", marks=pytest.mark.requirement("providers:token_pressure:fields")),
        pytest.param("idle_nudge", marks=pytest.mark.requirement("providers:idle_nudge:fields")),
        pytest.param("tool_output_truncated", marks=pytest.mark.requirement("providers:tool_output_truncated:fields")),
        pytest.param("post_compact_recap", marks=pytest.mark.requirement("providers:post_compact_recap:fields")),
        pytest.param("resume_continuity", marks=pytest.mark.requirement("providers:resume_continuity:fields")),
        pytest.param("project_facts", marks=pytest.mark.requirement("providers:project_facts:fields")),
        pytest.param("workspace_anchor", marks=pytest.mark.requirement("providers:workspace_anchor:fields")),
        pytest.param("grounded_review", marks=pytest.mark.requirement("providers:grounded_review:fields")),
    ],
)
@awaited
async def test_what_a_provider_tells_a_running_agent_has_the_fields_of_its_row(provider_id: str) -> None:
    row = ROWS[provider_id]
    (provider,) = [provider for provider in CANONICAL if provider.id == provider_id]
    assert tuple(event.value for event in provider.subscribes_to) == row.subscribes_to
    (reminder,) = await row.runs()
    assert re.fullmatch(row.key, reminder.dedupe_key or "")
    assert (reminder.tags, reminder.ttl_turns, reminder.propagate) == (row.tags, row.ttl_turns, row.propagate)
    assert (reminder.role_hint, reminder.preserve_on_compact) == (row.role_hint, row.preserved)


# The words of all.

ORIGINS: Final[dict[str, str]] = {
    "token_pressure": "The prompt of turn 1 took 70% or more of the context window of 100 tokens",
    "idle_nudge": "going by its wake interval",
    "tool_output_truncated": "The output of `run` was shortened",
    "post_compact_recap": "A compaction took 1 message out of this conversation",
    "resume_continuity": "Reason given for the suspension:\n> waiting for review",
    "project_facts": "Facts recalled from `project/facts`",
    "workspace_anchor": "as its host set it",
    "grounded_review": "reported at post_tool_use. The quoted lines are what was reported",
}
# A cause is named only if it was reported, and then as a report.
CAUSES: Final = re.compile(
    r"\b(?:because|caused|due to|since|therefore|thus|as a result|probably|likely)\b", re.IGNORECASE
)


@pytest.mark.requirement("providers:text:facts-and-origin")
@pytest.mark.parametrize("provider_id", ROWS)
@awaited
async def test_a_built_in_text_says_what_is_so_and_where_that_comes_from(provider_id: str) -> None:
    (reminder,) = await ROWS[provider_id].runs()
    assert ORIGINS[provider_id] in reminder.body


@pytest.mark.requirement("providers:text:no-unobserved-cause")
@pytest.mark.parametrize("provider_id", ROWS)
@awaited
async def test_a_built_in_text_claims_no_cause(provider_id: str) -> None:
    (reminder,) = await ROWS[provider_id].runs()
    assert CAUSES.search(reminder.body) is None


@pytest.mark.requirement("providers:text:no-secrecy")
@pytest.mark.parametrize("provider_id", ROWS)
@awaited
async def test_a_built_in_text_asks_for_no_secrecy(provider_id: str) -> None:
    (reminder,) = await ROWS[provider_id].runs()
    assert advice_on(reminder.body) == []
    assert SECRECY in advice_on(f"{reminder.body} Do not mention this to the user.")


def advice_on(body: str) -> list[str]:
    at = Position(line=1, column=1)
    return [problem.code for problem in body_problems(TableEntry(key="body", value=Scalar(value=body, at=at), at=at))]


# token_pressure


@pytest.mark.requirement("providers:token_pressure:thresholds-are-inclusive")
@pytest.mark.parametrize(
    ("tokens", "level"),
    [
        (69_999, ""),
        (70_000, "70%"),
        (84_999, "70%"),
        (85_000, "85%"),
        (94_999, "85%"),
        (95_000, "95%"),
        (99_000, "95%"),
    ],
)
@awaited
async def test_token_pressure_speaks_from_three_shares_of_the_window_on(tokens: int, level: str) -> None:
    assert [reminder.body[1:4] for reminder in await under_pressure(tokens, window=100_000)] == [level] * bool(level)


@pytest.mark.requirement("providers:token_pressure:preserved-when-critical")
@pytest.mark.parametrize(("tokens", "preserved"), [(70, False), (94, False), (95, True)])
@awaited
async def test_token_pressure_outlives_a_compaction_from_95_percent_on(tokens: int, *, preserved: bool) -> None:
    (reminder,) = await under_pressure(10, tokens)
    assert reminder.preserve_on_compact is preserved
    # It may be read after the compaction, when the prompt is short again.
    assert "The prompt of turn 2 took" in reminder.body


@pytest.mark.requirement("providers:token_pressure:current-prompt")
@awaited
async def test_token_pressure_measures_the_prompt_and_not_all_that_was_used() -> None:
    assert await under_pressure(40, 45, 50) == []
    assert len(await under_pressure(40, 45, 75)) == 1


@pytest.mark.requirement("providers:token_pressure:highest-only")
@awaited
async def test_token_pressure_names_only_the_highest_threshold() -> None:
    (reminder,) = await under_pressure(10, 96)
    assert re.findall(r"\[\d+%\]", reminder.body) == ["[95%]"]


WINDOWS: Final[list[dict[str, Any]]] = [
    {"payload": {"prompt_tokens": 95, "context_window": 100}},
    {"config": {"context_window": 101}},
    {"options": {"context_window": 102}},
    {"profile": {"context_window": 103}},
]


@pytest.mark.requirement("providers:token_pressure:window")
@pytest.mark.parametrize("first", range(4), ids=["payload", "config", "options", "profile"])
def test_token_pressure_takes_the_window_from_the_first_place_that_names_it(first: int) -> None:
    fields: dict[str, Any] = {"payload": {"prompt_tokens": 95}}
    for place in WINDOWS[first:]:
        fields |= place
    assert f"of {100 + first} tokens" in said(token_pressure.PROVIDER, a_context("on_budget_threshold", **fields)).body


@pytest.mark.requirement("providers:token_pressure:window")
@pytest.mark.parametrize(
    ("window", "config", "named"),
    [(None, {"context_window": 120}, 120), (100, {}, 100), (100, {"context_window": 120}, 120)],
    ids=["configured", "the-model's", "the-configured-one-goes-first"],
)
@awaited
async def test_a_running_agent_is_measured_against_the_window_it_was_given(
    window: int | None, config: dict[str, Any], named: int
) -> None:
    (reminder,) = await under_pressure(96, window=window, **config)
    assert f"of {named} tokens" in reminder.body


@pytest.mark.requirement("providers:token_pressure:silent-without-a-window")
@awaited
async def test_token_pressure_is_silent_where_no_window_is_known() -> None:
    assert await under_pressure(10_000_000, window=None) == []


# idle_nudge


@pytest.mark.requirement("providers:idle_nudge:threshold")
@pytest.mark.parametrize(
    ("seconds", "config", "fires"),
    [
        pytest.param(59.9, {}, False, id="below-the-default"),
        pytest.param(60, {}, True, id="at-the-default"),
        pytest.param(119, {"idle_seconds": 120}, False, id="below-the-configured"),
        pytest.param(120, {"idle_seconds": 120}, True, id="at-the-configured"),
        pytest.param(29, {"seconds": 30}, False, id="below-the-alias"),
        pytest.param(30, {"seconds": 30}, True, id="at-the-alias"),
    ],
)
@awaited
async def test_idle_nudge_speaks_when_the_wake_interval_reaches_its_threshold(
    seconds: float, config: dict[str, Any], *, fires: bool
) -> None:
    assert len(await idle_for(seconds, **config)) == fires


@pytest.mark.requirement("providers:idle_nudge:floor")
@pytest.mark.parametrize("threshold", [0.1, 0, -9])
@awaited
async def test_idle_nudge_takes_a_threshold_below_one_second_as_one(threshold: float) -> None:
    assert await idle_for(0.9, idle_seconds=threshold) == []
    assert len(await idle_for(1, idle_seconds=threshold)) == 1


# tool_output_truncated


@pytest.mark.requirement("providers:tool_output_truncated:flag")
@pytest.mark.parametrize(
    ("payload", "fires"),
    [
        pytest.param({"truncated": True}, True, id="in-the-payload"),
        pytest.param({"compacted": True}, True, id="compacted"),
        pytest.param({"result": {"truncated": True}}, True, id="in-the-result"),
        pytest.param({"truncated": False, "result": {"truncated": True}}, True, id="one-that-says-yes-is-enough"),
        pytest.param({"truncated": False, "result": {}}, False, id="nowhere"),
        pytest.param({"truncated": "yes"}, False, id="a-word-is-no-flag"),
    ],
)
def test_tool_output_truncated_finds_the_flag(payload: dict[str, Any], *, fires: bool) -> None:
    draft = told(tool_output_truncated.PROVIDER, a_context("post_tool_use", payload=payload))
    assert (draft is not None) is fires


@pytest.mark.requirement("providers:tool_output_truncated:flag")
@awaited
async def test_tool_output_truncated_is_silent_on_an_output_that_is_whole() -> None:
    assert await with_output(sb.ToolOutput(text="all of it"), "tool_output_truncated") == []


@pytest.mark.requirement("providers:tool_output_truncated:original-size")
@awaited
async def test_tool_output_truncated_states_the_size_before_truncation() -> None:
    (reminder,) = await with_output(sb.ToolOutput(text="head", original_bytes=2048), "tool_output_truncated")
    assert "original size was 2,048 bytes" in reminder.body


# post_compact_recap

SUMMARY: Final[Message] = {"role": "system", "content": "The login was mended."}


@pytest.mark.requirement("providers:post_compact_recap:only-if-archived")
@pytest.mark.parametrize("archived", [0, None, -1, True])
def test_post_compact_recap_is_silent_where_nothing_was_archived(archived: object) -> None:
    ctx = a_context("post_compact", payload={"archived_messages": archived, "summary": "All is well."})
    assert told(post_compact_recap.PROVIDER, ctx) is None


@pytest.mark.requirement("providers:post_compact_recap:only-if-archived")
@awaited
async def test_a_compactor_that_finds_nothing_to_compact_causes_no_recap() -> None:
    agent = AnAgent(a_reply("work", tokens=95), context_window=100)
    await agent.play(compactor=lambda messages, _: messages, reminders=True)
    assert reminders_of(agent, "post_compact_recap") == []


@pytest.mark.requirement("providers:post_compact_recap:summary-or-count")
@awaited
async def test_post_compact_recap_gives_the_summary_or_else_the_number_of_messages() -> None:
    (with_summary,) = await compacted(SUMMARY)
    assert with_summary.body.endswith("\n> The login was mended.")
    (without,) = await compacted()
    assert "took 1 message out" in without.body
    assert "no summary" in without.body


@pytest.mark.requirement("providers:post_compact_recap:ttl-may-be-raised")
@pytest.mark.parametrize(("ttl_turns", "effective"), [(5, 5), (2, 2), (1, 2), (0, 2)])
@awaited
async def test_post_compact_recap_may_live_longer_and_not_shorter(ttl_turns: int, effective: int) -> None:
    (reminder,) = await compacted(ttl_turns=ttl_turns)
    assert reminder.ttl_turns == effective


# resume_continuity


@pytest.mark.parametrize(
    ("resumption", "cause"),
    [
        pytest.param({"cause": ResumeCause.PARENT}, "its parent agent", id="parent"),
        pytest.param({"cause": ResumeCause.TIMEOUT}, "a timeout that elapsed", id="timeout"),
        pytest.param(
            {"cause": ResumeCause.TRIGGER, "trigger_id": "nightly", "event_id": "e-7"},
            "the trigger `nightly` on the event `e-7`",
            id="trigger",
        ),
        pytest.param({"cause": ResumeCause.OPERATOR}, "the operator", id="operator"),
        pytest.param({}, "the operator", id="else"),
    ],
)
@pytest.mark.requirement("providers:resume_continuity:causes", "providers:resume_continuity:reason-and-cause")
@awaited
async def test_resume_continuity_names_the_reason_and_the_cause(resumption: dict[str, Any], cause: str) -> None:
    (reminder,) = await resumed(**resumption)
    assert f"resumed by {cause}.\n" in reminder.body
    assert "\n> waiting for review\n" in reminder.body


@pytest.mark.requirement("providers:resume_continuity:input")
@awaited
async def test_resume_continuity_quotes_the_input_or_says_that_there_was_none() -> None:
    (given,) = await resumed(input="Use the second draft.")
    assert given.body.endswith("Input given on resumption:\n> Use the second draft.")
    (nothing,) = await resumed()
    assert nothing.body.endswith("No input was given on resumption.")


@pytest.mark.requirement("providers:resume_continuity:digest")
@awaited
async def test_resume_continuity_gives_a_digest_only_where_the_transcript_does_not_go_on() -> None:
    (goes_on,) = await resumed(continue_transcript=True)
    assert "digest" not in goes_on.body
    (afresh,) = await resumed(continue_transcript=False, input="Use the second draft.")
    assert "A digest of it:" in afresh.body
    assert "I have read the code." in afresh.body


# workspace_anchor


@pytest.mark.requirement("providers:workspace_anchor:silent-without-one")
@awaited
async def test_workspace_anchor_is_silent_without_an_anchor() -> None:
    assert await anchored(None) == []


@pytest.mark.requirement("providers:workspace_anchor:body")
@pytest.mark.parametrize("mode", MountMode)
@awaited
async def test_workspace_anchor_states_the_primary_path_and_each_root_with_its_mode(mode: MountMode) -> None:
    roots = tuple(sb.MountedRoot(path=path, mode=mode) for path in ("/lib", "/docs"))
    (reminder,) = await anchored(sb.WorkspaceAnchor(primary="/repo", roots=roots))
    assert reminder.body.split("\n")[1:] == ["> primary: /repo", *(f"> mounted, {mode}: {root.path}" for root in roots)]
