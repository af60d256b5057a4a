"""Runs the tool calls of a reply: permission, hooks, the call itself, and its recorded result."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from sideband.core.effects import Deny, ReplaceArgs, ReplaceResult, ToolAction, ToolPhase, read_tool_action
from sideband.core.errors import ReminderError, shown
from sideband.core.hookevents import SessionEvent
from sideband.core.messages import UNREADABLE, Message, ToolCall, ToolStatus, copied, result_message
from sideband.loop.cancel import CancelScope, Ended, OutOfTime
from sideband.loop.conversation import Conversation
from sideband.loop.guard import Problem, UserCodeFailed, call_guarded, describe, read_guarded
from sideband.loop.hooks import HookFunction, HookRunner, hook_label
from sideband.loop.lease import HeldLease
from sideband.loop.receipts import ToolCallReceipt, active_audit_log, reminder_receipt
from sideband.ports import Permission, Tool, ToolOutput

# Part of the result of a call that ignored its cancellation.
DID_NOT_STOP: Final = " It did not stop when it was cancelled, and was abandoned."

# A longer result is truncated, so that it cannot fill a context or a journal.
MAX_RESULT_CHARACTERS: Final = 1_000_000

_EVENTS: Final[Mapping[ToolPhase, str]] = MappingProxyType(
    {ToolPhase.BEFORE: "pre_tool_use", ToolPhase.AFTER: "post_tool_use"}
)


# Outcomes.


class CallOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a tool call ended."""

    call: ToolCall
    status: ToolStatus
    output: ToolOutput


class RunningCall(msgspec.Struct, eq=False):
    """A tool call while it runs; the tool sees it as its `ToolContext`. `outcome` is None until the tool has ended.

    Everything that the call waits for is awaited in `scope`, so that the call can be cancelled alone.
    """

    call: ToolCall
    scope: CancelScope
    changes: list[str] = []
    outcome: CallOutcome | None = None

    @property
    def call_id(self) -> str:
        return self.call.id

    def applied(self, what: str) -> None:
        # Convert now: a value that is not a text would fail only later, when the result is written.
        self.changes.append(str(what))

    def permanent_changes(self) -> str:
        """The changes that the tool has reported, for the result of a call that failed; empty if there are none."""
        return f" Changes already made: {'; '.join(self.changes)}." if self.changes else ""


def failed(call: ToolCall, status: ToolStatus, text: str) -> CallOutcome:
    """The outcome of a call without an output of its own."""
    return CallOutcome(call=call, status=status, output=truncated(ToolOutput(text=text, is_error=True)))


def cancelled(call: ToolCall, running: RunningCall, *, given_up: bool = False) -> CallOutcome:
    """The outcome of a cancelled call; if only the hooks after the tool were cancelled, that of the tool."""
    if running.outcome is not None:
        return running.outcome
    changes = running.permanent_changes() or " It has reported no changes."
    return failed(call, ToolStatus.CANCELLED, f"Cancelled.{DID_NOT_STOP if given_up else ''}{changes}")


def message_of(outcome: CallOutcome) -> Message:
    """The result as the conversation has it."""
    output = outcome.output
    return result_message(outcome.call, outcome.status, output.text, truncated=output.truncated)


def payload(outcome: CallOutcome) -> dict[str, Any]:
    """The outcome as hooks and providers see it."""
    call, output = outcome.call, outcome.output
    return {
        "tool_name": call.name,
        "tool_call_id": call.id,
        "args": call.args,
        "result": output,
        "status": str(outcome.status),
        "truncated": output.original_bytes is not None,
        "original_bytes": output.original_bytes,
        "data": output.data,
        "text": output.text,
    }


def fault_in_output(output: object) -> str | None:
    """What is wrong with what a tool returned; None if it is a valid output, whose fields are not checked when it is made."""
    if not isinstance(output, ToolOutput):
        return f"The tool returned {shown(output)}, not a ToolOutput."
    text: object = output.text
    size: object = output.original_bytes
    if not isinstance(text, str):
        return f"The tool returned a ToolOutput whose text must be a string, not {shown(text)}."
    if size is not None and not (isinstance(size, int) and size >= 0):
        return f"The tool returned a ToolOutput whose original_bytes must be a size or None, not {shown(size)}."
    return None


