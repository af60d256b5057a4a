"""A whole session, rehearsed: a scripted model fixes a real bug with the real tools, and is told things on the way."""

import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from sideband.cli.receipts import receipts, summary
from sideband.core.events import Event, Inherited, Injected, Queued
from sideband.loop.agent import AgentRun
from sideband.loop.hooks import HookContext, Hooks
from sideband.loop.outcome import Outcome
from sideband.models.scripted import ScriptedModel
from sideband.ports import Reply, ToolCall
from sideband.render.view import RequestView
from sideband.runtime.agents import agent_run
from sideband.runtime.ids import new_id
from sideband.runtime.session import Session
from sideband.runtime.store import open_store
from sideband.tools.workspace import workspace_tools

BUGGY: Final = """\
def discounted(price: float, percent: float) -> float:
    return price - percent
"""
OLD_LINE: Final = "    return price - percent"
FIXED_LINE: Final = "    return price * (100 - percent) / 100"
TESTS: Final = """\
import unittest

from discount import discounted


class TestDiscount(unittest.TestCase):
    def test_ten_percent_of_two_hundred_is_twenty(self) -> None:
        self.assertEqual(discounted(200, 10), 180)
"""
RUN_TESTS: Final[Mapping[str, Any]] = {"command": [sys.executable, "-m", "unittest", "-q", "test_discount"]}


def play(console: Console) -> None:
    """Play it, and say how every reminder ended."""
    with tempfile.TemporaryDirectory(prefix="sideband-") as folder:
        root = Path(folder)
        (root / "discount.py").write_text(BUGGY, encoding="utf-8")
        (root / "test_discount.py").write_text(TESTS, encoding="utf-8")
        asyncio.run(_play(console, root))


async def _play(console: Console, root: Path) -> None:
    store = open_store()
    session = await store.session("rehearsal")
    model = ScriptedModel(_script(session, root), context_window=200_000)
    await session.remind("This repository blocks force-pushes to main.", tags=["policy"], preserve_on_compact=True)
    await session.remind("The rehearsal was started from the command line.", mode="audit_only")
    run = await agent_run(
        "The tests of discount.py fail. Fix it.",
        session=session,
        model=model,
        tools=workspace_tools(root),
        hooks=_hooks(),
    )
    await _show(console, run, model)
    await session.close()
    journal = [logged.event for logged in store.journal.journal]  # type: ignore[attr-defined]  # a store in memory
    labels = _labels(journal)
    console.print()
    console.print(receipts(labels, journal))
    console.print(summary(labels, journal))


def _script(session: Session, root: Path) -> Sequence[Any]:
    def somebody_edits(_view: RequestView) -> Reply:
        # While the model thinks, a colleague saves the file it has just read.
        (root / "discount.py").write_text(f'"""Prices."""\n\n{BUGGY}', encoding="utf-8")
        return _calls(
            "I correct the formula.", "edit_file", path="discount.py", old_string=OLD_LINE, new_string=FIXED_LINE
        )

    async def editor_interrupts(_view: RequestView) -> Reply:
        await session.remind(
            "The user pressed pause for a moment; wait before writing files.", mode="interrupt_immediate", ttl_turns=1
        )
        return _calls("Now I correct it.", "edit_file", path="discount.py", old_string=OLD_LINE, new_string=FIXED_LINE)

    return [
        _calls("I run the tests first.", "run", **RUN_TESTS),
        _calls("I read the code.", "read_file", path="discount.py"),
        somebody_edits,
        _calls("It has changed under me; I read it again.", "read_file", path="discount.py"),
        editor_interrupts,
        _calls("I go on.", "edit_file", path="discount.py", old_string=OLD_LINE, new_string=FIXED_LINE),
        _calls("Do the tests pass?", "run", **RUN_TESTS),
        "The discount is a share of the price now, and the tests pass.",
    ]


def _calls(text: str, tool: str, **args: Any) -> Reply:  # noqa: ANN401 - a tool's own
    return Reply(text=text, tool_calls=(ToolCall(id=new_id(), name=tool, args=args),))


def _hooks() -> Hooks:
    hooks = Hooks()

    async def file_edited(event: HookContext) -> Mapping[str, Any]:
        return {
            "reminder": {
                "body": f"File changed by somebody else: {event.path}. Re-read it before editing.",
                "tags": ["workspace", "file_changed"],
                "dedupe_key": f"file_changed:{event.path}",
                "ttl_turns": 2,
            }
        }

    hooks.register_session_hook("file_edited", file_edited)
    return hooks


async def _show(console: Console, run: AgentRun, model: ScriptedModel) -> None:
    async for event in run:
        match event.name:
            case "turn":
                _show_turn(console, model, event.value)
            case "tools":
                _show_tools(console, event.value)
            case _:
                console.print(Text(f"\nThe run is {event.value.status.value} after {event.value.turns} turns."))


def _show_turn(console: Console, model: ScriptedModel, reply: Reply) -> None:
    request = model.requests[-1]
    console.print(Text(f"\nturn {request.turn}", style="bold"))
    for reminder in request.reminders:
        for row in reminder.splitlines():
            console.print(Text(f"  told  {row}", style="cyan"))
    console.print(Text(f"  says  {reply.text}", style="green"))


def _show_tools(console: Console, outcomes: Sequence[Outcome]) -> None:
    if not outcomes:
        console.print(Text("  tools skipped: an interrupt was waiting", style="yellow"))
    for outcome in outcomes:
        lines = outcome.output.text.strip().splitlines() or [""]
        console.print(Text(f"  {outcome.call.name}: {outcome.status.value}: {lines[-1][:90]}", style="dim"))


def _labels(journal: Sequence[Event]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for event in journal:
        match event:
            case Queued(item=item):
                labels[item.id] = item.reminder.dedupe_key or item.reminder.body[:40]
            case Injected(reminder=reminder) | Inherited(reminder=reminder):
                labels[reminder.id] = reminder.dedupe_key or reminder.body[:40]
            case _:
                pass
    return labels
