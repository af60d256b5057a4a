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
from sideband.loop.hooks import HookFunction, Hooks, name_of
from sideband.loop.messages import copied
from sideband.loop.outcome import Outcome, Running, cancelled, ended, is_output, payload, shortened, with_result
from sideband.loop.problems import Problem, describe
from sideband.loop.receipts import ToolCallReceipt, active_audit_log, reminder_receipt
from sideband.loop.scope import Alarm, Ended, OutOfTime, Scope
from sideband.loop.telling import Teller
from sideband.ports import Permission, Tool, ToolCall, ToolStatus

__all__ = ["Dispatcher", "Outcome"]

_EVENTS: Final[Mapping[Phase, str]] = MappingProxyType({Phase.BEFORE: "pre_tool_use", Phase.AFTER: "post_tool_use"})

# Needed in every turn: finding a member of an enumeration takes as long as a call.
POST_TOOL_USE, OK = SessionEvent.POST_TOOL_USE, ToolStatus.OK


class Dispatcher:
    """Runs the calls of one reply side by side; each result is recorded as soon as it is there."""

    def __init__(
        self,
        talk: Conversation,
        tools: Sequence[Tool],
        hooks: Hooks,
        teller: Teller,
        *,
        seconds: float,
        alarm: Alarm,
        permission: Permission | None = None,
    ) -> None:
        self._talk = talk
        self._tools = {tool.name: tool for tool in tools}
        self._hooks = hooks
        self._teller = teller
        self._seconds = seconds
        self._alarm = alarm
        self._permission = permission
        self._running: dict[str, Running] = {}

    def may_repeat(self, name: str) -> bool:
        """Whether running this tool once more does no harm."""
        tool = self._tools.get(name)
        return tool is not None and tool.idempotent

    def cancel_call(self, call_id: str) -> bool:
        """Cancel one running call; its siblings and the session live on. False where no such call runs."""
        running = self._running.get(call_id)
        if running is None:
            return False
        running.scope.end()
        return True

    async def run(self, calls: Sequence[ToolCall]) -> list[Outcome]:
        """Every call's outcome, in the order of the calls."""
        if len(calls) == 1:
            return [await self._run_one(calls[0])]
        tasks = [asyncio.ensure_future(self._run_one(call)) for call in calls]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            # Not a task group: it would cancel them in no particular order, and no journal could be played again.
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise

    async def _run_one(self, call: ToolCall) -> Outcome:
        log = active_audit_log()
        receipt = None if log is None else log.open(self._talk.session_id, call.id, call.name, call.args)
        self._running[call.id] = running = Running(Scope(self._alarm))
        try:
            outcome = await self._guarded(call, receipt, running)
        except Ended:
            outcome = cancelled(call, running)
        except asyncio.CancelledError:
            # The whole run is being ended: what this call has done is said before that goes on.
            await self._record(cancelled(call, running), receipt)
            raise
        finally:
            del self._running[call.id]
        await self._record(outcome, receipt)
        await self._teller.pass_on(POST_TOOL_USE, payload(outcome))
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
        refused = None if self._permission is None else await running.scope.inside(self._ask(self._permission, call))
        if refused is not None:
            return ended(call, ToolStatus.DENIED, f"Permission refused: {refused}")
        running.outcome = await self._called(call, running)
        return await self._after(running.outcome, receipt, running) if self._hooks.tool else running.outcome

    async def _called(self, call: ToolCall, running: Running) -> Outcome:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return ended(call, ToolStatus.ERROR, f"There is no tool {shown(call.name)}. Tools: {known}.")
        try:
            # The tool may do with its arguments what it likes: what was asked for stays on record.
            work = tool.call(copied(call.args), running)
            output: object = await running.scope.inside(work, seconds=self._seconds)
        except Ended:
            raise
        except OutOfTime:
            text = f"Timed out after {self._seconds:g} s.{running.done_for_good()}"
            return ended(call, ToolStatus.TIMED_OUT, text)
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
            return ended(call, ToolStatus.ERROR, f"{describe(error)}{running.done_for_good()}")
        if not is_output(output):
            text = f"The tool returned {shown(output)}, which is no output.{running.done_for_good()}"
            return ended(call, ToolStatus.ERROR, text)
        status = ToolStatus.ERROR if output.is_error else OK
        return Outcome(call=call, status=status, output=shortened(output))

    async def _ask(self, permission: Permission, call: ToolCall) -> str | None:
        await self._talk.ask_permission(call.id)
        try:
            await self._teller.tell(
                SessionEvent.PERMISSION_ASKED, tool_name=call.name, tool_call_id=call.id, args=copied(call.args)
            )
            refused = await permission.ask(call)
        except Exception as error:  # noqa: BLE001 - who cannot answer does not allow
            refused = f"no answer could be had: {describe(error)}"
        finally:
            await self._talk.answer_permission(call.id)
        await self._teller.tell(
            SessionEvent.PERMISSION_REPLIED, tool_name=call.name, tool_call_id=call.id, allowed=refused is None
        )
        return refused

    async def _before(
        self, call: ToolCall, receipt: ToolCallReceipt | None, running: Running
    ) -> Deny | ReplaceArgs | None:
        verdict: ReplaceArgs | None = None
        for hook in self._hooks.tools_matching(call.name):
            if hook.pre is None:
                continue
            args = call.args if verdict is None else dict(verdict.args)
            told = {"tool_name": call.name, "tool_call_id": call.id, "args": copied(args)}
            action = await running.scope.inside(self._asked(hook.pre, Phase.BEFORE, told, receipt))
            if isinstance(action, Deny):
                return action
            if isinstance(action, ReplaceArgs):
                verdict = action
        return verdict

    async def _after(self, outcome: Outcome, receipt: ToolCallReceipt | None, running: Running) -> Outcome:
        for hook in self._hooks.tools_matching(outcome.call.name):
            if hook.post is None:
                continue
            told = payload(outcome) | {"args": copied(outcome.call.args)}
            action = await running.scope.inside(self._asked(hook.post, Phase.AFTER, told, receipt))
            if isinstance(action, ReplaceResult):
                outcome = self._replaced(outcome, action, hook.post)
        return outcome

    def _replaced(self, outcome: Outcome, action: ReplaceResult, hook: HookFunction) -> Outcome:
        try:
            return msgspec.structs.replace(outcome, output=with_result(outcome.output, action))
        except (TypeError, ValueError) as error:
            message = f"its result cannot be written as text: {describe(error)}"
            self._teller.report(Problem(f"hook {name_of(hook)} on {_EVENTS[Phase.AFTER]}", message))
            return outcome

    async def _asked(
        self, hook: HookFunction, phase: Phase, told: Mapping[str, Any], receipt: ToolCallReceipt | None
    ) -> ToolAction | None:
        event = _EVENTS[phase]
        answer = await self._teller.ask(hook, event, told)
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
            action = read_tool_action(answer.action, phase)
            if isinstance(action, ReplaceArgs):
                return ReplaceArgs(msgspec.to_builtins(dict(action.args)))
        except (ReminderError, TypeError) as error:
            self._teller.report(Problem(f"hook {name_of(hook)} on {event}", str(error)))
            return None
        return action