def truncated(output: ToolOutput) -> ToolOutput:
    """The output, cut to `MAX_RESULT_CHARACTERS` and marked as truncated if it is longer."""
    if len(output.text) <= MAX_RESULT_CHARACTERS:
        return output
    size = output.original_bytes or _size(output.text)
    return msgspec.structs.replace(output, text=output.text[:MAX_RESULT_CHARACTERS], original_bytes=size)


def with_result(output: ToolOutput, action: ReplaceResult) -> ToolOutput:
    """A hook's result instead of the tool's. If either was truncated, the new output is marked as truncated."""
    sizes = [output.original_bytes]
    match action.result:
        case str() as text:
            pass
        case ToolOutput() as replacement:
            if fault_in_output(replacement) is not None:
                raise TypeError("`text` of a ToolOutput must be a text, `original_bytes` a number of bytes or None")
            text = replacement.text
            sizes.append(replacement.original_bytes)
        case other:
            text = msgspec.json.encode(other).decode()
    if action.dropped_bytes is not None:
        sizes.append(_size(text) + action.dropped_bytes)
    original = max((size for size in sizes if size is not None), default=None)
    return truncated(msgspec.structs.replace(output, text=text, original_bytes=original))


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


# Dispatch.


class Dispatcher:
    """Runs the calls of one reply concurrently and records each result as soon as there is one.

    A tool has `seconds` for a call, unless it has a `seconds` of its own. No call begins after `scope` has ended.
    """

    def __init__(
        self,
        talk: Conversation,
        tools: Sequence[Tool],
        hooks: HookRunner,
        *,
        seconds: float,
        scope: CancelScope,
        permission: Permission | None = None,
        lease: HeldLease | None = None,
    ) -> None:
        self._talk = talk
        self._tools = {tool.name: (tool, time_limit(tool, seconds)) for tool in tools}
        self.repeatable = {tool.name for tool in tools if tool.idempotent}
        self._hooks = hooks
        self._scope = scope
        self._permission = permission
        self._lease = lease if lease is not None and lease.lapses else None
        self._running: dict[str, RunningCall] = {}

    def cancel_call(self, call_id: str) -> bool:
        """Cancel one running call and no other; return False if no such call runs."""
        running = self._running.get(call_id)
        if running is None:
            return False
        running.scope.end()
        return True

    def results(self) -> dict[str, Message]:
        """The results that the running calls would have if they were cancelled now, by call id."""
        return {call_id: message_of(cancelled(running.call, running)) for call_id, running in self._running.items()}

    def end(self) -> None:
        """Cancel every running call."""
        for running in self._running.values():
            running.scope.end()

    async def run(self, calls: Sequence[ToolCall]) -> list[CallOutcome]:
        """Run the calls and return their outcomes in the same order."""
        if len(calls) == 1:
            return [await self._run_one(calls[0])]
        tasks = [asyncio.ensure_future(self._run_one(call)) for call in calls]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            # A cancelled call ends within the grace period. Not a task group, because that cancels its tasks in no
            # fixed order, and the order of the recorded results would not be reproducible.
            self.end()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise

    async def _run_one(self, call: ToolCall) -> CallOutcome:
        log = active_audit_log()
        receipt = None if log is None else log.open(self._talk.session_id, call.id, call.name, call.args)
        self._running[call.id] = running = RunningCall(call, self._scope.sibling())
        if self._scope.ended:
            running.scope.end()
        try:
            outcome = await self._guarded(call, receipt, running)
        except Ended as end:
            outcome = cancelled(call, running, given_up=end.given_up)
        except asyncio.CancelledError:
            # The whole run is being cancelled: record what this call has done first.
            await self._record(cancelled(call, running), receipt)
            raise
        finally:
            del self._running[call.id]
        recorded = await self._record(outcome, receipt)
        if self._scope.ended or not recorded:
            raise Ended
        if self._hooks.listens(SessionEvent.POST_TOOL_USE):
            await self._hooks.notify(SessionEvent.POST_TOOL_USE, payload(outcome))
        return outcome

    async def _record(self, outcome: CallOutcome, receipt: ToolCallReceipt | None) -> bool:
        """Record the outcome; return False if the call was cancelled in another process, and so has a result."""
        recorded = await self._talk.record(outcome.call, message_of(outcome))
        if receipt is not None:
            receipt.status = outcome.status.value
        return recorded

    async def _guarded(self, call: ToolCall, receipt: ToolCallReceipt | None, running: RunningCall) -> CallOutcome:
        verdict = await self._before(call, receipt, running) if self._hooks.registry.tool else None
        if isinstance(verdict, Deny):
            return failed(call, ToolStatus.DENIED, f"Denied: {verdict.reason}")
        if isinstance(verdict, ReplaceArgs):
            call = msgspec.structs.replace(call, args=dict(verdict.args))
        if UNREADABLE in call.args:
            return failed(call, ToolStatus.ERROR, _unreadable(call.args[UNREADABLE]))
        # A tool that does not exist does nothing that could be allowed.
        if self._permission is not None and call.name in self._tools:
            refused = await self._refusal(self._permission, call, running)
            if refused is not None:
                return failed(call, ToolStatus.DENIED, f"Permission refused: {refused}")
        running.outcome = await self._called(call, running)
        return await self._after(running.outcome, receipt, running) if self._hooks.registry.tool else running.outcome

    # The tool.

    async def _called(self, call: ToolCall, running: RunningCall) -> CallOutcome:
        tool, seconds = self._tools.get(call.name, (None, 0.0))
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return failed(call, ToolStatus.ERROR, f"There is no tool {shown(call.name)}. Tools: {known}.")
        if self._lease is not None:
            await self._lease.ensure()
        try:
            output = await running.scope.run(_perform(tool, call, running), seconds=seconds)
        except Ended as end:
            self._report_abandoned(call, given_up=end.given_up)
            raise
        except OutOfTime as late:
            self._report_abandoned(call, given_up=late.given_up)
            abandoned = DID_NOT_STOP if late.given_up else ""
            text = f"Timed out after {seconds:g} s.{abandoned}{running.permanent_changes()}"
            return failed(call, ToolStatus.TIMED_OUT, text)
        except Exception as error:  # noqa: BLE001 - what a tool raises is its result
            return failed(call, ToolStatus.ERROR, f"{describe(error)}{running.permanent_changes()}")
        wrong = fault_in_output(output)
        if wrong is not None:
            return failed(call, ToolStatus.ERROR, f"{wrong}{running.permanent_changes()}")
        checked = cast("ToolOutput", output)
        status = ToolStatus.ERROR if checked.is_error else ToolStatus.OK
        return CallOutcome(call=call, status=status, output=truncated(checked))

    def _report_abandoned(self, call: ToolCall, *, given_up: bool) -> None:
        if given_up:
            self._hooks.report(
                Problem(f"tool {call.name}", f"{DID_NOT_STOP.strip()} Its call has the id {shown(call.id)}.")
            )

    # Permission and hooks.

    async def _refusal(self, permission: Permission, call: ToolCall, running: RunningCall) -> str | None:
        """Ask for permission; return the reason for a refusal, or None if the call may be made."""
        asked = msgspec.structs.replace(call, args=copied(call.args))
        if not await self._needs_permission(permission, asked, running):
            return None
        about = {"tool_name": call.name, "tool_call_id": call.id}
        await self._talk.ask_permission(call.id)
        try:
            await self._hooks.notify(SessionEvent.PERMISSION_ASKED, {**about, "args": call.args})
            answer = await call_guarded(permission.ask, asked, scope=running.scope)
            refused = answer if answer is None or isinstance(answer, str) else shown(answer)
        except UserCodeFailed as error:
            refused = f"the permission handler failed: {error}"
        finally:
            await self._talk.answer_permission(call.id)
        await self._hooks.notify(SessionEvent.PERMISSION_REPLIED, {**about, "allowed": refused is None})
        return refused

    async def _needs_permission(self, permission: Permission, call: ToolCall, running: RunningCall) -> bool:
        """True unless the handler's `needs` returns False."""
        needs = getattr(permission, "needs", None)
        if needs is None:
            return True
        try:
            return await call_guarded(needs, call, scope=running.scope, seconds=self._hooks.seconds) is not False
        except UserCodeFailed as error:
            self._hooks.report(Problem("permission", str(error)))
            return True

    async def _before(
        self, call: ToolCall, receipt: ToolCallReceipt | None, running: RunningCall
    ) -> Deny | ReplaceArgs | None:
        verdict: ReplaceArgs | None = None
        for hook in self._hooks.registry.tools_matching(call.name):
            if hook.pre is None:
                continue
            args = call.args if verdict is None else verdict.args
            event_payload = {"tool_name": call.name, "tool_call_id": call.id, "args": args}
            action = await self._call_hook(hook.pre, ToolPhase.BEFORE, event_payload, receipt, running)
            if isinstance(action, Deny):
                return action
            if isinstance(action, ReplaceArgs):
                verdict = action
        return verdict

    async def _after(self, outcome: CallOutcome, receipt: ToolCallReceipt | None, running: RunningCall) -> CallOutcome:
        for hook in self._hooks.registry.tools_matching(outcome.call.name):
            if hook.post is None:
                continue
            action = await self._call_hook(hook.post, ToolPhase.AFTER, payload(outcome), receipt, running)
            if isinstance(action, ReplaceResult):
                outcome = self._replaced(outcome, action, hook.post)
        return outcome

    def _replaced(self, outcome: CallOutcome, action: ReplaceResult, hook: HookFunction) -> CallOutcome:
        try:
            return msgspec.structs.replace(outcome, output=read_guarded(with_result, outcome.output, action))
        except UserCodeFailed as error:
            where = hook_label(hook, _EVENTS[ToolPhase.AFTER])
            self._hooks.report(Problem(where, f"its result cannot be written as text: {error}"))
            return outcome

    async def _call_hook(
        self,
        hook: HookFunction,
        phase: ToolPhase,
        event_payload: Mapping[str, Any],
        receipt: ToolCallReceipt | None,
        running: RunningCall,
    ) -> ToolAction | None:
        event = _EVENTS[phase]
        result = await self._hooks.call(hook, event, event_payload, scope=running.scope)
        if receipt is not None:
            receipt.audit.reminders.extend(
                reminder_receipt(
                    reminder,
                    hook_event=event,
                    session_id=receipt.session_id,
                    call_id=receipt.tool_call_id,
                    deduped_count=deduped,
                )
                for reminder, deduped in result.reminders
            )
        try:
            return read_guarded(_read_action, result.action, phase)
        except (ReminderError, UserCodeFailed) as error:
            self._hooks.report(Problem(hook_label(hook, event), str(error)))
            return None


async def _perform(tool: Tool, call: ToolCall, running: RunningCall) -> object:
    # A copy, because the tool may change its arguments and the recorded call must not change with them.
    return await tool.call(copied(call.args), running)


def _unreadable(written: object) -> str:
    if not written:
        return "Not run: the reply was cut off before the arguments of this call. Call it again."
    return f"Not run: the arguments must be a JSON object, not {shown(written)}. Call it again with an object."


def _read_action(action: object, phase: ToolPhase) -> ToolAction | None:
    wanted = read_tool_action(action, phase)
    if isinstance(wanted, ReplaceArgs):
        return ReplaceArgs(msgspec.json.decode(msgspec.json.encode(dict(wanted.args)), type=dict[str, Any]))
    return wanted


def time_limit(tool: Tool, seconds: float) -> float:
    """The time limit of a call in seconds: the tool's own `seconds` if it has one, else that of all tools."""
    own = getattr(tool, "seconds", None)
    return float(own) if isinstance(own, int | float) and not isinstance(own, bool) and own > 0 else seconds
