"""The agent loop.

An iteration drains `iteration_start`, runs one turn of the model, and dispatches the tool calls of the reply between
`pre_tool_dispatch` and `post_tool_dispatch`. Then it drains `iteration_end`. After a reply without tool calls that is
the closing drain: if it takes nothing, the session is idle in the same commit, and the next queued message starts a
turn. If no message is queued, the run ends, or a daemon waits. The end of every run drains `loop_exit`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from enum import Enum, auto
from typing import Any, TypeAlias

from sideband.core.blocks import estimated_tokens
from sideband.core.drain import has_question
from sideband.core.errors import LeaseLost, NothingToAnswer
from sideband.core.events import Equipped
from sideband.core.hookevents import SessionEvent
from sideband.core.messages import Message, Reply, ToolCall, text_of
from sideband.core.seams import MAX_CLOSING_ITERATIONS, Mode, Seam
from sideband.core.topic import AGENT_RECORD
from sideband.core.turn import Unusable
from sideband.loop.cancel import CancelScope, Deadlines, Ended
from sideband.loop.compaction import AUTOMATIC_AT, PromptSize, compact, estimate_message
from sideband.loop.conversation import Conversation
from sideband.loop.daemon import DaemonIdle
from sideband.loop.dispatch import CallOutcome, Dispatcher
from sideband.loop.guard import Problem, Problems, file_changes
from sideband.loop.hooks import HookRunner
from sideband.loop.lease import HeldLease
from sideband.loop.run import Begins, DrivenRun, LoopEvent, LoopResult, LoopStatus, Meter, RunOptions, Step
from sideband.loop.turn import RequestSender, TurnRunner, described
from sideband.ports import ModelError
from sideband.providers.settings import NOTHING

# The named records that a suspended run sets, for the number of its last turn.
RecordsOfTurn: TypeAlias = Callable[[int], Mapping[str, Any]]


def _no_records(_turn: int) -> Mapping[str, Any]:
    return NOTHING


class Following(Enum):
    """What follows an iteration, or the beginning of a run."""

    ITERATION = auto()
    WAIT = auto()
    NOTHING = auto()


class RunPhase(Enum):
    """What a run is doing, as far as a cancellation by another process is concerned."""

    BEGINNING = auto()
    """Its message has not started a turn yet. The run is cancelled if the message leaves the inbox."""
    TURN = auto()
    """The session runs. The run is cancelled if the session becomes idle."""
    BETWEEN = auto()
    """The run itself starts or ends a turn, or waits for the next one."""


class AgentRun(DrivenRun):
    """One run of an agent: await `finish()`, call `step()`, or iterate over it. All three pass the same seams.

    Until the run is over, nothing else can run on its session. `async with run:` ends the run when the block is left;
    the session is idle then, and its inbox is unchanged.
    """

    def __init__(self, talk: Conversation, options: RunOptions, lease: HeldLease | None = None) -> None:
        super().__init__()
        self.options = options
        # The message that this run was begun for; None if it continues with what is queued.
        self.prompt_id = options.prompt
        # The named records of the session that the commit which begins the run sets.
        self.records: Mapping[str, Any] = {AGENT_RECORD: options.name}
        self._talk = talk
        self._lease = lease
        self._deadlines = Deadlines(keeps_timer=True)
        self._scope = CancelScope(self._deadlines)
        self._problems = Problems()
        report = self._problems.report
        self.hooks = HookRunner(
            talk,
            options.hooks,
            report,
            providers=options.providers,
            options=options.provider_options,
            task=options.task,
            context_window=getattr(options.model, "context_window", None),
            facts=options.facts,
            recall=options.recall,
            anchor=options.anchor,
            seconds=options.hook_seconds,
            scope=self._scope,
        )
        self._dispatcher = Dispatcher(
            talk,
            options.tools,
            self.hooks,
            seconds=options.tool_seconds,
            scope=self._scope,
            permission=options.permission,
            lease=lease,
        )
        sender = RequestSender(
            options.model,
            options.clock,
            self._scope,
            report,
            seconds=options.model_seconds,
            listener_seconds=options.hook_seconds,
            on_text=options.on_text,
            on_restart=options.on_restart,
        )
        schemas = described(options.tools)
        self._turns = TurnRunner(talk, options.model, sender, report, system=options.system, tools=schemas, lease=lease)
        self._idle = DaemonIdle(talk, self.hooks, options.clock, wake_seconds=options.wake_seconds)
        self._end = RunEnd(talk, self.hooks, lease)
        self._meter = Meter(
            max_turns=options.max_turns, max_tokens=options.max_tokens, context_window=options.context_window
        )
        # Each run has a meter of its own, and the first prompt of this one is at least as long as the last one.
        self._meter.prompt_tokens = talk.prompt_tokens
        self._fixed_tokens = estimated_tokens("".join(options.system)) + estimated_tokens(str(schemas))
        self._status, self._text = LoopStatus.COMPLETED, ""
        self._suspended = self._stopped = False
        # Closing drains in a row that took something and so added an iteration.
        self._closings = 0
        # The place in transcript order from which on reminders were added at `pre_finish`.
        self._finishing_from: int | None = None
        self._phase = RunPhase.BETWEEN
        self._watching: asyncio.Task[None] | None = None

    @property
    def error(self) -> str | None:
        """The final failure of the model, if there was one."""
        return self._end.error

    # The loop.

    async def _loop(self) -> AsyncGenerator[LoopEvent, None]:
        talk = self._talk
        following = Following.ITERATION if await self._begin() else Following.NOTHING
        while True:
            if following is Following.ITERATION:
                if not self._may_continue():
                    return
                await self._before_iteration()
                await talk.drain(Seam.ITERATION_START)
                reply = await self._turn()
                if reply is None:
                    await self._finish_turn()
                    following = Following.NOTHING
                    continue
                if self._pauses:
                    yield LoopEvent(Step.TURN, reply)
                await self._after_turn(reply)
                if reply.tool_calls:
                    outcomes = await self._dispatch(reply.tool_calls)
                    if self._pauses:
                        yield LoopEvent(Step.TOOLS, outcomes)
                    await self._drain(Seam.POST_TOOL_DISPATCH)
                    await self._after_step(outcomes)
                    await self._drain(Seam.ITERATION_END)
                    self._closings = 0
                    continue
                await self._close(reply)
            while (following := await self._next()) is Following.WAIT:
                if self._pauses:
                    yield LoopEvent(Step.IDLE)
                await self._idle.wait()
            if following is Following.NOTHING:
                return

    async def _begin(self) -> bool:
        """Begin the run; return whether it has a turn."""
        talk, options = self._talk, self.options
        if self._scope.ended:
            raise Ended
        if self._lease is not None:
            self._lease.keep(self._lose)
        self._phase = RunPhase.TURN if options.begins is Begins.RESUMED else RunPhase.BEGINNING
        self._watching = asyncio.ensure_future(self._watch())
        first = talk.state.live.turn == 0 and not talk.state.messages
        # Calls that a dead process left open get the result "unknown"; only idempotent tools run again.
        await talk.recover(repeatable=self._dispatcher.repeatable, resume=options.begins is Begins.RESUMED)
        equipped = Equipped(
            ids=tuple(options.registered), closing=dict(options.closing), hold_queue=options.hold_queue_after_cancel
        )
        for missing in await talk.equip(equipped, records=self.records):
            self.hooks.report(
                Problem(missing, "it was registered when this session last ran, and is not registered now")
            )
        if talk.open_calls():
            await self._dispatcher.run(talk.open_calls())
        if first:
            payload = {"task": options.task, "agent": options.name}
            await self.hooks.notify(SessionEvent.SESSION_START, payload)
        if self.was_cancelled():
            raise Ended
        started = await self._start()
        await self._call_personas("pre")
        if not started and options.begins is Begins.ANY:
            await talk.wake()
            return talk.state.running
        return started

    async def _start(self) -> bool:
        """Start the first turn; return False if nothing starts it. Raise `Ended` if its message was withdrawn."""
        match self.options.begins:
            case Begins.ANY:
                # Starting a run also delivers a message that was held back after a cancelled turn.
                starting = self._talk.start_queued(even_held=True, provided=self.prompt_id)
            case Begins.PROMPT:
                starting = self._talk.start_message(self.prompt_id or "")
            case Begins.INTERRUPT:
                self._phase = RunPhase.BETWEEN
                return bool(await self._talk.drain(Seam.DAEMON_IDLE_PRE, starting=True))
            case Begins.RESUMED:
                return True
        started = await self._deliver(starting)
        if not started and self.prompt_id is not None:
            raise Ended
        return started

    async def _watch(self) -> None:
        """End the run when another process has cancelled its turn."""
        wake = self._talk.journal.wake(self._talk.session_id)
        while True:
            wake.clear()
            if self.was_cancelled():
                self.cancel()
                return
            await wake.wait()

    def was_cancelled(self) -> bool:
        """Whether the turn of this run was cancelled, here or in another process."""
        state = self._talk.state
        if self._phase is RunPhase.BEGINNING:
            return self.prompt_id is not None and state.inbox.get(self.prompt_id) is None
        return self._phase is RunPhase.TURN and not state.running

    def _request_follows(self) -> bool:
        """Whether this run may send another request. If not, items stay in the inbox, where they can be revoked."""
        return not self._suspended and self._meter.spent is None

    async def _drain(self, seam: Seam) -> None:
        """Drain a seam after tools, if a request follows that can show what it takes."""
        if self._request_follows():
            await self._talk.drain(seam)

    def _may_continue(self) -> bool:
        """Whether another iteration follows; if not, set the status to the reason."""
        if self._scope.ended:
            raise Ended
        if self._suspended:
            self._status = LoopStatus.SUSPENDED
        elif (spent := self._meter.spent) is not None:
            self._status = LoopStatus(spent)
        else:
            self._phase = RunPhase.TURN
            if self.was_cancelled():
                raise Ended
            return True
        return False

    async def _before_iteration(self) -> None:
        options, window = self.options, self._meter.context_window
        if window and options.compactor is not None and self._prompt_tokens() >= AUTOMATIC_AT * window:
            await self.compact()
        if options.watcher is not None:
            scope, seconds = self.hooks.scope, options.hook_seconds
            for change in await file_changes(options.watcher, self.hooks.report, scope=scope, seconds=seconds):
                await self.hooks.notify(SessionEvent.FILE_EDITED, {"path": change.path, "kind": change.kind})
        if options.hooks.step:
            payload = {"turn": self._talk.state.next_turn}
            await self.hooks.call_paired("step", "pre", options.hooks.step, payload)

    async def _turn(self) -> Reply | None:
        """Run one turn; return None if there is nothing to answer, so that no request is sent.

        The reminder that was to be answered may be gone: it was cleared, ended by the compaction, or cannot be shown.
        """
        if has_question(self._talk.state):
            try:
                return await self._turns.run()
            except NothingToAnswer as nothing:
                unusable = [entry for entry in nothing.unusable if isinstance(entry, Unusable)]
                await self._talk.drop_unusable(unusable)
        return None

    async def _after_turn(self, reply: Reply) -> None:
        self._text = reply.text
        self._meter.count(reply.usage)
        self._talk.prompt_tokens = self._meter.prompt_tokens
        if self.hooks.listens(SessionEvent.POST_TURN):
            payload = {"turn": self._talk.state.live.turn, "text": reply.text}
            await self.hooks.notify(SessionEvent.POST_TURN, payload)
        for payload in self._meter.crossed():
            payload["turn"] = self._talk.state.live.turn
            await self.hooks.notify(SessionEvent.ON_BUDGET_THRESHOLD, payload)

    async def _dispatch(self, calls: Sequence[ToolCall]) -> list[CallOutcome]:
        """Run the calls and return their outcomes; none if an interrupt skipped the calls."""
        if self._request_follows():
            interrupted = bool(await self._talk.drain(Seam.PRE_TOOL_DISPATCH, calls=calls))
        else:
            interrupted = await self._talk.skip(calls)
        if self.was_cancelled():
            raise Ended
        return [] if interrupted else await self._dispatcher.run(calls)

    async def _after_step(self, outcomes: Sequence[CallOutcome]) -> None:
        step_hooks = self.options.hooks.step
        if not (step_hooks or self.hooks.listens(SessionEvent.POST_STEP)):
            return
        results = [{"tool_name": outcome.call.name, "status": str(outcome.status)} for outcome in outcomes]
        payload = {"turn": self._talk.state.live.turn, "results": results}
        await self.hooks.notify(SessionEvent.POST_STEP, payload)
        if step_hooks:
            await self.hooks.call_paired("step", "post", step_hooks, payload)

    async def _close(self, reply: Reply) -> None:
        """End an iteration without tool calls."""
        payload = {"turn": self._talk.state.live.turn, "text": reply.text}
        await self.hooks.notify(SessionEvent.POST_AGENT_TURN, payload)
        await self._after_step([])
        # Only what is added from here on adds an iteration. Earlier reminders of this step wait for the next request:
        # a provider that reviews every reply would otherwise keep the run going.
        self._finishing_from = self._talk.state.live.next_place
        await self.hooks.notify(SessionEvent.PRE_FINISH, {"text": reply.text})
        await self._finish_turn()

    async def _finish_turn(self) -> None:
        """The closing drain. What it takes, and what was added at `pre_finish`, is shown in one more iteration.

        After `MAX_CLOSING_ITERATIONS` in a row, both wait for the next prompt.
        """
        taken = False
        self._phase = RunPhase.BETWEEN
        if self._closings >= MAX_CLOSING_ITERATIONS:
            await self._talk.idle(status=LoopStatus.COMPLETED)
        elif self._request_follows():
            added_from = self._finishing_from
            taken = bool(await self._talk.drain(Seam.ITERATION_END, closing=True, added_from=added_from))
        self._closings = self._closings + 1 if taken else 0
        if taken:
            self._phase = RunPhase.TURN

    async def _next(self) -> Following:
        """What follows: an iteration if the closing drain took something, a message was queued or a daemon was woken.

        A run that was cancelled or suspended, or whose budget is spent with work left, gets an iteration, too:
        `_may_continue` ends it with the right status.
        """
        if self._phase is RunPhase.TURN or self._scope.ended or self._suspended:
            return Following.ITERATION
        if self._talk.state.closed:
            return Following.NOTHING
        if self._meter.spent is not None:
            # Without work left the run is completed, although its budget is spent.
            return Following.ITERATION if self.options.daemon or self._has_work_left() else Following.NOTHING
        if self._talk.state.running:
            return Following.ITERATION
        if self.options.begins is not Begins.ANY:
            return Following.NOTHING
        if await self._deliver(self._talk.start_queued()):
            return Following.ITERATION
        return Following.WAIT if self.options.daemon and not self._stopped else Following.NOTHING

    def _has_work_left(self) -> bool:
        """Whether the inbox has something that this run would take, or a reminder was added at `pre_finish`."""
        goes_on = self.options.begins is Begins.ANY and not self._talk.state.queue_held
        modes = (Mode.INTERRUPT_IMMEDIATE, Mode.FINISH_STEP, *((None,) if goes_on else ()))
        state, added_from = self._talk.state, self._finishing_from
        return any(state.inbox.waiting(mode) for mode in modes) or (
            added_from is not None and any(item.place >= added_from for item in state.live)
        )

    async def _deliver(self, starting: Awaitable[bool]) -> bool:
        """Let a queued message start a turn; return False if none does."""
        self._phase = RunPhase.BETWEEN
        if not await starting:
            return False
        self._phase = RunPhase.TURN
        prompt = text_of(self._talk.state.messages[-1])
        await self.hooks.notify(SessionEvent.USER_PROMPT_SUBMIT, {"prompt": prompt})
        return True

    async def _call_personas(self, side: str) -> None:
        hooks = self.options.hooks.personas_matching(self.options.name)
        await self.hooks.call_paired("persona", side, hooks, {"agent": self.options.name})

    # Control.

    async def compact(self) -> int:
        """Compact now, between two turns; return how many messages were archived."""
        if self.options.compactor is None:
            return 0
        seconds = self.options.model_seconds
        try:
            prompt = PromptSize(self._meter.prompt_tokens, self._fixed_tokens, self._meter.context_window)
            archived = await compact(self._talk, self.options.compactor, self.hooks, seconds=seconds, prompt=prompt)
        except Ended:
            # The run was cancelled; its end is reported by the run itself.
            return 0
        if archived:
            self._talk.prompt_tokens = self._meter.prompt_tokens = 0
        return archived

    def _prompt_tokens(self) -> int:
        """The tokens of the last prompt; an estimate if no request of this process has measured it."""
        messages = self._talk.state.messages
        return self._meter.prompt_tokens or self._fixed_tokens + sum(map(estimate_message, messages))

    def cancel(self) -> None:
        """End the turn, and with it the run; the inbox stays as it is."""
        self._scope.end()
        self._dispatcher.end()
        self._idle.end()

    def unfinished_results(self) -> dict[str, Message]:
        """The results of the running tool calls if they were cancelled now, by call id."""
        return self._dispatcher.results()

    def cancel_call(self, call_id: str) -> bool:
        """Cancel one running tool call; the other calls and the run continue. Return False if no such call runs."""
        return self._dispatcher.cancel_call(call_id)

    def suspend(self, *, records: RecordsOfTurn = _no_records) -> None:
        """End the run after the current step, so that it can be resumed.

        The commit that ends it sets the named records of the session that `records` returns for the last turn.
        """
        self._suspended, self._end.suspension = True, records
        self._idle.end()

    def leave(self) -> None:
        """End the run now and leave its turn open, as if this process had died, so that another run can resume it."""
        if self._lease is not None:
            self._lease.give_up()
        self._lose(LeaseLost(self._talk.session_id, why="the run was left"))

    def stop(self) -> None:
        """End a daemon when it is idle: now, or when it becomes idle."""
        self._stopped = True
        self._idle.end()

    def _lose(self, lost: LeaseLost) -> None:
        self._end.lost = lost
        self.cancel()

    # The end.

    async def _conclude(self, why: Exception | None) -> LoopResult:
        # A scope of their own, because hooks on the end of a run are called after a cancellation too.
        self.hooks.scope = self._scope.sibling()
        self._stop_watching()
        self._status = await self._end.close(why, self._status, prompt=self.prompt_id)
        if self._end.lost is None:
            await self._end.release()
        self.over = True
        await self._call_personas("post")
        payload = {"status": self._status.value, "text": self._text}
        await self.hooks.notify(SessionEvent.POST_FINISH, payload)
        await self._release()
        return LoopResult(
            status=self._status,
            text=self._text,
            turns=self._meter.turns,
            usage=self._meter.usage,
            undelivered=deepcopy(tuple(self._talk.state.inbox.items())),
            problems=self._problems.listed(),
            error=self._end.error,
        )

    async def _abandon(self, *, begun: bool, status: LoopStatus = LoopStatus.CANCELLED) -> None:
        self._stop_watching()
        try:
            if begun and not self.over:
                await self._end.settle(status)
        finally:
            try:
                await self._release()
            finally:
                self.over = True

    def _stop_watching(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _release(self) -> None:
        self._deadlines.stop()
        self.hooks.scope = CancelScope()
        # A run that has lost its lease keeps the stale one until here, so that the store refuses its commits.
        await self._end.release()
        if self._end.lost is None:
            await self._talk.write_notes()


class RunEnd:
    """Ends a run: leaves nothing open and frees the session. `error` is the model's final failure, if there was one.

    After the lease was lost (`lost`) nothing more is written, because another process may run the session.
    """

    def __init__(self, talk: Conversation, hooks: HookRunner, lease: HeldLease | None) -> None:
        self._talk = talk
        self._hooks = hooks
        self._lease = lease
        self.lost: LeaseLost | None = None
        self.error: str | None = None
        # Named records to set if the run ends because it was suspended.
        self.suspension: RecordsOfTurn = _no_records

    async def close(self, why: Exception | None, status: LoopStatus, *, prompt: str | None) -> LoopStatus:
        """Settle the session; return the status for the exception `why`, or `status` if the run ended by itself."""
        if isinstance(why, LeaseLost):
            self.lost = why
        try:
            if self.lost is None:
                status = await self._end_turn(why, status, prompt)
                await self.settle(status)
        except LeaseLost as error:
            self.lost = error
        if self.lost is None:
            return status
        self._hooks.report(Problem("lease", str(self.lost)))
        return LoopStatus.LEASE_LOST

    async def _end_turn(self, why: Exception | None, status: LoopStatus, prompt: str | None) -> LoopStatus:
        if isinstance(why, Ended):
            await self._talk.cancel(prompt=prompt)
            return LoopStatus.CANCELLED
        if isinstance(why, ModelError):
            self.error = str(why)
            await self._talk.void_turn()
            await self._hooks.notify(SessionEvent.SESSION_ERROR, {"error": self.error})
            return LoopStatus.FAILED
        return status

    async def settle(self, status: LoopStatus) -> None:
        """Make the session idle and drain `loop_exit`."""
        if self.lost is None:
            is_suspended = status is LoopStatus.SUSPENDED
            records = self.suspension(self._talk.state.live.turn) if is_suspended else NOTHING
            await self._talk.settle(status=status, records=records)
            await self._talk.drain(Seam.LOOP_EXIT)

    async def release(self) -> None:
        """Release the lease; from then on another process may run the session."""
        if self._lease is not None:
            await self._lease.release()
