"""Hooks in a running agent: when they are asked, what becomes of their answers, and what their failures stop."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pytest

import sideband as sb
from sideband.core.events import Injected
from sideband.core.hookevents import SessionEvent
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import ToolCall
from sideband.core.reminder import Source
from sideband.core.seams import Seam
from sideband.loop.conversation import Conversation
from sideband.loop.hooks import WHEN
from sideband.loop.run import LoopStatus
from sideband.models.scripted import Line
from sideband.ports import FileChange, ModelError
from sideband.runtime.registries import HOOKS
from sideband.testing import CountingIds
from tests.agents import AnAgent, awaited
from tests.loop_builders import ATool, a_call, a_reply

BODY: Final = "The build is red."


# Registering.


@pytest.fixture(autouse=True)
def _hooks_of_this_test() -> Iterator[None]:
    yield
    sb.clear_hooks()


@pytest.mark.requirement("hooks:register:tool")
@awaited
async def test_a_tool_hook_is_asked_before_and_after_the_calls_of_tools_that_match() -> None:
    asked: list[tuple[str, str]] = []
    sb.register_tool_hook(
        "read_*",
        pre=lambda ctx: asked.append(("pre", ctx.tool_name)),
        post=lambda ctx: asked.append(("post", ctx.tool_name)),
    )

    def a_noting_tool(name: str) -> ATool:
        def work(*_: object) -> str:
            asked.append(("call", name))
            return "done"

        return ATool(name, work)

    tools = [a_noting_tool("read_file"), a_noting_tool("write_file")]
    agent = AnAgent(a_reply("read_file"), a_reply("write_file"), tools=tools)
    await agent.play(hooks=HOOKS)
    assert asked == [("pre", "read_file"), ("call", "read_file"), ("post", "read_file"), ("call", "write_file")]


@pytest.mark.requirement("hooks:register:step")
@awaited
async def test_a_step_hook_is_asked_around_every_iteration() -> None:
    agent = AnAgent(a_reply("work"))
    asked: list[tuple[str, int]] = []
    sb.register_step_hook(
        pre=lambda ctx: asked.append((ctx.event, len(agent.model.requests))),
        post=lambda ctx: asked.append((ctx.event, len(agent.model.requests))),
    )
    await agent.play(hooks=HOOKS)
    assert asked == [("pre_step", 0), ("post_step", 1), ("pre_step", 1), ("post_step", 2)]


@pytest.mark.requirement("hooks:register:persona")
@pytest.mark.parametrize(
    ("pattern", "events"), [("review*", ["pre_persona", "post_persona"]), ("planner", [])], ids=["matches", "does-not"]
)
@awaited
async def test_a_persona_hook_is_asked_around_the_run_of_an_agent_whose_name_matches(
    pattern: str, events: list[str]
) -> None:
    asked: list[tuple[str, int]] = []
    agent = AnAgent(a_reply("work"))

    def note(ctx: Any) -> None:  # noqa: ANN401 - what a hook is told
        asked.append((ctx.event, len(agent.model.requests)))

    sb.register_persona_hook(pattern, pre=note, post=note)
    await agent.play(name="reviewer", hooks=HOOKS)
    assert asked == [*zip(events, (0, 2), strict=False)]


@pytest.mark.requirement("hooks:register:session")
@awaited
async def test_a_session_hook_is_asked_whenever_its_event_happens_and_at_no_other() -> None:
    asked: list[tuple[str, str, int]] = []
    sb.register_session_hook("post_turn", lambda ctx: asked.append((ctx.event, ctx.session_id, ctx.turn)))
    await AnAgent(a_reply("work")).play(hooks=HOOKS)
    assert asked == [("post_turn", "main", 1), ("post_turn", "main", 2)]


# When.


class Between(NamedTuple):
    """The last seam that was passed before an event, and the first after it (None: there is none)."""

    after: Seam | None
    before: Seam | None


# Every event of a session, by the run in which it happens.
TIMING: Final[dict[SessionEvent, Between]] = {
    SessionEvent.SESSION_START: Between(None, Seam.ITERATION_START),
    SessionEvent.USER_PROMPT_SUBMIT: Between(None, Seam.ITERATION_START),
    SessionEvent.FILE_EDITED: Between(None, Seam.ITERATION_START),
    SessionEvent.POST_TURN: Between(Seam.ITERATION_START, Seam.PRE_TOOL_DISPATCH),
    SessionEvent.ON_BUDGET_THRESHOLD: Between(Seam.ITERATION_START, Seam.PRE_TOOL_DISPATCH),
    SessionEvent.PERMISSION_ASKED: Between(Seam.PRE_TOOL_DISPATCH, Seam.POST_TOOL_DISPATCH),
    SessionEvent.PERMISSION_REPLIED: Between(Seam.PRE_TOOL_DISPATCH, Seam.POST_TOOL_DISPATCH),
    SessionEvent.POST_TOOL_USE: Between(Seam.PRE_TOOL_DISPATCH, Seam.POST_TOOL_DISPATCH),
    SessionEvent.POST_STEP: Between(Seam.POST_TOOL_DISPATCH, Seam.ITERATION_END),
    SessionEvent.PRE_COMPACT: Between(Seam.ITERATION_END, Seam.ITERATION_START),
    SessionEvent.POST_COMPACT: Between(Seam.ITERATION_END, Seam.ITERATION_START),
    SessionEvent.POST_AGENT_TURN: Between(Seam.ITERATION_START, Seam.ITERATION_END),
    SessionEvent.PRE_FINISH: Between(Seam.ITERATION_START, Seam.ITERATION_END),
    SessionEvent.SESSION_IDLE: Between(Seam.DAEMON_IDLE_PRE, Seam.DAEMON_IDLE_POST),
    SessionEvent.SESSION_ERROR: Between(Seam.ITERATION_START, Seam.LOOP_EXIT),
    SessionEvent.POST_FINISH: Between(Seam.LOOP_EXIT, None),
    SessionEvent.SESSION_END: Between(Seam.LOOP_EXIT, None),
}


class Watched(Conversation):
    """A session that notes every seam it passes, between the events its hooks are told."""

    passed: list[Seam | SessionEvent]

    async def drain(self, seam: Seam, **options: Any) -> tuple[str, ...]:  # noqa: ANN401 - handed on
        self.passed.append(seam)
        return await super().drain(seam, **options)


class Allows:
    async def ask(self, _call: ToolCall) -> None:
        """Everybody may do everything."""


class OneChange:
    """A file that was changed before the first iteration."""

    def __init__(self) -> None:
        self._changes = [FileChange(path="src/auth.py")]

    def changes(self) -> Sequence[FileChange]:
        told, self._changes = self._changes, []
        return told


async def a_day_in_the_life() -> list[Seam | SessionEvent]:
    """A daemon that has every reason to tell every event: all it passed, in order."""
    agent = AnAgent(a_reply("work", tokens=95), "Done.", ModelError("the key is wrong", status=401), context_window=100)
    talk = Watched(agent.store, agent.session.id, new_id=CountingIds(), limits=DEFAULT_LIMITS)
    passed: list[Seam | SessionEvent] = []
    talk.passed = passed
    agent.session.talk = talk
    for event in SessionEvent:
        agent.hooks.register_session_hook(event, noting(passed, event))
    # Without anything to answer, an idle daemon would not go on.
    agent.hooks.register_session_hook(SessionEvent.SESSION_IDLE, lambda _: {"body": "Look around."})
    run = await agent.begin(
        daemon=True,
        wake_seconds=60,
        permission=Allows(),
        compactor=lambda messages, _: messages[-2:],
        watcher=OneChange(),
    )
    assert (await run.finish()).status is LoopStatus.FAILED
    await agent.session.close()
    return passed


def noting(passed: list[Seam | SessionEvent], event: SessionEvent) -> Callable[[object], None]:
    return lambda _ctx: passed.append(event)


def neighbours(passed: list[Seam | SessionEvent], place: int) -> Between:
    before = (entry for entry in reversed(passed[:place]) if isinstance(entry, Seam))
    after = (entry for entry in passed[place:] if isinstance(entry, Seam))
    return Between(next(before, None), next(after, None))


@pytest.mark.requirement("hooks:timing:table")
@awaited
async def test_every_session_event_fires_between_the_seams_of_its_row() -> None:
    passed = await a_day_in_the_life()
    seen: dict[SessionEvent, Between] = {}
    for place, entry in enumerate(passed):
        if isinstance(entry, SessionEvent):
            seen.setdefault(entry, neighbours(passed, place))
    assert seen == TIMING


@pytest.mark.requirement("hooks:timing:table")
@pytest.mark.parametrize("event", SessionEvent)
def test_the_timing_table_has_a_row_for_every_event_that_names_no_other_seam(event: SessionEvent) -> None:
    row = WHEN[event].replace(",", " ").split()
    assert {seam for seam in Seam if seam in row} <= {seam for seam in TIMING[event] if seam is not None}


@pytest.mark.requirement("hooks:timing:pre-finish-adds-an-iteration")
@pytest.mark.parametrize("by", ["hook", "provider"])
@awaited
async def test_what_is_added_before_the_finish_is_answered_before_the_run_ends(by: str) -> None:
    agent = AnAgent("Done.", "Now it is green.", "Not asked.")
    news = [{"body": BODY}]
    if by == "hook":
        agent.hooks.register_session_hook("pre_finish", lambda _: news.pop() if news else None)
    else:
        agent.providers.register(
            id="build", subscribes_to=["pre_finish"], evaluate=lambda _: news.pop() if news else None
        )
    result = await agent.play(reminders=by == "provider")
    assert (result.status, result.turns, result.text) == (LoopStatus.COMPLETED, 2, "Now it is green.")
    assert agent.requests_with(BODY) == [2]


@pytest.mark.requirement("hooks:timing:pre-finish-adds-an-iteration")
@awaited
async def test_a_hook_that_is_never_content_adds_eight_iterations() -> None:
    agent = AnAgent(*["Done."] * 20)
    agent.hooks.register_session_hook("pre_finish", lambda _: {"body": BODY, "dedupe_key": "build"})
    result = await agent.play()
    assert (result.status, result.turns) == (LoopStatus.COMPLETED, 9)
    # What is left to answer when a budget is spent is why the run did not complete.
    assert (await agent.play("And now?", max_turns=1)).status is LoopStatus.MAX_TURNS
    assert agent.requests_with(BODY) == [*range(2, 11)]


@pytest.mark.requirement("hooks:timing:earlier-events-add-none")
@pytest.mark.parametrize("event", ["post_turn", "post_agent_turn", "post_step"])
@awaited
async def test_what_a_hook_adds_after_the_last_reply_waits_for_the_next_request(event: str) -> None:
    agent = AnAgent(*["Done."] * 3)
    agent.hooks.register_session_hook(event, lambda _: {"body": BODY, "ttl_turns": 1})
    await agent.play()
    assert len(agent.model.requests) == 1
    await agent.play("And now?")
    assert agent.requests_with(BODY) == [2]


@pytest.mark.requirement("hooks:timing:after-the-closing-drain")
@pytest.mark.parametrize(
    ("event", "answer"),
    [
        pytest.param("post_finish", "Done.", id="post_finish"),
        pytest.param("session_error", ModelError("the key is wrong"), id="session_error"),
    ],
)
@awaited
async def test_what_a_hook_adds_after_the_closing_drain_waits_for_the_next_prompt(event: str, answer: Line) -> None:
    agent = AnAgent(answer, "Done.")
    agent.hooks.register_session_hook(event, lambda _: {"body": BODY, "ttl_turns": 1})
    await agent.play()
    assert len(agent.model.requests) == 1
    await agent.play("And now?")
    assert agent.requests_with(BODY) == [2]


# What becomes of an answer.


@pytest.mark.requirement("hooks:timing:effects-precede-the-action")
@awaited
async def test_the_reminders_of_a_hook_are_live_in_their_order_before_its_action_is_taken() -> None:
    live: list[list[str]] = []

    def work(*_: object) -> str:
        live.append([item.reminder.body for item in agent.state.live])
        return "done"

    tool = ATool(do=work)
    agent = AnAgent(a_reply(a_call(path="a")), tools=[tool])
    answer = {"effects": [{"body": "First."}, {"body": "Second."}], "then": {"args": {"path": "b"}}}
    agent.hooks.register_tool_hook("work", pre=lambda _: answer)
    await agent.play()
    assert (live, tool.calls) == ([["First.", "Second."]], [{"path": "b"}])
    kinds = [kind for kind in agent.kinds if kind in {"Injected", "ResultRecorded"}]
    assert kinds == ["Injected", "Injected", "ResultRecorded"]


@pytest.mark.requirement("hooks:timing:effects-precede-the-action")
@awaited
async def test_the_reminder_of_a_hook_behind_a_tool_is_live_before_the_result_it_replaces_is_recorded() -> None:
    agent = AnAgent(a_reply("work"))
    agent.hooks.register_tool_hook("work", post=lambda _: {"reminder": {"body": BODY}, "then": {"result": "in short"}})
    await agent.play()
    assert agent.result_text() == "in short"
    assert [kind for kind in agent.kinds if kind in {"Injected", "ResultRecorded"}] == ["Injected", "ResultRecorded"]


@pytest.mark.requirement("hooks:timing:a-deny-still-injects")
@awaited
async def test_a_hook_that_denies_a_call_still_adds_its_reminder() -> None:
    tool = ATool()
    agent = AnAgent(a_reply("work"), tools=[tool])
    denial = {"reminder": {"body": BODY, "ttl_turns": 1}, "then": {"deny": True, "reason": "the tree is frozen"}}
    agent.hooks.register_tool_hook("work", pre=lambda _: denial)
    await agent.play()
    assert (tool.calls, agent.results()) == ([], [("c1", "denied")])
    assert "the tree is frozen" in agent.result_text()
    (injected,) = agent.events(Injected)
    assert (injected.reminder.source, agent.requests_with(BODY)) == (Source.HOOK, [2])


# Failures.


def raises(_ctx: object) -> None:
    raise KeyError("no such thing")


async def takes_six_seconds(_ctx: object) -> None:
    await asyncio.sleep(6)


async def takes_four_seconds(_ctx: object) -> dict[str, str]:
    await asyncio.sleep(4)
    return {"body": "Late, but in time."}


async def an_agent_with_a_hook_everywhere(hook: Callable[[Any], Any]) -> tuple[AnAgent, sb.LoopResult]:
    agent = AnAgent(a_reply("work"))
    agent.hooks.register_tool_hook("*", pre=hook, post=hook)
    agent.hooks.register_step_hook(pre=hook, post=hook)
    agent.hooks.register_persona_hook("*", pre=hook, post=hook)
    agent.hooks.register_session_hook("post_turn", hook)
    agent.hooks.register_session_hook("post_turn", lambda _: {"body": BODY, "ttl_turns": 1})
    return agent, await agent.play()


def assert_nothing_was_stopped(agent: AnAgent, result: sb.LoopResult) -> None:
    assert (result.status, result.turns, agent.results()) == (LoopStatus.COMPLETED, 2, [("c1", "ok")])
    assert agent.requests_with(BODY) == [2]


# Twice around the step, twice around the turn, once around the tool and the run, before and behind.
TIMES_ASKED: Final = 2 + 2 + 2 + 2 + 2


@pytest.mark.requirement("hooks:failure:raising-stops-nothing")
@awaited
async def test_a_hook_that_raises_is_reported_and_stops_nothing() -> None:
    agent, result = await an_agent_with_a_hook_everywhere(raises)
    assert_nothing_was_stopped(agent, result)
    assert sum(problem.times for problem in result.problems) == TIMES_ASKED
    for problem in result.problems:
        assert problem.where.startswith("hook raises on ")
        assert "KeyError" in problem.message


@pytest.mark.requirement("hooks:failure:slow-hook-stops-nothing")
@awaited
async def test_a_hook_that_takes_longer_than_five_seconds_is_reported_and_stops_nothing() -> None:
    agent, result = await an_agent_with_a_hook_everywhere(takes_six_seconds)
    assert_nothing_was_stopped(agent, result)
    assert sum(problem.times for problem in result.problems) == TIMES_ASKED
    assert {problem.message for problem in result.problems} == {"takes_six_seconds took longer than 5 s"}


@pytest.mark.requirement("hooks:failure:slow-hook-stops-nothing")
@awaited
async def test_a_hook_that_takes_less_is_waited_for() -> None:
    agent, result = await an_agent_with_a_hook_everywhere(takes_four_seconds)
    assert_nothing_was_stopped(agent, result)
    assert result.problems == ()
    assert agent.requests_with("Late, but in time.") == [1, 2]
