"""A run of an agent: its budget, its options, its result, and how it is driven."""

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from enum import Enum, StrEnum, auto
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec

from sideband.core.errors import LeaseLost
from sideband.core.events import Closing, InboxItem, Usage
from sideband.loop.cancel import Ended
from sideband.loop.compaction import RunCompactor
from sideband.loop.guard import Problem
from sideband.loop.hooks import HOOK_SECONDS, Hooks, Recall
from sideband.loop.turn import OnRestart
from sideband.ports import Clock, Model, ModelError, OnText, Permission, Tool, Watcher
from sideband.providers.context import Provider, WorkspaceAnchor
from sideband.providers.settings import NOTHING
from sideband.recall.facts import FactBook
from sideband.render.view import SystemText

# Shares of a budget that `on_budget_threshold` reports, each once until the share falls below it again.
THRESHOLDS: Final = (0.70, 0.85, 0.95)

_REACHED: Final = (0.0, *THRESHOLDS)


# Budget.


class Meter:
    """Counts what a run has used. A limit of None does not limit the run."""

    def __init__(self, *, max_turns: int | None, max_tokens: int | None, context_window: int | None) -> None:
        self.context_window = context_window
        self.turns = 0
        self.usage = Usage()
        self.prompt_tokens = 0
        self._max_turns = max_turns
        self._max_tokens = max_tokens
        limits = (("context", context_window), ("turns", max_turns), ("tokens", max_tokens))
        self._limits = [(name, limit) for name, limit in limits if limit]
        self._reported: dict[str, float] = {}
        # The limit that is reached; None while the run may continue.
        self.spent = self._reached()

    def count(self, usage: Usage) -> None:
        """Count one more committed turn."""
        self.turns += 1
        self.prompt_tokens = usage.prompt_tokens
        self.usage += usage
        self.spent = self._reached()

    @property
    def tokens(self) -> int:
        return self.usage.prompt_tokens + self.usage.output_tokens

    def _reached(self) -> str | None:
        if self._max_turns is not None and self.turns >= self._max_turns:
            return "max_turns"
        if self._max_tokens is not None and self.tokens >= self._max_tokens:
            return "max_tokens"
        return None

    def crossed(self) -> list[dict[str, Any]]:
        """The payloads of `on_budget_threshold`: one for each threshold that was reached since the last call."""
        payloads: list[dict[str, Any]] = []
        for name, limit in self._limits:
            used = self.prompt_tokens if name == "context" else self.turns if name == "turns" else self.tokens
            before = self._reported.get(name, 0.0)
            # Nearly every turn is below every threshold.
            if not before and used < THRESHOLDS[0] * limit:
                continue
            self._reported[name] = reached = _REACHED[bisect_right(THRESHOLDS, used / limit)]
            if reached > before:
                payloads.append(self._payload(name, used, limit, reached))
        return payloads

    def _payload(self, name: str, used: int, limit: int, reached: float) -> dict[str, Any]:
        payload: dict[str, Any] = {"budget": name, "used": used, "limit": limit, "threshold": reached}
        payload["ratio"] = used / limit
        if name == "context":
            payload |= {"prompt_tokens": used, "context_window": limit}
        return payload


# Options.


class Begins(Enum):
    """What starts the first turn of a run. Every run but `ANY` ends when its first turn is over."""

    ANY = auto()
    """The first queued message, or what is new; the run goes on with whatever is queued."""
    PROMPT = auto()
    """The queued message named by `prompt`."""
    INTERRUPT = auto()
    """A queued interrupt."""
    RESUMED = auto()
    """Nothing: a process that died left the turn open."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run, read and checked. `sideband.runtime.agents` describes those that a user gives.

    `providers` are the enabled ones and `provider_options` is what they see of the options. `registered` has the ids of
    all hooks and registered providers, enabled or not. `context_window` is what the length of a prompt is measured
    against (None: unknown). `recall` reads the facts of a store if no `facts` are given. An idle daemon wakes after `wake_seconds` (None: only on an interrupt or a message).
    `hold_queue_after_cancel`: after a cancelled turn, queued messages wait for the next prompt. `closing` is what happens
    when the session becomes idle with a certain status.

    `begins` says what starts the first turn, and `prompt` is the id of the message that does (None: no certain one).
    """

    model: Model
    clock: Clock
    hooks: Hooks
    name: str = "agent"
    task: str = ""
    system: SystemText = SystemText()
    tools: Sequence[Tool] = ()
    permission: Permission | None = None
    compactor: RunCompactor | None = None
    watcher: Watcher | None = None
    on_text: OnText | None = None
    on_restart: OnRestart | None = None
    providers: Sequence[Provider] = ()
    provider_options: Mapping[str, Any] = NOTHING
    facts: FactBook | None = None
    recall: Recall | None = None
    anchor: WorkspaceAnchor | None = None
    registered: Sequence[str] = ()
    max_turns: int | None = 50
    max_tokens: int | None = None
    context_window: int | None = None
    daemon: bool = False
    wake_seconds: float | None = None
    hold_queue_after_cancel: bool = True
    closing: Mapping[str, Closing] = NOTHING
    begins: Begins = Begins.ANY
    prompt: str | None = None
    model_seconds: float = 600.0
    tool_seconds: float = 120.0
    hook_seconds: float = HOOK_SECONDS


