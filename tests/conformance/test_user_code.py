"""User code and the store: no hook, provider, tool, compactor or model runs inside a commit, on any store."""

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sideband.core.events import QueuedMessage, RequestCommitted
from sideband.core.limits import Limits
from sideband.core.messages import Message, Reply, ToolCall
from sideband.core.reminder import Reminder
from sideband.loop.hooks import HookFunction, Hooks
from sideband.ports import FileChange, ModelError, OnText, ToolContext, ToolOutput
from sideband.providers.registry import Registry
from sideband.render.plan import Plan
from sideband.render.view import RequestView
from sideband.testing import ScriptedModel
from tests.loop_builders import a_reply
from tests.stored_agents import a_session, a_victim, is_shown, run
from tests.unit.store.twins import Twin, played, told
from tests.waiting import until

WIDE = Limits(pending_per_session=10**6)


class Calls:
    """Notes every call of user code, and the store's frames that were on the stack when it was made."""

    def __init__(self) -> None:
        self.made: set[str] = set()
        self.inside: set[tuple[str, str]] = set()

    def note(self, who: str) -> None:
        self.made.add(who)
        if threading.current_thread().name == "sideband-writer":
            self.inside.add((who, "the thread of the store"))
        frame = sys._getframe(1)
        while frame is not None:
            module = frame.f_globals.get("__name__", "")
            if module.startswith("sideband.store"):
                self.inside.add((who, module))
            frame = frame.f_back  # type: ignore[assignment]  # None at the bottom of the stack


class AModel(ScriptedModel):
    def __init__(self, script: Sequence[Any], calls: Calls) -> None:
        super().__init__(script, context_window=100)
        self.calls = calls
        self.plans = 0

    def plan(self, view: RequestView) -> Plan:
        self.calls.note("plan")
        self.plans += 1
        return super().plan(view)

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        self.calls.note("complete")
        return await super().complete(plan, on_text)


class UserCode:
    """A tool, a compactor, a watcher, a permission, and listeners."""

    name = "work"
    description = "Works."
    parameters: Mapping[str, Any] = {"type": "object"}
    idempotent = False

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    async def call(self, _args: Mapping[str, Any], _context: ToolContext) -> ToolOutput:
        self.calls.note("tool")
        return ToolOutput(text="done")

    async def compact(self, messages: Sequence[Message], _reminders: Sequence[Reminder]) -> Sequence[Message]:
        self.calls.note("compactor")
        return messages[-1:]

    def changes(self) -> Sequence[FileChange]:
        self.calls.note("watcher")
        return ()

    async def ask(self, _call: ToolCall) -> str | None:
        self.calls.note("permission")
        return None

    async def on_text(self, _text: str) -> None:
        self.calls.note("on_text")

    def on_restart(self, _attempt: int, _error: ModelError) -> None:
        self.calls.note("on_restart")


@pytest.mark.requirement("promises:user-code:never-inside-a-commit")
def test_no_user_code_runs_inside_a_commit_or_on_a_thread_of_the_store(twin: Twin) -> None:
    calls = Calls()
    code = UserCode(calls)
    hooks, providers = Hooks(), Registry()

    def a_hook(name: str) -> HookFunction:
        return lambda _context: calls.note(name)

    async def a_tool_hook(_context: object) -> dict[str, Any]:
        calls.note("tool hook")
        return {"body": "The tool ran.", "ttl_turns": 1}

    def a_provider(_context: object) -> None:
        calls.note("provider")

    hooks.register_session_hook("post_turn", a_hook("session hook"))
    hooks.register_session_hook("session_end", a_hook("hook at the end"))
    hooks.register_tool_hook("*", pre=a_tool_hook)
    hooks.register_step_hook(pre=a_hook("before a step"), post=a_hook("after a step"))
    hooks.register_persona_hook("*", pre=a_hook("before an agent"), post=a_hook("after an agent"))
    providers.register(id="mine", subscribes_to=["post_turn"], evaluate=a_provider)

    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            fails = ModelError("overloaded", retryable=True)
            model = AModel([fails, a_reply("work", tokens=95), a_reply("work"), "Done."], calls)
            await run(
                session,
                model=model,
                tools=[code],
                hooks=hooks,
                providers=providers,
                reminders=True,
                compactor=code,
                watcher=code,
                permission=code,
                on_text=code.on_text,
                on_restart=code.on_restart,
            )
            await session.close()

    played(story)
    names = {
        "plan",
        "complete",
        "tool",
        "compactor",
        "watcher",
        "permission",
        "on_text",
        "on_restart",
        "session hook",
        "hook at the end",
        "tool hook",
        "before a step",
        "after a step",
        "before an agent",
        "after an agent",
        "provider",
    }
    assert calls.made == names
    assert calls.inside == set()


@pytest.mark.requirement("promises:plan:accepts-cause-no-re-planning")
def test_a_flood_of_accepts_from_another_process_causes_no_re_planning(durable: Twin) -> None:
    turns = 12

    async def story() -> None:
        async with durable.open() as store:
            session = await a_session(store, limits=WIDE)

            async def more_arrives(_view: RequestView) -> Reply:
                await until(lambda: len(session.talk.state.inbox) >= 3)
                return a_reply("work")

            calls = Calls()
            model = AModel([more_arrives] * (turns - 1), calls)
            async with a_victim(durable, "send") as victim:
                await victim.line()
                await run(session, model=model, tools=[UserCode(calls)], max_turns=turns)
            requests = [entry for entry in await told(store) if isinstance(entry.event, RequestCommitted)]
            assert len(requests) >= turns - 1
            assert model.plans == len(requests)

    played(story)


@pytest.mark.requirement("promises:values:hold-no-reference-into-the-state")
def test_a_caller_that_changes_what_a_session_returned_does_not_change_the_session(twin: Twin) -> None:
    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            _, model = await run(session, "Hello.")
            await session.prompt([{"type": "text", "text": "queued"}])
            await session.remind("A fact.", mode="audit_only")
            (await session.transcript()).messages[0]["content"][0]["text"] = "changed"
            for row in await session.waiting():
                row.item.provenance.claims["changed"] = True
                if isinstance(row.item, QueuedMessage):
                    row.item.content[0]["text"] = "changed"
            for entry in await session.pending():
                entry.provenance.claims["changed"] = True
            result, model = await run(session, "Done.", task=None, max_turns=0)
            for item in result.undelivered:
                item.provenance.claims["changed"] = True
            result, model = await run(session, "Done.", task=None)
            assert not is_shown(model, "changed")
            assert is_shown(model, "queued")
            assert "changed" not in str([entry.event for entry in await told(store)])

    played(story)
