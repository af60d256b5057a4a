"""How a turn ends: cancels from any process, what happens when the session becomes idle, and which calls need a question."""

import asyncio
from typing import Any, Final

import pytest

from sideband.core.errors import SessionBusy
from sideband.core.events import (
    AuditRecorded,
    Cancelled,
    Closed,
    Closing,
    Dropped,
    DropReason,
    Event,
    Expired,
    Idled,
    InjectDelivered,
    InjectRevoked,
    PermissionAsked,
    Recorded,
    ResultRecorded,
    Started,
    TurnVoided,
)
from sideband.core.messages import ToolCall
from sideband.loop.cancel import GRACE_SECONDS
from sideband.loop.run import LoopStatus
from sideband.models.scripted import Line
from sideband.ports import ModelError, ToolContext
from tests.agents import AnAgent, awaited
from tests.decisions import saying
from tests.loop_builders import ATool, a_reply, a_session, hang, others
from tests.waiting import until

TASK_OVER: Final = Closing(records={"task": "over"}, ends=True)


def kinds(events: tuple[Event, ...]) -> list[type[Event]]:
    return [type(event) for event in events]


# Cancels.


@pytest.mark.requirement("loop:cancel:one-commit-from-any-process")
@pytest.mark.parametrize("where", ["this-handle", "another-handle"])
@pytest.mark.parametrize(
    ("line", "ended"),
    [
        pytest.param(lambda _view: hang(), TurnVoided, id="in-a-model-call"),
        pytest.param(a_reply("slow"), ResultRecorded, id="in-a-tool"),
    ],
)
@awaited
async def test_a_cancel_is_one_commit_and_the_run_adds_nothing(line: Line, ended: type[Event], where: str) -> None:
    agent = AnAgent(line, tools=[ATool("slow", hang)])
    running = asyncio.ensure_future(agent.play())
    await until(lambda: agent.state.open_calls or agent.model.requests)
    steer = await agent.session.inject("steered", mode="steer")
    assert await (agent.session if where == "this-handle" else a_session(store=agent.store)).cancel()
    assert not agent.state.running
    assert (await running).status is LoopStatus.CANCELLED
    assert kinds(agent.recorded.commits[-1]) == [ended, Cancelled]
    assert [item.id for item in agent.state.inbox.items()] == [steer]


@pytest.mark.requirement("loop:cancel:nothing-runs-writes-nothing")
@awaited
async def test_a_cancel_when_nothing_runs_writes_nothing_and_holds_nothing() -> None:
    agent = AnAgent()
    await agent.play()
    agent.recorded.commits.clear()
    assert not await agent.session.cancel()
    assert not await a_session(store=agent.store).cancel()
    await agent.session.prompt("next")
    assert not await agent.session.cancel()
    assert (len(agent.recorded.commits), agent.state.queue_held) == (1, False)


@pytest.mark.requirement("loop:cancel:prompt-that-has-not-started")
@awaited
async def test_a_prompt_that_is_cancelled_before_its_turn_never_starts_one() -> None:
    agent = AnAgent()
    message_id = await agent.session.prompt("Never mind.")
    assert await a_session(store=agent.store).cancel(message_id)
    assert kinds(agent.recorded.commits[-1]) == [Started, InjectDelivered, Cancelled]
    assert agent.events(Started) == [Started(message_id=message_id)]
    assert (agent.state.running, len(agent.state.inbox)) == (False, 0)
    assert not await agent.session.talk.start_queued(even_held=True)


@pytest.mark.requirement("loop:cancel:prompt-that-waits-for-another-turn")
@pytest.mark.parametrize("runs", [True, False], ids=["another-turn-runs", "another-prompt-is-first"])
@awaited
async def test_a_cancelled_prompt_that_is_not_next_is_withdrawn_and_nothing_else(runs: bool) -> None:  # noqa: FBT001 - a column
    agent = AnAgent(lambda _view: hang())
    if runs:
        running = asyncio.ensure_future(agent.play())
        await until(lambda: agent.model.requests)
    else:
        await agent.session.prompt("first")
    message_id = await agent.session.prompt("not this one")
    assert await agent.session.cancel(message_id)
    assert kinds(agent.recorded.commits[-1]) == [InjectRevoked]
    assert agent.state.running is runs
    assert not agent.state.queue_held
    if runs:
        await agent.session.cancel()
        await running


@pytest.mark.requirement("loop:cancel:prompt-that-is-over")
@awaited
async def test_a_cancel_of_a_prompt_that_is_over_leaves_the_next_turn_alone() -> None:
    agent = AnAgent("Done.", lambda _view: hang())
    first = await agent.session.prompt("first")
    second = await agent.session.prompt("second")
    running = asyncio.ensure_future(agent.play(None))
    await until(lambda: len(agent.model.requests) == 2)
    assert not await agent.session.cancel(first)
    assert agent.state.prompt == second
    assert await agent.session.cancel(second)
    assert (await running).status is LoopStatus.CANCELLED


