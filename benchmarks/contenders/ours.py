"""Our own loop, on a store in memory."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import sideband as sb
from benchmarks.laps import Watch
from sideband.core.turn import Shown
from sideband.ports import OnText, ToolContext
from sideband.render.plan import Plan
from sideband.render.view import RequestView

REMINDERS: Final = 10


class Adder:
    """The model: it wants to add in so many turns, and shows all that is live. Neither time is the loop's."""

    context_window: int | None = 200_000

    def __init__(self, turns: int, watch: Watch) -> None:
        self._turns = turns
        self._watch = watch
        self._answered = 0

    def plan(self, view: RequestView) -> Plan:
        self._watch.pause()
        plan = Plan(shown=tuple(Shown(item.id, "user") for item in view.live))
        self._watch.resume()
        return plan

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> sb.Reply:  # noqa: ARG002 - a model's
        self._watch.asked()
        self._answered += 1
        call = sb.ToolCall(id=f"c{self._answered}", name="add", args={"a": 1, "b": 2})
        reply = sb.Reply(
            tool_calls=(call,) if self._answered <= self._turns else (),
            usage=sb.Usage(prompt_tokens=1_000, output_tokens=10),
        )
        self._watch.resume()
        return reply


class Add:
    """The tool."""

    name = "add"
    description = "Adds two numbers."
    parameters: Mapping[str, Any] = MappingProxyType({"type": "object", "properties": {"a": {}, "b": {}}})
    idempotent = True

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> sb.ToolOutput:  # noqa: ARG002 - a tool's
        return sb.ToolOutput(text=str(args["a"] + args["b"]))


async def run(turns: int, watch: Watch, *, live: int = 0, reminders: bool = True) -> int:
    """With the default providers and nothing live, as long as nothing else is asked for."""
    async with sb.open_store() as store:
        session = await store.session()
        for number in range(live):
            await session.remind(f"Fact {number} has changed.", dedupe_key=f"fact:{number}")
        await sb.agent_loop(
            "Add.", session=session, model=Adder(turns, watch), tools=[Add()], reminders=reminders, max_turns=None
        )
        return sum(message["role"] == "tool" for message in (await session.transcript()).messages)


async def run_with_reminders(turns: int, watch: Watch) -> int:
    """With reminders that every request shows."""
    return await run(turns, watch, live=REMINDERS)


async def run_without_providers(turns: int, watch: Watch) -> int:
    return await run(turns, watch, reminders=False)
