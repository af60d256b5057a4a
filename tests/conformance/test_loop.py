"""The turns of a running agent: what is committed when, what is taken back, retried and resumed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import pytest

from sideband.core.events import (
    Compacted,
    Event,
    Expired,
    ExpiryReason,
    Fired,
    RequestCommitted,
    ResultRecorded,
    TurnCommitted,
    TurnVoided,
    Usage,
)
from sideband.core.messages import Reply
from sideband.core.trust import IN_PROCESS
from sideband.loop.run import LoopStatus
from sideband.models.scripted import Line
from sideband.ports import ModelError, OnText
from sideband.render.plan import Plan
from sideband.render.view import RequestView
from sideband.testing import ScriptedModel
from tests.agents import AnAgent, awaited
from tests.loop_builders import ATool, a_reply, hang

BODY: Final = "The build is red."
GONE: Final = ModelError("the connection was lost", retryable=True)
REFUSED: Final = ModelError("the key is wrong", status=401)


def place(journal: list[Event], kind: type[Event]) -> int:
    """Where the first event of a kind stands."""
    return next(index for index, event in enumerate(journal) if isinstance(event, kind))


# The commit points of a turn.


@pytest.mark.requirement("loop:commit:request")
@awaited
async def test_what_a_request_shows_is_on_record_before_it_leaves() -> None:
    before: list[Event] = []

    def answer(_view: RequestView) -> str:
        before.extend(agent.journal)
        return "Done."

    agent = AnAgent(answer)
    reminder_id = (await agent.session.remind(BODY)).reminder_id
    await agent.play()
    assert [type(event) for event in before[-2:]] == [RequestCommitted, Fired]
    assert (agent.events(RequestCommitted)[0].turn, agent.events(Fired)[0].reminder_id) == (1, reminder_id)
    assert tuple(before[-2:]) in agent.recorded.commits


@pytest.mark.requirement("loop:commit:turn")
@awaited
async def test_the_reply_and_the_ttl_pass_are_one_commit() -> None:
    agent = AnAgent("Done.")
    reminder_id = (await agent.session.remind(BODY, ttl_turns=1)).reminder_id
    await agent.play()
    (turn,) = [commit for commit in agent.recorded.commits if isinstance(commit[0], TurnCommitted)]
    reply = {"role": "assistant", "id": agent.events(RequestCommitted)[0].reply_id, "content": "Done."}
    assert turn == (
        TurnCommitted(turn=1, reply=reply, usage=Usage(prompt_tokens=4, output_tokens=1)),
        Expired(reminder_id=reminder_id, reason=ExpiryReason.TTL, turn=1, provenance=IN_PROCESS),
    )


@pytest.mark.requirement("loop:commit:tools-follow-the-turn")
@awaited
async def test_a_tool_starts_once_its_turn_is_committed() -> None:
    agent = AnAgent(a_reply("work"), tools=[ATool(do=lambda *_: " ".join(agent.kinds))])
    await agent.play()
    assert agent.result_text().split()[-1] == "TurnCommitted"


@pytest.mark.requirement("loop:commit:results")
@awaited
async def test_each_result_is_committed_when_its_tool_has_finished() -> None:
    async def waits_for_the_others_result(*_: object) -> str:
        async for logged in agent.session.talk.journal.subscribe(session_id=agent.session.id):
            if isinstance(logged.event, ResultRecorded):
                return f"{logged.event.call_id} is on record"
        raise AssertionError

    agent = AnAgent(a_reply("slow", "quick"), tools=[ATool("slow", waits_for_the_others_result), ATool("quick")])
    await agent.play()
    assert agent.result_text("c1") == "c2 is on record"
    alone = [commit for commit in agent.recorded.commits if isinstance(commit[0], ResultRecorded)]
    assert [[event.call_id for event in commit if isinstance(event, ResultRecorded)] for commit in alone] == [
        ["c2"],
        ["c1"],
    ]


@pytest.mark.requirement("loop:turn:ttl-pass-comes-before-tools")
@awaited
async def test_what_a_tool_hook_adds_is_not_aged_by_the_turn_that_called_the_tool() -> None:
    agent = AnAgent(a_reply("work"), "Done.")
    agent.hooks.register_tool_hook("work", post=lambda _: {"body": BODY, "ttl_turns": 1})
    await agent.session.remind("Shown in the first turn only.", ttl_turns=1)
    await agent.play()
    journal = agent.journal
    assert place(journal, TurnCommitted) < place(journal, Expired) < place(journal, ResultRecorded)
    assert [BODY in request.text for request in agent.model.requests] == [False, True]


# Turns that come to nothing. In each case the first turn was open and had shown a reminder with one turn to live.


async def refused() -> AnAgent:
    agent = AnAgent(REFUSED)
    await agent.session.remind(BODY, ttl_turns=1)
    assert (await agent.play()).status is LoopStatus.FAILED
    # A failure is not a cancellation.
    assert "Cancelled" not in agent.kinds
    return agent


async def cancelled() -> AnAgent:
    async def answer(_view: RequestView) -> str:
        await agent.session.cancel()
        return str(await hang())

    agent = AnAgent(answer)
    await agent.session.remind(BODY, ttl_turns=1)
    assert (await agent.play()).status is LoopStatus.CANCELLED
    return agent


async def killed() -> AnAgent:
    """The process died while the model answered; another one has its journal, and another model."""
    dead = AnAgent(lambda _view: hang())
    await dead.session.remind(BODY, ttl_turns=1)
    agent = AnAgent()
    await agent.remembers(await journal_until(dead, Fired))
    return agent


async def journal_until(agent: AnAgent, kind: type[Event]) -> list[Event]:
    """What a process has on record that is killed as soon as such an event is."""
    run = asyncio.ensure_future(agent.play())
    async for logged in agent.session.talk.journal.subscribe(session_id=agent.session.id):
        if isinstance(logged.event, kind):
            break
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    return agent.journal[: logged.sequence]


VOIDED: Final = pytest.mark.parametrize(
    "voided",
    [
        pytest.param(refused, id="permanent-error"),
        pytest.param(cancelled, id="cancel"),
        pytest.param(killed, id="killed-process-and-another-model"),
    ],
)
Voided: TypeAlias = Callable[[], Awaitable[AnAgent]]


@pytest.mark.requirement("loop:void:causes")
@VOIDED
@awaited
async def test_an_open_turn_that_has_no_reply_is_voided_in_one_commit(voided: Voided) -> None:
    agent = await voided()
    await agent.play("Go on.")
    (void,) = [commit for commit in agent.recorded.commits if TurnVoided(turn=1) in commit]
    assert void[0] == TurnVoided(turn=1)
    assert agent.events(TurnVoided) == [TurnVoided(turn=1)]


@pytest.mark.requirement("loop:void:takes-back-what-was-fired")
@VOIDED
@awaited
async def test_what_a_voided_turn_has_shown_was_not_shown_and_its_number_is_used_again(voided: Voided) -> None:
    agent = await voided()
    await agent.play("Go on.")
    told = [
        event for event in agent.journal if isinstance(event, RequestCommitted | Fired | TurnVoided | TurnCommitted)
    ]
    assert [(type(event), event.turn) for event in told] == [
        (RequestCommitted, 1),
        (Fired, 1),
        (TurnVoided, 1),
        (RequestCommitted, 1),
        (Fired, 1),
        (TurnCommitted, 1),
    ]


@pytest.mark.requirement("loop:void:consumes-no-ttl")
@VOIDED
@awaited
async def test_a_voided_turn_costs_no_reminder_a_turn(voided: Voided) -> None:
    agent = await voided()
    await agent.play("Go on.")
    await agent.play("And now?")
    assert [BODY in request.text for request in agent.model.requests[-2:]] == [True, False]
    assert [event.turn for event in agent.events(Expired)] == [1]


@pytest.mark.requirement("loop:void:no-compaction-under-an-open-request")
@awaited
async def test_no_compaction_happens_while_a_request_is_open() -> None:
    archived: list[int] = []

    async def answer(_view: RequestView) -> str:
        archived.append(await run.compact())
        return "Done."

    agent = AnAgent("Ready.", answer)
    await agent.play()
    run = await agent.begin("Go on.", compactor=lambda messages, _reminders: messages[-1:])
    await run.finish()
    assert archived == [0]
    assert agent.events(Compacted) == []
    assert await (await agent.begin(None, compactor=lambda messages, _: messages[-1:])).compact() > 0


# Retries.


@pytest.mark.requirement("loop:retry:causes")
@pytest.mark.parametrize(
    "failure",
    [
        *(pytest.param(ModelError("x", status=status), id=str(status)) for status in (408, 409, 429, 500, 503, 599)),
        pytest.param(ConnectionResetError("x"), id="lost-connection"),
        pytest.param(TimeoutError("x"), id="time-out"),
        pytest.param(hang, id="no-answer-in-time"),
    ],
)
@awaited
async def test_it_is_retried(failure: Exception | Callable[[], Awaitable[str]]) -> None:
    agent = AnAgent(failing(failure), "Done.")
    result = await agent.play()
    assert (result.status, result.text, len(agent.model.requests)) == (LoopStatus.COMPLETED, "Done.", 2)


@pytest.mark.requirement("loop:retry:causes")
@pytest.mark.parametrize(
    "failure",
    [
        *(pytest.param(ModelError("x", status=status), id=str(status)) for status in (400, 401, 403, 404, 413, 422)),
        pytest.param(ModelError("x"), id="unknown"),
        pytest.param(ValueError("x"), id="a-mistake-in-the-client"),
    ],
)
@awaited
async def test_it_is_not_retried(failure: Exception) -> None:
    agent = AnAgent(failing(failure), "Done.")
    result = await agent.play()
    assert (result.status, len(agent.model.requests)) == (LoopStatus.FAILED, 1)
    assert result.error is not None
    assert "x" in result.error


def failing(failure: Exception | Callable[[], Awaitable[str]]) -> Line:
    def answer(_view: RequestView) -> str | Awaitable[str]:
        if isinstance(failure, Exception):
            raise failure
        return failure()

    return answer


@pytest.mark.requirement("loop:retry:at-most-four")
@pytest.mark.parametrize(
    ("failures", "status"),
    [
        pytest.param(4, LoopStatus.COMPLETED, id="the-fourth-retry-may-succeed"),
        pytest.param(5, LoopStatus.FAILED, id="there-is-no-fifth"),
    ],
)
@awaited
async def test_a_request_is_retried_four_times(failures: int, status: LoopStatus) -> None:
    agent = AnAgent(*[GONE] * failures)
    assert (await agent.play()).status is status
    assert len(agent.model.requests) == 5


@pytest.mark.requirement("loop:retry:same-fragments")
@awaited
async def test_a_retry_sends_the_same_again_and_counts_the_attempt() -> None:
    async def fails(_view: RequestView) -> str:
        await agent.session.remind("What came in between waits for the next request.")
        raise GONE

    agent = AnAgent(fails, GONE)
    reminder_id = (await agent.session.remind(BODY, ttl_turns=2)).reminder_id
    await agent.play()
    first, second, third, fourth = agent.model.requests
    assert first == second == third
    assert [event.attempt for event in agent.events(RequestCommitted)] == [1, 2, 3, 1]
    assert [event.turn for event in agent.events(Fired) if event.reminder_id == reminder_id] == [1, 2]
    assert len(fourth.reminders) == 2


class Streaming(ScriptedModel):
    """Says half of its text before it fails or goes on."""

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        assert on_text is not None
        told = on_text("Half")
        if isinstance(told, Awaitable):
            await told
        return await super().complete(plan, on_text)


@pytest.mark.requirement("loop:retry:restarted-stream-is-announced")
@awaited
async def test_a_listener_is_told_when_the_text_starts_over() -> None:
    heard: list[object] = []
    agent = AnAgent()
    await agent.play(
        model=Streaming([GONE, "of it"]),
        on_text=heard.append,
        on_restart=lambda attempt, error: heard.append((attempt, error)),
    )
    assert heard == ["Half", (2, GONE), "Half", "of it"]


# Resuming.


async def killed_in_its_tools(*tools: ATool) -> AnAgent:
    """The process died with two calls made, one of them answered; another one has its journal."""
    dead = AnAgent(a_reply("quick", "slow"), tools=[ATool("quick"), ATool("slow", hang)])
    agent = AnAgent("Done.", tools=tools)
    await agent.remembers(await journal_until(dead, ResultRecorded))
    return agent


@pytest.mark.requirement("loop:resume:no-tool-runs-again")
@awaited
async def test_a_resumed_session_runs_no_tool_again_and_says_what_is_not_known() -> None:
    quick, slow = ATool("quick"), ATool("slow")
    agent = await killed_in_its_tools(quick, slow)
    await agent.play(None)
    assert (quick.calls, slow.calls) == ([], [])
    assert agent.results() == [("c1", "ok"), ("c2", "unknown")]
    assert "not known whether this ran" in agent.result_text("c2")
    assert "not known whether this ran" in agent.model.requests[0].text


@pytest.mark.requirement("loop:resume:names-what-is-missing")
@awaited
async def test_a_resumed_session_names_what_was_registered_when_it_last_ran_and_is_not_now() -> None:
    agent = AnAgent("One.", "Two.")
    agent.providers.register(id="mine", subscribes_to=["post_turn"], evaluate=lambda _: None)
    assert (await agent.play()).problems == ()
    agent.providers.clear()
    (problem,) = (await agent.play("Go on.")).problems
    assert problem.where == "provider mine"
    assert problem.message == "it was registered when this session last ran, and is not registered now"


@pytest.mark.requirement("loop:resume:idempotent-tools-may-repeat")
@awaited
async def test_a_tool_that_does_no_harm_twice_is_run_again_where_it_has_no_result() -> None:
    quick, slow = ATool("quick", idempotent=True), ATool("slow", idempotent=True)
    agent = await killed_in_its_tools(quick, slow)
    await agent.play(None)
    assert (quick.calls, slow.calls) == ([], [{}])
    assert agent.results() == [("c1", "ok"), ("c2", "ok")]
