"""The agent loop. Its seams are calls in reading order; every way of driving it passes them all."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from sideband.core.hookevents import SessionEvent
from sideband.core.items import InboxItem
from sideband.core.seams import MAX_CLOSING_ITERATIONS, Mode, Seam
from sideband.loop.asking import Asker
from sideband.loop.budget import Meter
from sideband.loop.compaction import AUTOMATIC_AT, compact
from sideband.loop.dispatch import Dispatcher
from sideband.loop.idling import Idler
from sideband.loop.messages import text_of
from sideband.loop.outcome import Outcome
from sideband.loop.problems import Problem, describe
from sideband.loop.run import LoopEvent, LoopParts, LoopResult, LoopSettings, LoopStatus, Step
from sideband.loop.scope import Alarm, Ended, OutOfTime, Scope
from sideband.loop.telling import Teller
from sideband.ports import FileChange, ModelError, Reply

# Needed in every turn: finding a member of an enumeration takes as long as a call.
ITERATION_START, PRE_TOOL_DISPATCH = Seam.ITERATION_START, Seam.PRE_TOOL_DISPATCH
POST_TOOL_DISPATCH, ITERATION_END = Seam.POST_TOOL_DISPATCH, Seam.ITERATION_END
POST_TURN, POST_STEP = SessionEvent.POST_TURN, SessionEvent.POST_STEP
TURN, TOOLS = Step.TURN, Step.TOOLS


class AgentRun:
    """One run of an agent. Await `finish()`, call `step()`, or iterate: it is the same run, and passes the same seams.

    Leaving an iteration early ends the run. Whoever calls `step()` and stops in the middle awaits `aclose()`, or uses the
    run as an asynchronous context manager; the session is idle after that, and its inbox is as it was.
    """

    def __init__(self, parts: LoopParts, settings: LoopSettings) -> None:
        self.settings = settings
        self.over = False
        self.result: LoopResult | None = None
        self._parts, self._talk = parts, parts.talk
        self._alarm = Alarm(keeps_timer=True)
        self._scope = Scope(self._alarm)
        self._problems: list[Problem] = []
        report = self._problems.append
        self.teller = Teller(
            parts.talk, parts.hooks, parts.providers, parts.around, report, seconds=settings.hook_seconds
        )
        self._dispatcher = Dispatcher(
            parts.talk,
            parts.tools,
            parts.hooks,
            self.teller,
            seconds=settings.tool_seconds,
            alarm=self._alarm,
            permission=parts.permission,
        )
        self._asker = Asker(
            parts.talk,
            parts.model,
            parts.clock,
            self._scope,
            report,
            seconds=settings.model_seconds,
            on_text=parts.on_text,
            on_restart=parts.on_restart,
        )
        self._idler = Idler(parts.talk, self.teller, parts.clock, wake_seconds=settings.wake_seconds)
        self._meter = Meter(settings.budget, context_window=settings.context_window)
        self._schemas = parts.schemas()
        self._status, self._text = LoopStatus.COMPLETED, ""
        self._error: str | None = None
        self._suspended = self._stopped = False
        self._events = self._play()

    # Driving it.

    async def __aiter__(self) -> AsyncIterator[LoopEvent]:
        try:
            async for event in self._events:
                yield event
        finally:
            await self.aclose()

    async def step(self) -> LoopEvent | None:
        """Go on to the next event; None when the run is over."""
        return await anext(self._events, None)

    async def finish(self) -> LoopResult:
        """Run to the end."""
        async for _ in self._events:
            pass
        if self.result is None:
            raise RuntimeError("this run was ended before it came to a result")
        return self.result

    async def aclose(self) -> None:
        """End the run where it stands, if it is not over."""
        await self._events.aclose()
        self.over = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # Ending it.

    def cancel(self) -> None:
        """End the turn, and with it the run; the inbox stays as it is."""
        self._scope.end()
        self._idler.end()

    def cancel_call(self, call_id: str) -> bool:
        """Cancel one running tool call; its siblings and the run live on. False where no such call runs."""
        return self._dispatcher.cancel_call(call_id)

    def suspend(self) -> None:
        """End the run after the step it is in, so that it can be resumed."""
        self._suspended = True
        self._idler.end()

    def stop(self) -> None:
        """Let a daemon end: at once where it is idle, else when it would become so."""
        self._stopped = True
        self._idler.end()

    # The loop.

    async def _play(self) -> AsyncGenerator[LoopEvent, None]:
        talk, tell, closings = self._talk, self.teller.tell, 0
        try:
            await self._begin()
            while self._may_go_on():
                await self._before_iteration()
                await talk.drain(ITERATION_START)
                reply = await self._asker.turn(self.settings.system, self._schemas)
                yield LoopEvent(TURN, reply)
                await self._after_turn(reply)
                if reply.tool_calls:
                    interrupted = await talk.drain(PRE_TOOL_DISPATCH, calls=reply.tool_calls)
                    outcomes = [] if interrupted else await self._scope.inside(self._dispatcher.run(reply.tool_calls))
                    yield LoopEvent(TOOLS, outcomes)
                    await self._take(POST_TOOL_DISPATCH)
                    await self._after_step(outcomes)
                    await self._take(ITERATION_END)
                    closings = 0
                    continue
                await tell(SessionEvent.POST_AGENT_TURN, turn=talk.state.live.turn, text=reply.text)
                await self._after_step([])
                await tell(SessionEvent.PRE_FINISH, text=reply.text)
                late = await self._close(closings)
                closings = closings + 1 if late else 0
                while (goes_on := await self._next()) is None:
                    yield LoopEvent(Step.IDLE)
                    await self._idler.wait()
                if not goes_on:
                    break
        except Ended:
            self._status = LoopStatus.CANCELLED
            await talk.cancel(hold_queue=self.settings.hold_queue_after_cancel)
        except ModelError as error:
            await self._fail(str(error))
        finally:
            # Also when the run is abandoned or something of ours is broken: no session is left running by nobody, and
            # nobody begins another run before that is settled.
            try:
                await talk.settle(hold_queue=self.settings.hold_queue_after_cancel)
                await talk.drain(Seam.LOOP_EXIT)
            finally:
                self.over = True
                self._alarm.off()
        await self._personas("post")
        await tell(SessionEvent.POST_FINISH, status=self._status.value, text=self._text)
        await talk.write_notes()
        self.result = self._result()
        yield LoopEvent(Step.FINISHED, self.result)

    async def _begin(self) -> None:
        talk = self._talk
        first = talk.state.live.turn == 0 and not talk.state.messages
        # What a process that died left open is told as unknown; only what does no harm twice is run again.
        await talk.recover(may_repeat=self._dispatcher.may_repeat)
        if talk.open_calls():
            await self._scope.inside(self._dispatcher.run(talk.open_calls()))
        if first:
            await self.teller.tell(SessionEvent.SESSION_START, task=self.settings.task, agent=self.settings.name)
        # Who begins a run has said the word that a message held after a cancel waits for.
        if not await self._deliver_queued(even_held=True):
            await talk.started()
        await self._personas("pre")

    def _may_go_on(self) -> bool:
        """Whether another iteration follows; where none does, the status says why."""
        if self._scope.ended:
            raise Ended
        if self._suspended:
            self._status = LoopStatus.SUSPENDED
        elif (spent := self._meter.spent()) is not None:
            self._status = LoopStatus(spent)
        elif not self._talk.state.running:
            # Another process has cancelled the turn, or closed the session.
            raise Ended
        else:
            return True
        return False

    async def _before_iteration(self) -> None:
        window = self._meter.context_window
        if window and self._meter.prompt_tokens >= AUTOMATIC_AT * window:
            await self.compact()
        for change in self._changes():
            await self.teller.tell(SessionEvent.FILE_EDITED, path=change.path, kind=change.kind)
        if self._parts.hooks.step:
            payload = {"turn": self._talk.state.next_turn}
            await self.teller.ask_around("step", "pre", self._parts.hooks.step, payload)

    async def _after_turn(self, reply: Reply) -> None:
        self._text = reply.text
        self._meter.count(reply.usage)
        if self.teller.hears(POST_TURN):
            await self.teller.tell(POST_TURN, turn=self._talk.state.live.turn, text=reply.text)
        for payload in self._meter.crossed():
            await self.teller.tell(SessionEvent.ON_BUDGET_THRESHOLD, **payload)

    async def _after_step(self, outcomes: Sequence[Outcome]) -> None:
        results = [{"tool_name": outcome.call.name, "status": str(outcome.status)} for outcome in outcomes]
        payload = {"turn": self._talk.state.live.turn, "results": results}
        await self.teller.pass_on(POST_STEP, payload)
        if self._parts.hooks.step:
            await self.teller.ask_around("step", "post", self._parts.hooks.step, payload)

    async def _take(self, seam: Seam, *, closing: bool = False) -> tuple[InboxItem, ...]:
        """Drain what the next request will show; where none follows it stays where its sender can take it back."""
        ends = self._suspended or self._meter.spent() is not None
        return () if ends else await self._talk.drain(seam, closing=closing)

    async def _close(self, closings: int) -> bool:
        """The closing drain, and whether it took something; one that has bought enough iterations in a row does not."""
        if closings < MAX_CLOSING_ITERATIONS:
            return bool(await self._take(Seam.ITERATION_END, closing=True))
        await self._talk.idle()
        return False

    async def _next(self) -> bool | None:
        """Whether the run goes on: with what the closing drain took, a queued message, or what woke a daemon.

        None where a daemon waits for any of these.
        """
        if self._scope.ended or self._suspended:
            return True
        if self._meter.spent() is not None:
            # Who is through is through; only with work left it is the budget that ends the run.
            return self.settings.daemon or self._has_work()
        if self._talk.state.running or await self._deliver_queued():
            return True
        return None if self.settings.daemon and not self._stopped else False

    def _has_work(self) -> bool:
        inbox, held = self._talk.state.inbox, self._talk.state.queue_held
        modes = (Mode.INTERRUPT_IMMEDIATE, Mode.FINISH_STEP, *(() if held else (None,)))
        return any(inbox.waiting(mode) for mode in modes)

    async def _deliver_queued(self, *, even_held: bool = False) -> bool:
        if not await self._talk.start_queued(even_held=even_held):
            return False
        await self.teller.tell(SessionEvent.USER_PROMPT_SUBMIT, prompt=text_of(self._talk.state.messages[-1]))
        return True

    # What else may happen.

    async def compact(self) -> int:
        """Compact now, between two turns; how many messages were archived."""
        if self._parts.compactor is None:
            return 0
        seconds = self.settings.model_seconds
        try:
            work = compact(self._talk, self._parts.compactor, self.teller)
            archived = await self._scope.inside(work, seconds=seconds)
        except Ended:
            raise
        except OutOfTime:
            self._problems.append(Problem("compactor", f"it took longer than {seconds:g} s"))
            return 0
        except Exception as error:  # noqa: BLE001 - the conversation goes on, longer than it should be
            self._problems.append(Problem("compactor", describe(error)))
            return 0
        if archived:
            self._meter.prompt_tokens = 0
        return archived

    def _changes(self) -> Sequence[FileChange]:
        try:
            return () if self._parts.watcher is None else self._parts.watcher.changes()
        except Exception as error:  # noqa: BLE001 - a watcher that fails stops nothing
            self._problems.append(Problem("watcher", describe(error)))
            return ()

    async def _fail(self, message: str) -> None:
        self._status, self._error = LoopStatus.FAILED, message
        await self._talk.void_turn()
        await self.teller.tell(SessionEvent.SESSION_ERROR, error=message)

    async def _personas(self, side: str) -> None:
        hooks = self._parts.hooks.personas_matching(self.settings.name)
        await self.teller.ask_around("persona", side, hooks, {"agent": self.settings.name})

    def _result(self) -> LoopResult:
        return LoopResult(
            status=self._status,
            text=self._text,
            turns=self._meter.turns,
            usage=self._meter.usage,
            undelivered=tuple(self._talk.state.inbox.items()),
            problems=tuple(self._problems),
            error=self._error,
        )
