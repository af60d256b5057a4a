"""One session of the proxy: the turn of its prompt, the agent's open tool calls, and what is handed over meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sideband.core.errors import ReminderError, StoreError
from sideband.logs import LOG
from sideband.runtime.handover import Given, HandOver, OpenedPrompt
from sideband.runtime.session import Session

# Hands an item over to the agent by a steer; the future says whether the agent has taken it.
Steer: TypeAlias = Callable[["ProxiedSession", Given], "asyncio.Future[bool]"]

# Claude aborts a tool if it is steered in the moment in which the tool begins, so a call must have run for so long.
SETTLED_SECONDS: Final = 0.5

_OVER: Final = frozenset({"completed", "failed", "cancelled"})
# The statuses of a run, by the stop reason of a prompt.
_STATUSES: Final[Mapping[str, str]] = MappingProxyType(
    {"cancelled": "cancelled", "max_tokens": "max_tokens", "max_turn_requests": "max_turns"}
)
# To an editor that does not know `compaction_update`, Claude and Codex report a compaction as such a tool call.
_COMPACTION: Final[Mapping[str, str]] = MappingProxyType({"title": "Compact conversation", "kind": "think"})
# Updates that the agent sends only while it runs a prompt.
_OF_A_TURN: Final = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "plan_update"}
)


class ProxiedSession:
    """A session of the agent, by the id that editor and agent know it by, and the session in the store behind it.

    `prompt` is the id of the request whose turn runs (None: no turn runs), and `queued` are those of prompts that the
    editor has sent meanwhile. `nonce` marks the blocks of this session.
    """

    def __init__(
        self, wire_id: str, session: Session, nonce: str, *, steer: Steer | None, cancel: Callable[[str], None]
    ) -> None:
        self.wire_id = wire_id
        self.session = session
        self.nonce = nonce
        self.prompt: object = None
        self.queued: dict[object, None] = {}
        self.telling: asyncio.Task[None] | None = None
        self._steer = steer
        self._cancel = cancel
        self._handover = HandOver(session)
        # Protects the turn: editor and agent may begin and end one at the same time.
        self._lock = asyncio.Lock()
        self._has_run = False
        self._tools: set[str] = set()
        self._announced: set[str] = set()
        self._compactions: set[str] = set()
        self._settled_at = 0.0
        # The requests that the agent waits for, and the tool calls that they are about.
        self._permissions: dict[object, object] = {}
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        # The answer to a steer, and the task that records it. Both may outlast their turn.
        self._outcome: asyncio.Future[bool] | None = None
        # Whether the steer was not answered when the next turn began.
        self._is_owed = False
        self._recording: asyncio.Task[bool] | None = None

    # The turn.

    @property
    def awaits_activity(self) -> bool:
        """Whether the agent has not yet shown that it runs a prompt that it has."""
        return not self._has_run if self.prompt is not None else bool(self.queued)

    async def begin(self, prompt: object, *, in_front: bool) -> OpenedPrompt | None:
        """Start the turn of a prompt; see `HandOver.open`. If another turn runs, it is queued, and None is returned."""
        async with self._lock:
            if self.prompt is not None:
                self.queued[prompt] = None
                return None
            opened = await self._open(prompt, in_front=in_front)
            if opened is not None:
                # Prompts that the agent got earlier and has not run have joined the turns before this one.
                self.queued.clear()
            return opened

    async def _open(self, prompt: object, *, in_front: bool) -> OpenedPrompt | None:
        await self._give_up_steer()
        opened = await self._handover.open(in_front=in_front)
        if opened is not None:
            self.prompt, self._has_run = prompt, False
            self._tools.clear()
            self._announced.clear()
            self._permissions.clear()
            self._watching = asyncio.create_task(self._watch(prompt), name="sideband-proxy-watch")
        return opened

    async def _open_queued(self) -> None:
        """The agent runs a prompt that it got while another one ran; nothing was handed over with that."""
        async with self._lock:
            if self.prompt is None and self.queued:
                await self._open(self._next_queued(), in_front=False)

    async def end(self, prompt: object, result: object) -> None:
        """End the turn of a prompt with the agent's answer; None is an error, or no answer at all."""
        async with self._lock:
            if prompt == self.prompt:
                await self._end(result)
            elif prompt in self.queued:
                is_run = result is not None
                while is_run and self._next_queued() != prompt:
                    pass
                self.queued.pop(prompt, None)
                if is_run and self.prompt is not None:
                    # Agents answer in order, so this one will not be answered any more.
                    await self._end({})

    async def _end(self, result: object) -> None:
        reason = result.get("stopReason") if isinstance(result, dict) else None
        if self._outcome is not None and self._outcome.done() and self._recording is not None:
            # The agent has answered the steer first, so the item belongs to this turn.
            await asyncio.wait((self._recording,))
        self.prompt = None
        self._tools.clear()
        self._announced.clear()
        if self._watching is not None:
            self._watching.cancel()
        # After a refusal the agent takes the prompt out of its conversation.
        if reason == "refusal" or (result is None and not self._has_run):
            await self._handover.void(status="failed")
        else:
            await self._handover.close(status="failed" if result is None else _STATUSES.get(str(reason), "completed"))

    def _next_queued(self) -> object:
        prompt = next(iter(self.queued))
        del self.queued[prompt]
        return prompt

    async def aclose(self) -> None:
        """Stop telling the editor, and end the turn that the agent has not answered."""
        tasks = [task for task in (self._watching, self._recording, self.telling) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self.prompt is not None:
            with suppress(StoreError):
                await self.end(self.prompt, None)

    # What the agent does.

    async def observe(self, update: Mapping[str, Any]) -> None:
        """An update of the agent: it runs the prompt, compacts, or announces, runs and ends tool calls."""
        kind, status, call_id = update.get("sessionUpdate"), update.get("status"), update.get("toolCallId")
        if self._is_compaction(update):
            if status == "completed":
                await self._handover.compacted()
            return
        if kind in _OF_A_TURN and not self._is_late(update):
            if self.prompt is None and self.queued:
                await self._open_queued()
            self._has_run = True
        if kind == "usage_update":
            # The model has ended its reply, so the calls in it are complete.
            self._run(*self._announced)
        elif kind not in ("tool_call", "tool_call_update") or not isinstance(call_id, str):
            return
        elif status in _OVER:
            self._tools.discard(call_id)
            self._announced.discard(call_id)
        elif status == "in_progress":
            self._run(call_id)
        elif kind == "tool_call" and self.prompt is not None:
            self._announced.add(call_id)

    def _is_late(self, update: Mapping[str, Any]) -> bool:
        """Whether an update ends a call of an earlier turn, which may run on in the background."""
        if update.get("sessionUpdate") != "tool_call_update" or update.get("status") not in _OVER:
            return False
        return update.get("toolCallId") not in (*self._tools, *self._announced)

    def _is_compaction(self, update: Mapping[str, Any]) -> bool:
        """Whether an update tells of a compaction of the conversation, as itself or as a tool call."""
        call_id = update.get("toolCallId")
        if not isinstance(call_id, str):
            return update.get("sessionUpdate") == "compaction_update"
        if _COMPACTION.items() <= update.items():
            self._compactions.add(call_id)
        return update.get("sessionUpdate") == "compaction_update" or call_id in self._compactions

    def _run(self, *call_ids: str) -> None:
        """These calls run. Nothing tells when the model has ended its reply, so it is given a moment for that."""
        begun = set(call_ids) - self._tools
        if begun and self.prompt is not None:
            self._announced -= begun
            self._tools |= begun
            self._settle()

    def _settle(self) -> None:
        """Steers wait for a moment from now on."""
        loop = asyncio.get_running_loop()
        self._settled_at = loop.time() + SETTLED_SECONDS
        loop.call_at(self._settled_at, self._changed.set)

    @property
    def _tool_runs(self) -> bool:
        """Whether a tool runs and the model is silent. A call is announced while the model still writes its arguments."""
        is_settled = asyncio.get_running_loop().time() >= self._settled_at
        return bool(self._tools) and not self._announced and is_settled

    def ask(self, request: object, call_id: object) -> None:
        """The agent asks for the permission to run a tool; steers wait for the answer."""
        self._permissions[request] = call_id
        if isinstance(call_id, str):
            self._run(call_id)

    def answered(self, request: object, *, is_allowed: bool) -> None:
        """The permission is answered: the tool begins, or does not run at all."""
        call_id = self._permissions.pop(request, None)
        if is_allowed:
            self._settle()
        elif isinstance(call_id, str):
            self._tools.discard(call_id)
        self._changed.set()

    # While the turn runs.

    async def _watch(self, prompt: object) -> None:
        """Hand over what may be handed over while the turn runs, one item at a time; pass on a cancellation."""
        try:
            if self._recording is not None:
                # The agent may still owe the answer to a steer of an earlier turn.
                await asyncio.wait((self._recording,))
            await self._hand_over(prompt)
        except (StoreError, ReminderError) as error:
            LOG.warning("nothing more is handed over in this turn of %s: %s", self.session.id, error)

    async def _hand_over(self, prompt: object) -> None:
        wake = self._handover.wake()
        steer, is_cancelled = self._steer, False
        while self.prompt == prompt:
            wake.clear()
            self._changed.clear()
            if not is_cancelled and await self._handover.is_cancelled():
                is_cancelled = True
                self._cancel(self.wire_id)
            given = None
            if steer is not None and not self._permissions:
                given = await self._handover.take(tool_runs=self._tool_runs)
            if given is None or steer is None:
                await _first(wake.wait(), self._changed.wait())
                continue
            self._outcome, self._is_owed = steer(self, given), False
            self._recording = asyncio.create_task(self._record(given, self._outcome), name="sideband-proxy-steer")
            if not await asyncio.shield(self._recording):
                # The turn is over, or cannot be steered; the rest waits in the inbox for the next prompt.
                steer = None

    async def _give_up_steer(self) -> None:
        """Put back the item of a steer that the agent owes an answer to since the turn before the last one."""
        outcome, recording = self._outcome, self._recording
        if outcome is None or recording is None or outcome.done():
            return
        if not self._is_owed:
            self._is_owed = True
            return
        LOG.warning("session %s: the agent has not answered a steer; its item is handed over again", self.session.id)
        outcome.set_result(False)
        await asyncio.wait((recording,))

    async def _record(self, given: Given, outcome: "asyncio.Future[bool]") -> bool:
        """Record what the agent answers to a steer; whether it has taken the item."""
        is_taken = False
        try:
            is_taken = await outcome
            if is_taken:
                self._has_run = True
                await self._handover.confirm(given.id)
        except (StoreError, ReminderError) as error:
            LOG.warning("session %s: %s was handed over and not recorded: %s", self.session.id, given.id, error)
        finally:
            self._handover.put_back()
        return is_taken


async def _first(*awaited: Awaitable[object]) -> None:
    tasks = [asyncio.ensure_future(each) for each in awaited]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
