"""How a tool call ended, and what of it the model is told."""

from typing import Any, Final, TypeGuard

import msgspec

from sideband.core.effects import ReplaceResult
from sideband.loop.scope import Scope
from sideband.ports import ToolCall, ToolOutput, ToolStatus

# Said of a call that was told to stop and did not.
STUBBORN: Final = " It did not stop when it was told to, and was left where it stood."

# A result longer than this is shortened before it can fill a context or a journal.
MAX_RESULT_CHARACTERS: Final = 1_000_000


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended."""

    call: ToolCall
    status: ToolStatus
    output: ToolOutput


class Running(msgspec.Struct, eq=False):
    """A call while it runs: it may note what it has changed for good. `outcome` is None until its tool has ended.

    All that it waits for is awaited in its `scope`, so that it can be cancelled.
    """

    scope: Scope
    changes: list[str] = []
    outcome: Outcome | None = None

    def applied(self, what: str) -> None:
        # Nobody else looks at it before the call has failed, and then it has to be a text.
        self.changes.append(str(what))

    def done_for_good(self) -> str:
        """What a call that gave no result of its own has to say for itself; empty where it noted nothing."""
        return f" Already done for good: {'; '.join(self.changes)}." if self.changes else ""


def ended(call: ToolCall, status: ToolStatus, text: str) -> Outcome:
    """A call that has no output of its own."""
    return Outcome(call=call, status=status, output=shortened(ToolOutput(text=text, is_error=True)))


def cancelled(call: ToolCall, running: Running, *, given_up: bool = False) -> Outcome:
    """A call that was cancelled; one whose tool was through already, and only hooks behind it were not, keeps its end."""
    if running.outcome is not None:
        return running.outcome
    changes = running.done_for_good() or " It has reported no change until then."
    return ended(call, ToolStatus.CANCELLED, f"Cancelled.{STUBBORN if given_up else ''}{changes}")


def payload(outcome: Outcome) -> dict[str, Any]:
    """What hooks and providers are told of it."""
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


def is_output(output: object) -> TypeGuard[ToolOutput]:
    """Whether it is an output whose parts are what they should be: nothing checks them when it is made."""
    if not isinstance(output, ToolOutput):
        return False
    text: object = output.text
    size: object = output.original_bytes
    return isinstance(text, str) and (size is None or (isinstance(size, int) and size >= 0))


def shortened(output: ToolOutput) -> ToolOutput:
    """The output at a length that can be kept, marked if that is not its own."""
    if len(output.text) <= MAX_RESULT_CHARACTERS:
        return output
    size = output.original_bytes or _size(output.text)
    return msgspec.structs.replace(output, text=output.text[:MAX_RESULT_CHARACTERS], original_bytes=size)


def with_result(output: ToolOutput, action: ReplaceResult) -> ToolOutput:
    """A hook's result in place of the tool's; a mark that the output was shortened stays, whoever made it."""
    sizes = [output.original_bytes]
    match action.result:
        case str() as text:
            pass
        case ToolOutput() as output_of_its_own:
            if not is_output(output_of_its_own):
                raise TypeError("the parts of an output are a text and a size")
            text = output_of_its_own.text
            sizes.append(output_of_its_own.original_bytes)
        case other:
            text = msgspec.json.encode(other).decode()
    if action.dropped_bytes is not None:
        sizes.append(_size(text) + action.dropped_bytes)
    original = max((size for size in sizes if size is not None), default=None)
    return shortened(msgspec.structs.replace(output, text=text, original_bytes=original))


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