# Result.


class LoopStatus(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    MAX_TURNS = "max_turns"
    MAX_TOKENS = "max_tokens"
    CANCELLED = "cancelled"
    SUSPENDED = "suspended"
    FAILED = "failed"
    LEASE_LOST = "lease_lost"


class Step(StrEnum):
    """The points at which `step()` returns."""

    TURN = "turn"
    TOOLS = "tools"
    IDLE = "idle"
    FINISHED = "finished"


class LoopEvent(NamedTuple):
    """One step of a run. `value` is the reply, the outcomes of its tool calls, or the result; None for an idle daemon."""

    name: Step
    value: Any = None


class LoopResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run. `undelivered` is what is left in the inbox; no request of this run has shown it."""

    status: LoopStatus
    text: str
    turns: int
    usage: Usage
    undelivered: tuple[InboxItem, ...] = ()
    problems: tuple[Problem, ...] = ()
    error: str | None = None


# Driving.


class DrivenRun(ABC):
    """Drives a run: as a whole with `finish()`, step by step with `step()`, or with `async for`.

    However the run is left, its session ends up idle and free for the next run.
    """

    def __init__(self) -> None:
        self.over = False
        self.result: LoopResult | None = None
        self._events = self._loop()
        self._begun = self._closed = False
        # Whether the loop yields events. `finish()` needs none of them.
        self._pauses = False
        # Serializes `step()`, `finish()` and `aclose()`: a second caller waits for the step of the first.
        self._lock = asyncio.Lock()
        self._driver: asyncio.Task[object] | None = None

    # What a subclass defines.

    @abstractmethod
    def _loop(self) -> AsyncGenerator[LoopEvent, None]:
        """The run without its end; it yields events only while `_pauses` is true."""

    @abstractmethod
    async def _conclude(self, why: Exception | None) -> LoopResult:
        """Settle the session and return the result; `why` is the exception that ended the run early, if any."""

    @abstractmethod
    async def _abandon(self, *, begun: bool, status: LoopStatus = LoopStatus.CANCELLED) -> None:
        """Settle the session of a run that has no result; its turn ends with this status."""

    @abstractmethod
    def cancel(self) -> None:
        """End the turn, and with it the run; the inbox stays as it is."""

    # What a user calls.

    @property
    def driven(self) -> bool:
        """Whether a task is driving the run now."""
        return self._lock.locked()

    async def __aiter__(self) -> AsyncIterator[LoopEvent]:
        try:
            while (event := await self.step()) is not None:
                yield event
        finally:
            await self.aclose()

    async def step(self) -> LoopEvent | None:
        """Run to the next event and return it; None if the run is over."""
        self._refuse_reentry()
        async with self._lock:
            return await self._advance(to_the_end=False)

    async def finish(self) -> LoopResult:
        """Run to the end."""
        self._refuse_reentry()
        async with self._lock:
            await self._advance(to_the_end=True)
        if self.result is None:
            raise RuntimeError("the run was closed before it had a result")
        return self.result

    async def aclose(self) -> None:
        """End the run now, if it is not over. If another task drives it, cancel it and wait for its end."""
        if self._driver is asyncio.current_task():
            # The caller is a hook or a tool of this run. The run ends after it has returned.
            self.cancel()
            return
        if self._lock.locked():
            self.cancel()
        async with self._lock:
            if not self._closed:
                self._closed = True
                await self._events.aclose()
                await self._abandon(begun=self._begun)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _advance(self, *, to_the_end: bool) -> LoopEvent | None:
        if self._closed:
            return None
        self._begun, self._driver, self._pauses = True, asyncio.current_task(), not to_the_end
        why: Exception | None = None
        try:
            try:
                event = await anext(self._events, None)
                if event is not None:
                    return event
            except (Ended, ModelError, LeaseLost) as error:
                why = error
            self._closed = True
            self.result = await self._conclude(why)
        except BaseException as error:
            # The driving task was cancelled, the store failed, or there is a bug: the session must not stay marked as
            # running.
            self._closed = True
            status = LoopStatus.FAILED if isinstance(error, Exception) else LoopStatus.CANCELLED
            await self._abandon(begun=True, status=status)
            raise
        finally:
            self._driver = None
        return LoopEvent(Step.FINISHED, self.result)

    def _refuse_reentry(self) -> None:
        if self._driver is not None and self._driver is asyncio.current_task():
            raise RuntimeError("a hook or a tool of a run cannot call step() or finish() of the same run")
