"""Running a batch of tool calls: permission, hooks, time-outs, and exactly one result for every call."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.effects import Deny, Phase, ReplaceArgs, ReplaceResult, ToolAction, read_tool_action
from sideband.core.errors import ReminderError, shown
from sideband.core.hookevents import SessionEvent
from sideband.loop.conversation import Conversation
from sideband.loop.foreign import Failed, ask, name_of, read
from sideband.loop.hooks import HookFunction, Hooks
from sideband.loop.messages import copied
from sideband.loop.outcome import (
    STUBBORN,
    Outcome,
    Running,
    cancelled,
    ended,
    is_output,
    payload,
    shortened,
    with_result,
)
from sideband.loop.problems import Problem, describe
from sideband.loop.receipts import ToolCallReceipt, active_audit_log, reminder_receipt
from sideband.loop.scope import Ended, OutOfTime, Scope
from sideband.loop.telling import Teller
from sideband.loop.tenure import Tenure
from sideband.ports import UNREADABLE, Permission, Tool, ToolCall, ToolStatus

_EVENTS: Final[Mapping[Phase, str]] = MappingProxyType({Phase.BEFORE: "pre_tool_use", Phase.AFTER: "post_tool_use"})


class Dispatcher:
    """Runs the calls of one reply side by side; each result is recorded as soon as it is there.

    A tool has `seconds`, unless it says itself how long it may take. Once `scope` has ended no call begins.
    """

    def __init__(
        self,
        talk: Conversation,
        tools: Sequence[Tool],
        hooks: Hooks,
        teller: Teller,
        *,
        seconds: float,
        scope: Scope,
        permission: Permission | None = None,
        tenure: Tenure | None = None,
    ) -> None:
        self._talk = talk
        self._tools = {tool.name: (tool, limit_of(tool, seconds)) for tool in tools}
        self._repeatable = {tool.name for tool in tools if tool.idempotent}
        self._hooks = hooks
        self._teller = teller
        self._scope = scope
        self._permission = permission
        self._tenure = tenure if tenure is not None and tenure.lapses else None
        self._running: dict[str, Running] = {}

    def may_repeat(self, name: str) -> bool:
        """Whether running this tool once more does no harm."""
        return name in self._repeatable

    def cancel_call(self, call_id: str) -> bool:
        """Cancel one running call; its siblings and the session live on. False where no such call runs."""
        running = self._running.get(call_id)
        if running is None:
            return False
        running.scope.end()
        return True

    def end(self) -> None:
        """Cancel every running call."""
        for running in self._running.values():
            running.scope.end()

    async def run(self, calls: Sequence[ToolCall]) -> list[Outcome]:
        """Every call's outcome, in the order of the calls."""
        if len(calls) == 1:
            return [await self._run_one(calls[0])]
        tasks = [asyncio.ensure_future(self._run_one(call)) for call in calls]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            # Ended, a call is over soon, whatever its tool does. Not a task group: it would cancel them in no
            # particular order, and no journal could be played again.
            self.end()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise

    async def _run_one(self, call: ToolCall) -> Outcome:
        log = active_audit_log()
        receipt = None if log is None else log.open(self._talk.session_id, call.id, call.name, call.args)
        self._running[call.id] = running = Running(self._scope.beside())
        if self._scope.ended:
            running.scope.end()
        try:
            outcome = await self._guarded(call, receipt, running)
        except Ended as end:
            outcome = cancelled(call, running, given_up=end.given_up)
        except asyncio.CancelledError:
            # The whole run is being ended: what this call has done is said before that goes on.
            await self._record(cancelled(call, running), receipt)
            raise
        finally:
            del self._running[call.id]
        await self._record(outcome, receipt)
        if self._scope.ended:
            raise Ended
        if self._teller.hears(SessionEvent.POST_TOOL_USE):
            await self._teller.pass_on(SessionEvent.POST_TOOL_USE, payload(outcome))
        return outcome

    async def _record(self, outcome: Outcome, receipt: ToolCallReceipt | None) -> None:
        output = outcome.output
        await self._talk.record(outcome.call, outcome.status, output.text, truncated=output.truncated)
        if receipt is not None:
            receipt.status = outcome.status.value

    async def _guarded(self, call: ToolCall, receipt: ToolCallReceipt | None, running: Running) -> Outcome:
        verdict = await self._before(call, receipt, running) if self._hooks.tool else None
        if isinstance(verdict, Deny):
            return ended(call, ToolStatus.DENIED, f"Denied: {verdict.reason}")
        if isinstance(verdict, ReplaceArgs):
            call = msgspec.structs.replace(call, args=dict(verdict.args))
        if UNREADABLE in call.args:
            return ended(call, ToolStatus.ERROR, _unreadable(call.args[UNREADABLE]))
        refused = None if self._permission is None else await self._refusal(self._permission, call, running)
        if refused is not None:
            return ended(call, ToolStatus.DENIED, f"Permission refused: {refused}")
        running.outcome = await self._called(call, running)
        return await self._after(running.outcome, receipt, running) if self._hooks.tool else running.outcome

    # The tool.

    async def _called(self, call: ToolCall, running: Running) -> Outcome:
        tool, seconds = self._tools.get(call.name, (None, 0.0))
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return ended(call, ToolStatus.ERROR, f"There is no tool {shown(call.name)}. Tools: {known}.")
        if self._tenure is not None:
            await self._tenure.ensure()
        try:
            output = await running.scope.inside(_perform(tool, call, running), seconds=seconds)
        except Ended as end:
            self._note_stubborn(call, given_up=end.given_up)
            raise
        except OutOfTime as late:
            self._note_stubborn(call, given_up=late.given_up)
            stubborn = STUBBORN if late.given_up else ""
            text = f"Timed out after {seconds:g} s.{stubborn}{running.done_for_good()}"
            return ended(call, ToolStatus.TIMED_OUT, text)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
            return ended(call, ToolStatus.ERROR, f"{describe(error)}{running.done_for_good()}")
        if not is_output(output):
            text = f"The tool returned {shown(output)}, which is no output.{running.done_for_good()}"
            return ended(call, ToolStatus.ERROR, text)
        status = ToolStatus.ERROR if output.is_error else ToolStatus.OK
        return Outcome(call=call, status=status, output=shortened(output))

    def _note_stubborn(self, call: ToolCall, *, given_up: bool) -> None:
        if given_up:
            self._teller.report(Problem(f"tool {call.name}", f"{STUBBORN.strip()} ({shown(call.id)})"))

    # Whoever has a say in it.

    async def _refusal(self, permission: Permission, call: ToolCall, running: Running) -> str | None:
        """Why the call may not be made; None where it may."""
        asked = msgspec.structs.replace(call, args=copied(call.args))
        told = {"tool_name": call.name, "tool_call_id": call.id}
        await self._talk.ask_permission(call.id)
        try:
            await self._teller.pass_on(SessionEvent.PERMISSION_ASKED, {**told, "args": call.args})
            answer = await ask(permission.ask, asked, scope=running.scope)
            refused = answer if answer is None or isinstance(answer, str) else shown(answer)
        except Failed as error:
            refused = f"no answer could be had: {error}"
        finally:
            await self._talk.answer_permission(call.id)
        await self._teller.pass_on(SessionEvent.PERMISSION_REPLIED, {**told, "allowed": refused is None})
        return refused

    async def _before(
        self, call: ToolCall, receipt: ToolCallReceipt | None, running: Running
    ) -> Deny | ReplaceArgs | None:
        verdict: ReplaceArgs | None = None
        for hook in self._hooks.tools_matching(call.name):
            if hook.pre is None:
                continue
            args = call.args if verdict is None else verdict.args
            told = {"tool_name": call.name, "tool_call_id": call.id, "args": args}
            action = await self._asked(hook.pre, Phase.BEFORE, told, receipt, running)
            if isinstance(action, Deny):
                return action
            if isinstance(action, ReplaceArgs):
                verdict = action
        return verdict

    async def _after(self, outcome: Outcome, receipt: ToolCallReceipt | None, running: Running) -> Outcome:
        for hook in self._hooks.tools_matching(outcome.call.name):
            if hook.post is None:
                continue
            action = await self._asked(hook.post, Phase.AFTER, payload(outcome), receipt, running)
            if isinstance(action, ReplaceResult):
                outcome = self._replaced(outcome, action, hook.post)
        return outcome

    def _replaced(self, outcome: Outcome, action: ReplaceResult, hook: HookFunction) -> Outcome:
        try:
            return msgspec.structs.replace(outcome, output=read(with_result, outcome.output, action))
        except Failed as error:
            self._teller.report(Problem(_where(hook, Phase.AFTER), f"its result cannot be written as text: {error}"))
            return outcome

    async def _asked(
        self,
        hook: HookFunction,
        phase: Phase,
        told: Mapping[str, Any],
        receipt: ToolCallReceipt | None,
        running: Running,
    ) -> ToolAction | None:
        event = _EVENTS[phase]
        answer = await self._teller.ask(hook, event, told, scope=running.scope)
        if receipt is not None:
            receipt.audit.reminders.extend(
                reminder_receipt(
                    reminder,
                    hook_event=event,
                    session_id=receipt.session_id,
                    call_id=receipt.tool_call_id,
                    deduped_count=deduped,
                )
                for reminder, deduped in answer.reminders
            )
        try:
            return read(_action, answer.action, phase)
        except (ReminderError, Failed) as error:
            self._teller.report(Problem(_where(hook, phase), str(error)))
            return None


async def _perform(tool: Tool, call: ToolCall, running: Running) -> object:
    # The tool may do with its arguments what it likes: what was asked for stays on record.
    return await tool.call(copied(call.args), running)


def _unreadable(written: object) -> str:
    if not written:
        return "Not run: the reply was cut off before the arguments of this call. Call it again."
    return f"Not run: its arguments are no JSON object, but {shown(written)}. Call it again with an object."


def _action(action: object, phase: Phase) -> ToolAction | None:
    wanted = read_tool_action(action, phase)
    if isinstance(wanted, ReplaceArgs):
        return ReplaceArgs(msgspec.json.decode(msgspec.json.encode(dict(wanted.args)), type=dict[str, Any]))
    return wanted


def _where(hook: HookFunction, phase: Phase) -> str:
    return f"hook {name_of(hook)} on {_EVENTS[phase]}"


def limit_of(tool: Tool, seconds: float) -> float:
    """How long a call of this tool may take: what the tool says itself, else what is said for all."""
    own = getattr(tool, "seconds", None)
    return float(own) if isinstance(own, int | float) and not isinstance(own, bool) and own > 0 else seconds
