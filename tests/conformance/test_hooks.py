"""Hooks in a running agent: when they are asked, what becomes of their answers, and what their failures stop."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pytest

import sideband as sb
from sideband.core.events import InboxItem, Injected, ResultRecorded
from sideband.core.hookevents import SessionEvent
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.reminder import Source
from sideband.core.seams import Seam
from sideband.loop.conversation import Conversation
from sideband.loop.hooks import WHEN
from sideband.loop.run import LoopStatus, Step
from sideband.ports import FileChange, ModelError, ToolCall
from sideband.runtime.registries import HOOKS
from sideband.testing import CountingIds
from tests.agents import AnAgent, awaited
from tests.loop_builders import ATool, a_call, a_reply, until

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
    tools = [ATool(name, lambda *_: asked.append(("call", name)) or "done") for name in ("read_file", "write_file")]
    agent = AnAgent(a_reply("read_file"), a_reply("write_file"), tools=tools)
    await agent.play(hooks=HOOKS)
    assert [entry for entry in asked if entry[0] != "call"] == [("pre", "read_file"), ("post", "read_file")]
    assert [name for name, _ in asked] == ["pre", "call", "post", "call"]


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
    """The last seam that was passed before an event, and the first after it; None is none."""

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

    async def drain(
        self, seam: Seam, *, closing: bool = False, starting: bool = False, calls: Sequence[ToolCall] = ()
    ) -> tuple[InboxItem, ...]:
        self.passed.append(seam)
        return await super().drain(seam, closing=closing, starting=starting, calls=calls)


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
    talk.passed = passed = []
    agent.session.talk = talk
    for event in SessionEvent:
        agent.hooks.register_session_hook(event, noting(passed, event))
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


@pytest.mark.requirement("hooks:timing:after-the-closing-drain")
@pytest.mark.parametrize("event", [SessionEvent.POST_FINISH, SessionEvent.SESSION_ERROR])
@awaited
async def test_what_a_hook_adds_after_the_closing_drain_waits_for_the_next_prompt(event: SessionEvent) -> None:
    script = [ModelError("the key is wrong")] if event is SessionEvent.SESSION_ERROR else ["Done."]
    agent = AnAgent(*script, "Done.")
    agent.hooks.register_session_hook(event, lambda _: {"body": BODY, "ttl_turns": 1})
    result = await agent.play()
    assert (result.turns, agent.requests_with(BODY)) == (2 - len(script) if script[0] == "Done." else 0, [])
