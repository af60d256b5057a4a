"""The agent loop. Its seams are calls in reading order; every way of driving it passes them all."""

from collections.abc import AsyncGenerator, Sequence

from sideband.core.failures import LeaseLost
from sideband.core.hookevents import SessionEvent
from sideband.core.seams import MAX_CLOSING_ITERATIONS, Mode, Seam
from sideband.loop.asking import Asker
from sideband.loop.budget import Meter
from sideband.loop.compaction import AUTOMATIC_AT, compact
from sideband.loop.dispatch import Dispatcher
from sideband.loop.driving import Driven
from sideband.loop.ending import Ending
from sideband.loop.idling import Idler
from sideband.loop.messages import text_of
from sideband.loop.outcome import Outcome
from sideband.loop.problems import Problem, Problems
from sideband.loop.run import LoopEvent, LoopParts, LoopResult, LoopSettings, LoopStatus, Step
from sideband.loop.scope import Alarm, Ended, Scope
from sideband.loop.sending import Sender
from sideband.loop.telling import Teller
from sideband.loop.watching import noticed
from sideband.ports import Reply


class AgentRun(Driven):
    """One run of an agent. Await `finish()`, call `step()`, or iterate: it is the same run, and passes the same seams.

    Until it is over, nothing else can run on its session. Whoever may leave it before that says `async with run:`, which
    ends it where it stands; the session is idle after that, and its inbox is as it was.
    """

    def __init__(self, parts: LoopParts, settings: LoopSettings) -> None:
        super().__init__()
        self.settings = settings
        self._parts, self._talk = parts, parts.talk
        self._alarm = Alarm(keeps_timer=True)
        self._scope = Scope(self._alarm)
        self._problems = Problems()
        report = self._problems.report
        self.teller = Teller(
            parts.talk,
            parts.hooks,
            parts.providers,
            parts.around,
            report,
            seconds=settings.hook_seconds,
            scope=self._scope,
        )
        self._dispatcher = Dispatcher(
            parts.talk,
            parts.tools,
            parts.hooks,
            self.teller,
            seconds=settings.tool_seconds,
            scope=self._scope,
            permission=parts.permission,
            tenure=parts.tenure,
        )
        sender = Sender(
            parts.model,
            parts.clock,
            self._scope,
            report,
            seconds=settings.model_seconds,
            listener_seconds=settings.hook_seconds,
            on_text=parts.on_text,
            on_restart=parts.on_restart,
        )
        self._asker = Asker(
            parts.talk,
            parts.model,
            sender,
            report,
            system=settings.system,
            tools=parts.schemas(),
            tenure=parts.tenure,
        )
        self._ending = Ending(parts.talk, self.teller, parts.tenure, hold_queue=settings.hold_queue_after_cancel)
        self._idler = Idler(parts.talk, self.teller, parts.clock, wake_seconds=settings.wake_seconds)
        self._meter = Meter(settings.budget, context_window=settings.context_window)
        self._status, self._text = LoopStatus.COMPLETED, ""
        self._suspended = self._stopped = False

    # Ending it.

    def cancel(self) -> None:
        """End the turn, and with it the run; the inbox stays as it is."""
        self._scope.end()
        self._dispatcher.end()
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

    def _lose(self, lost: LeaseLost) -> None:
        self._ending.lost = lost
        self.cancel()

    # The loop.

    async def _play(self) -> AsyncGenerator[LoopEvent, None]:
        talk, tell, closings = self._talk, self.teller.tell, 0
        await self._begin()
        resting = not talk.state.running
        while resting or self._may_go_on():
            if not resting:
                await self._before_iteration()
                await talk.drain(Seam.ITERATION_START)
                reply = await self._asker.turn()
                if self._pauses:
                    yield LoopEvent(Step.TURN, reply)
                await self._after_turn(reply)
                if reply.tool_calls:
                    outcomes = await self._dispatch(reply)
                    if self._pauses:
                        yield LoopEvent(Step.TOOLS, outcomes)
                    if not self._ends():
                        await talk.drain(Seam.POST_TOOL_DISPATCH)
                    await self._after_step(outcomes)
                    if not self._ends():
                        await talk.drain(Seam.ITERATION_END)
                    closings = 0
                    continue
                await tell(SessionEvent.POST_AGENT_TURN, turn=talk.state.live.turn, text=reply.text)
                await self._after_step([])
                await tell(SessionEvent.PRE_FINISH, text=reply.text)
                late = await self._close(closings)
                closings = closings + 1 if late else 0
            while (goes_on := await self._next()) is None:
                if self._pauses:
                    yield LoopEvent(Step.IDLE)
                await self._idler.wait()
            if not goes_on:
                break
            resting = False

    async def _begin(self) -> None:
        talk = self._talk
        if self._parts.tenure is not None:
            self._parts.tenure.keep(self._lose)
        first = talk.state.live.turn == 0 and not talk.state.messages
        # What a process that died left open is told as unknown; only what does no harm twice is run again.
        await talk.recover(may_repeat=self._dispatcher.may_repeat)
        for missing in await talk.equip(self._parts.registered):
            self.teller.report(Problem(missing, "it was registered when this session last ran, and is not now"))
        if talk.open_calls():
            await self._dispatcher.run(talk.open_calls())
        if first:
            await self.teller.tell(SessionEvent.SESSION_START, task=self.settings.task, agent=self.settings.name)
        # Who begins a run has said the word that a message held after a cancel waits for.
        delivered = await self._deliver_queued(even_held=True)
        await self._personas("pre")
        if not delivered:
            await talk.wake()

    def _ends(self) -> bool:
        """Whether no request follows in this run: what one would show stays where its sender can take it back."""
        return self._suspended or self._meter.spent is not None

    def _may_go_on(self) -> bool:
        """Whether another iteration follows; where none does, the status says why."""
        if self._scope.ended:
            raise Ended
        if self._suspended:
            self._status = LoopStatus.SUSPENDED
        elif (spent := self._meter.spent) is not None:
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
        if self._parts.watcher is not None:
            for change in await noticed(self._parts.watcher, self.teller, seconds=self.settings.hook_seconds):
                await self.teller.tell(SessionEvent.FILE_EDITED, path=change.path, kind=change.kind)
        if self._parts.hooks.step:
            payload = {"turn": self._talk.state.next_turn}
            await self.teller.ask_around("step", "pre", self._parts.hooks.step, payload)

    async def _after_turn(self, reply: Reply) -> None:
        self._text = reply.text
        self._meter.count(reply.usage)
        if self.teller.hears(SessionEvent.POST_TURN):
            await self.teller.tell(SessionEvent.POST_TURN, turn=self._talk.state.live.turn, text=reply.text)
        for payload in self._meter.crossed():
            await self.teller.tell(SessionEvent.ON_BUDGET_THRESHOLD, **payload)

    async def _dispatch(self, reply: Reply) -> list[Outcome]:
        """What became of the calls; nothing where an interrupt came before them."""
        calls = reply.tool_calls
        if self._ends():
            interrupted = await self._talk.skip(calls)
        else:
            interrupted = bool(await self._talk.drain(Seam.PRE_TOOL_DISPATCH, calls=calls))
        return [] if interrupted else await self._dispatcher.run(calls)

    async def _after_step(self, outcomes: Sequence[Outcome]) -> None:
        if not (self._parts.hooks.step or self.teller.hears(SessionEvent.POST_STEP)):
            return
        results = [{"tool_name": outcome.call.name, "status": str(outcome.status)} for outcome in outcomes]
        payload = {"turn": self._talk.state.live.turn, "results": results}
        await self.teller.pass_on(SessionEvent.POST_STEP, payload)
        if self._parts.hooks.step:
            await self.teller.ask_around("step", "post", self._parts.hooks.step, payload)

    async def _close(self, closings: int) -> bool:
        """The closing drain, and whether it took something; one that has bought enough iterations in a row does not."""
        if closings < MAX_CLOSING_ITERATIONS:
            return not self._ends() and bool(await self._talk.drain(Seam.ITERATION_END, closing=True))
        await self._talk.idle()
        return False

    async def _next(self) -> bool | None:
        """Whether the run goes on: with what the closing drain took, a queued message, or what woke a daemon.

        None where a daemon waits for any of these.
        """
        if self._scope.ended or self._suspended or self._talk.state.closed:
            return True
        if self._meter.spent is not None:
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
        archived = await compact(self._talk, self._parts.compactor, self.teller, seconds=seconds)
        if archived:
            self._meter.prompt_tokens = 0
        return archived

    async def _personas(self, side: str) -> None:
        hooks = self._parts.hooks.personas_matching(self.settings.name)
        await self.teller.ask_around("persona", side, hooks, {"agent": self.settings.name})

    # How it ends.

    async def _conclude(self, why: Exception | None) -> LoopResult:
        # Whoever ended the run has not ended those who are told of it.
        self.teller.scope = self._scope.beside()
        self._status = await self._ending.close(why, self._status)
        if self._ending.lost is None:
            await self._ending.release()
        self.over = True
        await self._personas("post")
        await self.teller.tell(SessionEvent.POST_FINISH, status=self._status.value, text=self._text)
        await self._release()
        return self._result()

    async def _settle(self, *, begun: bool) -> None:
        try:
            if begun and not self.over:
                await self._ending.settle()
        finally:
            try:
                await self._release()
            finally:
                self.over = True

    async def _release(self) -> None:
        self._alarm.off()
        self.teller.scope = Scope()
        # A run that has lost its lease keeps it until here: so that nothing it still says can be written down.
        await self._ending.release()
        if self._ending.lost is None:
            await self._talk.write_notes()

    def _result(self) -> LoopResult:
        return LoopResult(
            status=self._status,
            text=self._text,
            turns=self._meter.turns,
            usage=self._meter.usage,
            undelivered=tuple(self._talk.state.inbox.items()),
            problems=self._problems.told(),
            error=self._ending.error,
        )
