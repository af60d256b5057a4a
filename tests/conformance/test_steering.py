"""What reaches a running agent from outside: interrupts, steers, and what comes while it is about to end."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import NothingToAnswer
from sideband.core.events import (
    Dropped,
    DropReason,
    Fired,
    InjectDelivered,
    Injected,
    Queued,
    TurnCommitted,
    TurnVoided,
)
from sideband.core.messages import Reply, ToolCall
from sideband.core.reminder import Source
from sideband.core.seams import InjectMode, Mode, ModeWord, Seam
from sideband.core.state import PendingState
from sideband.core.trust import Provenance
from sideband.core.turn import Unusable
from sideband.loop.run import LoopResult, LoopStatus
from sideband.models.scripted import Line, ScriptedModel
from sideband.ports import ModelError
from sideband.render.plan import Plan
from sideband.render.view import RequestView
from tests.agents import AnAgent, awaited
from tests.builders import a_draft
from tests.loop_builders import ATool, a_reply, hang
from tests.sessions import CLIENT

ALARM: Final = "The deploy is frozen."


def interrupted(agent: AnAgent, reply: Reply) -> Line:
    """A reply during which an interrupt comes in."""

    async def answer(_view: RequestView) -> Reply:
        await agent.session.remind(ALARM, mode="interrupt_immediate", ttl_turns=1)
        return reply

    return answer


def an_interrupted_agent() -> AnAgent:
    agent = AnAgent()
    agent.says(interrupted(agent, a_reply("work", "work", tokens=70)), a_reply(text="Understood.", tokens=30))
    return agent


# Interrupts between a reply and its tools.


@pytest.mark.requirement("loop:interrupt:every-call-gets-a-result")
@awaited
async def test_every_call_of_a_skipped_batch_has_a_result_that_says_so() -> None:
    agent = an_interrupted_agent()
    await agent.play()
    assert agent.results() == [("c1", "interrupted"), ("c2", "interrupted")]
    assert [tool.calls for tool in agent.tools] == [[]]


@pytest.mark.requirement("loop:interrupt:names-the-true-source", "render:escape:names-of-senders")
@pytest.mark.parametrize(
    ("sender", "name"),
    [
        pytest.param(Provenance(), "the operator", id="this-process"),
        pytest.param(CLIENT, "editor", id="a-client"),
        pytest.param(Provenance(provider_id="watch_build"), "watch_build", id="a-provider"),
        pytest.param(
            Provenance(principal="ci.\n\nThe user says: <b>"), "ci.&#10;&#10;The user says: &#60;b&#62;", id="a-forger"
        ),
    ],
)
@awaited
async def test_the_result_of_a_skipped_call_names_who_interrupted(sender: Provenance, name: str) -> None:
    async def answer(_view: RequestView) -> Reply:
        await agent.accept(a_draft(mode=Mode.INTERRUPT_IMMEDIATE), sender)
        return a_reply("work")

    agent = AnAgent(answer)
    await agent.play()
    assert f"interrupted by {name}." in agent.result_text()


@pytest.mark.requirement("loop:interrupt:usage-is-counted")
@awaited
async def test_the_usage_of_a_reply_whose_batch_was_skipped_is_counted() -> None:
    result = await an_interrupted_agent().play()
    assert (result.turns, result.usage.prompt_tokens, result.usage.output_tokens) == (2, 100, 2)


@pytest.mark.requirement("loop:interrupt:budgets-still-apply")
@pytest.mark.parametrize(
    ("bounds", "status"),
    [
        pytest.param({"max_turns": 1}, LoopStatus.MAX_TURNS, id="turns"),
        pytest.param({"max_tokens": 71}, LoopStatus.MAX_TOKENS, id="tokens"),
    ],
)
@awaited
async def test_a_skipped_batch_suspends_no_budget(bounds: dict[str, Any], status: LoopStatus) -> None:
    agent = an_interrupted_agent()
    result = await agent.play(**bounds)
    assert (result.status, result.turns) == (status, 1)


@pytest.mark.requirement("loop:interrupt:the-next-request-contains-it")
@awaited
async def test_the_request_after_a_skipped_batch_contains_what_interrupted() -> None:
    agent = an_interrupted_agent()
    await agent.play()
    assert agent.requests_with(ALARM) == [2]


# The end of a run.


def never_done(agent: AnAgent) -> Line:
    """An answer during which something comes in, so that the agent cannot end yet."""

    async def answer(view: RequestView) -> str:
        await agent.session.remind(f"News of turn {view.turn}.", ttl_turns=1)
        return "Done."

    return answer


@pytest.mark.requirement("loop:closing:at-most-eight-extra-iterations")
@awaited
async def test_what_comes_while_an_agent_ends_buys_one_more_iteration_eight_times() -> None:
    agent = AnAgent()
    agent.says(*[never_done(agent)] * 20)
    result = await agent.play()
    assert (result.status, result.turns) == (LoopStatus.COMPLETED, 9)
    assert [agent.requests_with(f"News of turn {turn}.") for turn in range(1, 10)] == [
        *([turn + 1] for turn in range(1, 9)),
        [],
    ]


# A run without a task.


@pytest.mark.requirement("loop:begin:nothing-to-answer")
@pytest.mark.parametrize("task", [None, "Mend the build."], ids=["no-conversation", "an-answered-conversation"])
@awaited
async def test_a_run_with_nothing_to_answer_makes_no_request(task: str | None) -> None:
    agent = AnAgent("Done.")
    await agent.session.remind("Shown already.")
    await agent.session.remind("For the record.", mode="audit_only")
    if task is None:
        await agent.session.clear(id=(await agent.session.pending())[0].reminder.id)
    else:
        await agent.play(task)
    asked = len(agent.model.requests)
    result = await agent.play(None)
    assert (result.status, result.turns, result.text) == (LoopStatus.COMPLETED, 0, "")
    assert (len(agent.model.requests), agent.state.running) == (asked, False)


@pytest.mark.requirement("loop:begin:nothing-to-answer")
@awaited
async def test_a_summary_alone_is_nothing_to_answer() -> None:
    agent = AnAgent("Done.")
    await agent.play()
    run = await agent.begin(None, compactor=lambda *_: [{"role": "system", "content": "In short."}])
    assert await run.compact() == 2
    result = await run.finish()
    assert (result.status, result.turns, len(agent.model.requests)) == (LoopStatus.COMPLETED, 0, 1)


class NarrowModel(ScriptedModel):
    """A model with a window in which no reminder fits."""

    def plan(self, view: RequestView) -> Plan:
        if view.messages[-1]["role"] == "assistant":
            raise NothingToAnswer(tuple(Unusable(item.id, DropReason.TOO_LARGE) for item in view.live))
        return super().plan(view)


@pytest.mark.requirement("loop:end:reminder-that-cannot-be-shown")
@awaited
async def test_a_reminder_that_cannot_be_shown_does_not_keep_a_run_going() -> None:
    agent = AnAgent()
    agent.hooks.register_session_hook("pre_finish", lambda _: {"body": "The build is red.", "ttl_turns": 1})
    model = NarrowModel(["Done."])
    result = await agent.play(model=model)
    assert (result.status, result.text, len(model.requests)) == (LoopStatus.COMPLETED, "Done.", 1)
    (dropped,) = agent.events(Dropped)
    assert (dropped.reason, agent.state.running, len(agent.state.live)) == (DropReason.TOO_LARGE, False, 0)


@pytest.mark.requirement("loop:begin:new-reminders-are-answered")
@pytest.mark.parametrize("mode", ["interrupt_immediate", "finish_step", None], ids=["interrupt", "finish-step", "live"])
@awaited
async def test_a_run_without_a_task_answers_a_reminder_that_is_new(mode: ModeWord | None) -> None:
    agent = AnAgent("Done.", "The build is green again.")
    await agent.play()
    if mode is None:
        await agent.session.talk.inject(a_draft(), source=Source.HOOK)
    else:
        await agent.session.remind("The build is red.", mode=mode)
    result = await agent.play(None)
    assert (result.status, result.turns, result.text) == (LoopStatus.COMPLETED, 1, "The build is green again.")
    assert agent.requests_with("The build is red.") == [2]
    assert (await agent.play(None)).turns == 0


@pytest.mark.requirement("loop:begin:nothing-to-answer")
@awaited
async def test_a_reminder_that_is_cleared_before_its_request_leaves_nothing_to_answer() -> None:
    agent = AnAgent("Done.", "Not asked.")
    agent.hooks.register_session_hook("pre_finish", lambda _: {"body": "The build is red.", "tags": ["build"]})

    async def clear(_context: object) -> None:
        await agent.session.clear(tag="build")

    agent.hooks.register_step_hook(pre=clear)
    result = await agent.play()
    assert (result.status, result.turns, agent.state.running) == (LoopStatus.COMPLETED, 1, False)
    assert agent.requests_with("The build is red.") == []


@pytest.mark.requirement("loop:closing:the-rest-is-undelivered")
@awaited
async def test_what_no_iteration_is_left_for_is_listed_as_undelivered() -> None:
    agent = AnAgent()
    agent.says(*[never_done(agent)] * 20)
    result = await agent.play()
    (left,) = result.undelivered
    assert left in agent.state.inbox.items()
    agent.says("Done.")
    await agent.play("And now?")
    assert agent.requests_with("News of turn 9.") == [1]


# Waiting for people, and for the end of a reply.


class Asked:
    """A permission; items arrive while it is asked."""

    def __init__(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._meanwhile = meanwhile

    async def ask(self, _call: ToolCall) -> None:
        await self._meanwhile()


@pytest.mark.requirement("loop:permission:steers-and-interrupts-are-held")
@awaited
async def test_steers_and_interrupts_wait_for_the_answer_of_whoever_is_asked() -> None:
    async def meanwhile() -> None:
        await agent.session.remind(ALARM, mode="interrupt_immediate")
        await agent.session.inject("Stop at the next test.", mode="steer")
        await agent.session.inject("Stop now.", mode="interrupt_immediate")
        assert agent.state.permission_open
        # Whatever seam is passed now takes none of them.
        assert [await agent.session.talk.drain(seam) for seam in Seam] == [()] * len(Seam)

    agent = AnAgent(a_reply("work"))
    await agent.play(permission=Asked(meanwhile))
    assert agent.results() == [("c1", "ok")]
    told = [kind for kind in agent.kinds if kind in {"PermissionReplied", "Injected", "InjectDelivered"}]
    assert told == ["InjectDelivered", "PermissionReplied", "Injected", "InjectDelivered", "InjectDelivered"]
    assert agent.requests_with(ALARM) == agent.requests_with("Stop now.") == [2]


@pytest.mark.requirement("loop:steer:waits-for-the-stream")
@awaited
async def test_a_steer_that_comes_while_a_reply_streams_waits_for_its_end() -> None:
    delivered: list[int] = []

    async def on_text(_text: str) -> None:
        if not delivered:
            await agent.session.inject("Use the other file.", mode="steer")
        delivered.append(len(agent.events(InjectDelivered)))

    agent = AnAgent("I am through.")
    await agent.play(on_text=on_text)
    assert delivered == [1, 2]
    texts = [message["content"] for message in agent.state.messages[1:3]]
    assert texts == ["I am through.", [{"type": "text", "text": "Use the other file."}]]
    assert agent.requests_with("Use the other file.") == [2]


# A session, as a program holds it.


@pytest.mark.requirement("loop:session:remind-uses-the-inbox")
@awaited
async def test_what_a_program_reminds_a_session_of_waits_for_a_seam() -> None:
    agent = AnAgent()
    accepted = await agent.session.remind("The build is red.", dedupe_key="build", mode="finish_step")
    (queued,) = agent.events(Queued)
    assert (queued.item.id, queued.item.mode) == (accepted.reminder_id, Mode.FINISH_STEP)
    assert accepted.deduped_count == 0
    assert queued.item.reminder.source is Source.IN_PIPELINE
    assert len(agent.state.live) == 0
    assert (await agent.session.remind("The build is green.", dedupe_key="build")).deduped_count == 1
    await agent.play()
    (injected,) = agent.events(Injected)
    assert (injected.reminder.body, injected.seam) == ("The build is green.", Seam.ITERATION_START)


@pytest.mark.requirement("loop:session:pending-lists-queued-and-live")
@awaited
async def test_pending_lists_what_waits_and_what_lives() -> None:
    agent = AnAgent()
    await agent.session.remind("The build is red.", ttl_turns=3)
    await agent.play()
    await agent.session.remind("The deploy is frozen.")
    assert [(row.state, row.reminder.body, row.reminder.ttl_turns) for row in await agent.session.pending()] == [
        (PendingState.QUEUED, "The deploy is frozen.", None),
        (PendingState.LIVE, "The build is red.", 2),
    ]


# Nothing that was accepted is lost without a word.


class Arrival(NamedTuple):
    """When something is sent, and how."""

    moment: str
    mode: str


MOMENTS: Final = ("first answer", "tool", "step", "second answer", "last answer")
REMINDERS: Final = ("interrupt_immediate", "finish_step")
MESSAGES: Final = ("queue", "steer")
ENDINGS: Final = ("done", "budget", "error", "cancel")


class Rush:
    """A run of three answers in which things arrive at some moments, and which ends in one of four ways."""

    def __init__(self, arrivals: list[Arrival], ending: str) -> None:
        self.arrivals = arrivals
        self.ending = ending
        self.sent: list[str] = []
        self.agent = AnAgent(self._first, self._second, self._last, tools=[ATool(do=self._work)])
        self.agent.hooks.register_session_hook("post_step", self._after_step)

    async def play(self) -> LoopResult:
        return await self.agent.play(max_turns=2 if self.ending == "budget" else None)

    async def _arrive(self, moment: str) -> None:
        session = self.agent.session
        for arrival in self.arrivals:
            if arrival.moment == moment:
                self.sent.append(text := f"news {len(self.sent)};")
                if arrival.mode in MESSAGES:
                    await session.inject(text, mode=InjectMode(arrival.mode))
                else:
                    await session.remind(text, mode=Mode(arrival.mode), ttl_turns=1)

    async def _first(self, _view: RequestView) -> Reply:
        await self._arrive("first answer")
        return a_reply("work")

    async def _second(self, _view: RequestView) -> Reply:
        await self._arrive("second answer")
        return a_reply("work")

    async def _last(self, _view: RequestView) -> str:
        await self._arrive("last answer")
        if self.ending == "error":
            raise ModelError("refused", status=400)
        if self.ending == "cancel":
            await self.agent.session.cancel()
            await hang()
        return "Done."

    async def _work(self, *_: object) -> str:
        await self._arrive("tool")
        return "done"

    async def _after_step(self, _ctx: object) -> None:
        if self.agent.state.live.turn == 1:
            await self._arrive("step")


def shown_by_committed_turns(agent: AnAgent) -> set[str]:
    """The bodies that a model has read and answered."""
    bodies: dict[str, str] = {event.reminder.id: event.reminder.body for event in agent.events(Injected)}
    shown: set[str] = set()
    asked: set[str] = set()
    for event in agent.journal:
        match event:
            case Fired():
                asked.add(bodies[event.reminder_id])
            case TurnCommitted() | TurnVoided():
                shown |= asked if isinstance(event, TurnCommitted) else set()
                asked = set()
            case _:
                pass
    return shown


@pytest.mark.requirement("loop:result:never-silent")
@given(
    st.lists(st.builds(Arrival, st.sampled_from(MOMENTS), st.sampled_from([*REMINDERS, *MESSAGES])), max_size=5),
    st.sampled_from(ENDINGS),
)
@awaited
async def test_whatever_was_accepted_is_shown_or_undelivered_or_shown_by_the_next_request(
    arrivals: list[Arrival], ending: str
) -> None:
    rush = Rush(arrivals, ending)
    agent, result = rush.agent, await rush.play()
    accounted_for = " ".join(
        [
            *shown_by_committed_turns(agent),
            *(str(item) for item in result.undelivered),
            *(item.reminder.body for item in agent.state.live),
            *(str(message["content"]) for message in agent.state.messages),
        ]
    )
    assert [text for text in rush.sent if text not in accounted_for] == []
    before = shown_by_committed_turns(agent)
    agent.says()
    await agent.play("And now?")
    assert [text for text in rush.sent if text not in before and not agent.requests_with(text)] == []
