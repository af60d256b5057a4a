"""The model, the tool and the permission handler of a schedule; the seed says how many steps each takes."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sideband.core.messages import Message, Reply, ToolCall
from sideband.core.reminder import Reminder
from sideband.loop.compaction import UNKNOWN_SIZE, Compaction, KeepLast, PromptSize
from sideband.models.scripted import Line, ScriptedModel
from sideband.ports import Logged, OnText, ToolContext, ToolOutput
from sideband.render.plan import Plan
from tests.faults.schedules.records import Sent, ToolMoment


async def steps(count: int) -> None:
    """Yield to other tasks this many times."""
    for _ in range(count):
        await asyncio.sleep(0)


class Witness(ScriptedModel):
    """A scripted model that knows when it was asked."""

    def __init__(self, journal: Sequence[Logged]) -> None:
        super().__init__()
        self._journal = journal
        self.sent: list[Sent] = []

    def follow(self, script: Sequence[Line], *, context_window: int | None = None) -> None:
        """Go on with this script."""
        self._script = list(script)
        self._next = 0
        self._context_window = context_window

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        self.sent.append(Sent(len(self._journal), plan.request[1]))
        return await super().complete(plan, on_text)


class StepTool:
    """Takes as many steps as it is told to; may then fail, or hang until it is ended."""

    name = "step"
    description = "Takes steps."
    parameters: ClassVar[Mapping[str, Any]] = {}
    idempotent = False

    def __init__(self, journal: Sequence[Logged]) -> None:
        self._journal = journal
        self.moments: list[ToolMoment] = []

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        self._note("began", args)
        await steps(args["steps"])
        context.applied(args["id"])
        if args.get("hangs"):
            await asyncio.get_running_loop().create_future()
        if args.get("fails"):
            raise OSError("the tool broke")
        self._note("ended", args)
        return ToolOutput(text=f"{args['id']} is done")

    def _note(self, what: str, args: Mapping[str, Any]) -> None:
        self.moments.append(ToolMoment(len(self._journal), what, args["id"]))


class Asked:
    """A permission handler that takes some steps; some calls are refused."""

    async def ask(self, call: ToolCall) -> str | None:
        await steps(call.args.get("thinking", 0))
        return "not now" if call.args.get("refused") else None


class SlowKeepLast(KeepLast):
    """Compacts as that does, and takes its time."""

    def __init__(self, keep_last: int, *, thinking: int) -> None:
        super().__init__(keep_last)
        self._thinking = thinking

    async def compact(
        self, messages: Sequence[Message], reminders: Sequence[Reminder], prompt: PromptSize = UNKNOWN_SIZE
    ) -> Compaction:
        await steps(self._thinking)
        return await super().compact(messages, reminders, prompt)