@pytest.mark.requirement("loop:cancel:while-a-run-begins")
@pytest.mark.parametrize("by", ["its-message", "its-session", "its-run"])
@awaited
async def test_a_run_that_is_cancelled_before_its_turn_sends_no_request(by: str) -> None:
    agent = AnAgent("never said")

    async def cancel(_context: object) -> None:
        if by == "its-message":
            assert await a_session(store=agent.store).cancel(run.prompt_id)
        elif by == "its-session":
            assert await agent.session.cancel()
        else:
            run.cancel()

    agent.hooks.register_session_hook("session_start", cancel)
    run = await agent.begin()
    assert (await run.finish()).status is LoopStatus.CANCELLED
    assert (agent.model.requests, len(agent.events(Cancelled)), len(agent.state.inbox)) == ([], 1, 0)
    agent.hooks.clear()
    assert not await agent.session.cancel(run.prompt_id)


@pytest.mark.requirement("loop:cancel:task-within-two-seconds")
@pytest.mark.parametrize("where", ["model", "tool", "task-of-a-tool", "hook"])
@awaited
async def test_code_that_ignores_the_cancellation_of_its_task_is_given_up_after_two_seconds(where: str) -> None:
    begun, over = asyncio.Event(), asyncio.Event()

    async def stubborn(*_: object) -> str:
        begun.set()
        while True:
            try:
                await hang()
            except asyncio.CancelledError:
                if over.is_set():
                    raise

    async def in_a_task(*_: object) -> str:
        tasks.append(asyncio.ensure_future(stubborn()))
        return await tasks[0]

    tasks: list[asyncio.Task[str]] = []
    tool = ATool(do=in_a_task if where == "task-of-a-tool" else stubborn)
    agent = AnAgent(stubborn if where == "model" else a_reply("work"), tools=[tool])
    if where == "hook":
        agent.hooks.register_session_hook("post_turn", stubborn)
    run = await agent.begin(hook_seconds=1_000)
    driving = asyncio.ensure_future(run.finish())
    await begun.wait()
    before = asyncio.get_running_loop().time()
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert asyncio.get_running_loop().time() - before < GRACE_SECONDS + 0.5
    assert (agent.state.running, agent.session.busy) == (False, False)
    over.set()
    for task in tasks:
        task.cancel()
    await others()


# The end of a run as data.


@pytest.mark.requirement("loop:closing:records-in-the-same-commit")
@pytest.mark.requirement("loop:idle:has-the-status")
@pytest.mark.parametrize(
    ("status", "line", "options"),
    [
        pytest.param("completed", "Done.", {}, id="completed"),
        pytest.param("max_turns", a_reply("work"), {"max_turns": 1}, id="max_turns"),
        pytest.param("max_tokens", a_reply("work", tokens=9), {"max_tokens": 1}, id="max_tokens"),
        pytest.param("failed", ModelError("no", status=400), {}, id="failed"),
    ],
)
@awaited
async def test_the_commit_that_makes_the_session_idle_sets_its_records(
    status: str, line: Line, options: dict[str, Any]
) -> None:
    agent = AnAgent(line)
    words = [word.value for word in LoopStatus if word is not LoopStatus.LEASE_LOST]
    closing = {word: Closing(records={"task": word}) for word in words}
    result = await agent.play(closing=closing, **options)
    assert result.status == status
    (ending,) = [commit for commit in agent.recorded.commits if any(isinstance(event, Idled) for event in commit)]
    assert ending == (Recorded(name="task", value=status), Idled(status=status))
    assert agent.state.records["task"] == status


@pytest.mark.requirement("loop:closing:records-in-the-same-commit")
@awaited
async def test_a_suspended_run_sets_its_records_too() -> None:
    agent = AnAgent(a_reply("work"))
    run = await agent.begin(closing={"suspended": Closing(records={"task": "input_required"})})
    run.suspend()
    assert (await run.finish()).status is LoopStatus.SUSPENDED
    assert agent.state.records["task"] == "input_required"


@pytest.mark.requirement("loop:closing:ends-the-session")
@awaited
async def test_a_run_may_end_its_session_and_observers_get_the_ends_before_the_record() -> None:
    agent = AnAgent("Done.")

    async def leave_something(_context: object) -> None:
        await agent.session.prompt("too late")

    agent.hooks.register_session_hook("pre_finish", leave_something)
    await agent.session.remind("a fact")
    await agent.session.remind("for the file", mode="audit_only")
    result = await agent.play(closing={"completed": TASK_OVER})
    assert (result.status, result.undelivered) == (LoopStatus.COMPLETED, ())
    ending = agent.recorded.commits[-1]
    assert kinds(ending) == [AuditRecorded, InjectRevoked, Expired, Recorded, Idled, Closed]
    assert ending[1] == InjectRevoked(
        message_id=agent.events(InjectRevoked)[0].message_id,
        reason=DropReason.TASK_FINISHED,
        provenance=agent.events(InjectRevoked)[0].provenance,
    )
    assert agent.state.closed_reason is DropReason.TASK_FINISHED


@pytest.mark.requirement("loop:closing:cancel-from-any-process")
@pytest.mark.parametrize("begun", [True, False], ids=["a-running-turn", "a-prompt-that-has-not-started"])
@awaited
async def test_a_cancel_from_another_handle_applies_what_the_run_was_begun_with(begun: bool) -> None:  # noqa: FBT001 - a column
    agent = AnAgent("Done." if not begun else lambda _view: hang())
    running = asyncio.ensure_future(agent.play(closing={"cancelled": TASK_OVER}))
    if begun:
        await until(lambda: agent.model.requests)
        await agent.session.remind("left over")
        assert await a_session(store=agent.store).cancel()
        assert (await running).status is LoopStatus.CANCELLED
        assert kinds(agent.recorded.commits[-1]) == [TurnVoided, Dropped, Recorded, Cancelled, Closed]
    else:
        await running
        message_id = await agent.session.prompt("next")
        assert await a_session(store=agent.store).cancel(message_id)
        assert kinds(agent.recorded.commits[-1]) == [Started, InjectDelivered, Recorded, Cancelled, Closed]
    assert (agent.state.records["task"], agent.state.closed) == ("over", True)


@pytest.mark.requirement("loop:closing:dead-run-applies-nothing")
@pytest.mark.requirement("loop:idle:has-the-status")
@awaited
async def test_the_recovery_of_a_dead_run_applies_nothing() -> None:
    agent = AnAgent("Done.")
    closing = {
        word.value: TASK_OVER for word in LoopStatus if word not in (LoopStatus.LEASE_LOST, LoopStatus.COMPLETED)
    }
    await agent.play(closing=closing)
    await agent.store.commit("main", saying(Started()))
    agent.recorded.commits.clear()
    await agent.play("Go on.", closing=closing)
    assert agent.recorded.commits[1] == (Idled(),)
    assert "task" not in agent.state.records


@pytest.mark.requirement("loop:agent:name-is-recorded")
@awaited
async def test_a_run_records_its_name_when_it_differs() -> None:
    agent = AnAgent()
    for name in ("planner", "planner", "writer"):
        await agent.play(name=name)
    assert agent.events(Recorded) == [Recorded(name="agent", value="planner"), Recorded(name="agent", value="writer")]


# Tools.


class Reads:
    """Asks about everything but reads; `fails` makes its predicate fail."""

    def __init__(self, *, fails: bool = False) -> None:
        self.asked: list[str] = []
        self._fails = fails

    async def needs(self, call: ToolCall) -> bool:
        if self._fails:
            raise LookupError("no rules")
        return call.name != "read"

    async def ask(self, call: ToolCall) -> str | None:
        self.asked.append(call.name)
        return None


@pytest.mark.requirement("loop:permission:predicate")
@pytest.mark.parametrize(("fails", "asked"), [(False, ["write"]), (True, ["read", "write"])], ids=["works", "fails"])
@awaited
async def test_a_call_that_needs_no_permission_is_made_without_a_question(fails: bool, asked: list[str]) -> None:  # noqa: FBT001 - a column
    permission = Reads(fails=fails)
    agent = AnAgent(a_reply("read"), a_reply("write"), tools=[ATool("read"), ATool("write")])
    told: list[str] = []
    agent.hooks.register_session_hook("permission_asked", lambda context: told.append(context["tool_name"]))
    result = await agent.play(permission=permission)
    assert (permission.asked, told, len(agent.events(PermissionAsked))) == (asked, asked, len(asked))
    assert [tool.calls for tool in agent.tools] == [[{}], [{}]]
    assert bool(result.problems) is fails


@pytest.mark.requirement("loop:tool:knows-its-call-id")
@awaited
async def test_a_running_tool_knows_the_id_of_its_call() -> None:
    def own_id(_args: object, context: ToolContext) -> str:
        return context.call_id

    agent = AnAgent(a_reply("work"), tools=[ATool(do=own_id)])
    await agent.play()
    assert agent.result_text("c1") == "c1"


# Closing.


@pytest.mark.requirement("promises:close:busy-session")
@pytest.mark.parametrize("daemon", [False, True], ids=["a-turn-runs", "an-idle-daemon"])
@awaited
async def test_closing_a_session_that_another_handle_runs_is_refused(daemon: bool) -> None:  # noqa: FBT001 - a column
    agent = AnAgent("Done." if daemon else lambda _view: hang())
    run = await agent.begin(daemon=daemon)
    driving = asyncio.ensure_future(run.finish())
    await until(lambda: agent.model.requests and agent.state.running is not daemon)
    before = len(agent.journal)
    with pytest.raises(SessionBusy):
        await a_session(store=agent.store).close()
    assert (len(agent.journal), agent.state.closed) == (before, False)
    run.cancel()
    await driving
    await a_session(store=agent.store).close()
    assert agent.state.closed
