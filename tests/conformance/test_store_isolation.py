"""Isolation: user code that hangs or fails, and other sessions, on every store."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias

import pytest

from sideband.core.apply import fold
from sideband.core.errors import CursorLost
from sideband.core.events import Event, Injected, Queued
from sideband.core.lifecycle import go_live
from sideband.core.messages import Reply
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS
from sideband.loop.hooks import Hooks
from sideband.loop.run import LoopResult
from sideband.providers.registry import Registry
from sideband.runtime.session import Session
from sideband.store.feed import SUBSCRIBER_EVENTS
from sideband.testing import ScriptedModel
from tests.builders import a_draft, a_reminder
from tests.decisions import deciding
from tests.loop_builders import ATool, a_reply
from tests.stored_agents import TASK, a_session, is_shown, run
from tests.unit.core.test_snapshot import facts
from tests.unit.store.twins import Sender, Twin, a_start, is_followed, played, so_many, told, took, two_of

Run: TypeAlias = Callable[[Session], Coroutine[Any, Any, tuple[LoopResult, ScriptedModel]]]
"""Runs an agent to its end."""


class Hanging:
    """User code that does not return until it is released."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self._leave = asyncio.Event()
        self._leave_the_thread = threading.Event()
        self._loop = asyncio.get_running_loop()

    async def hang(self, *_given: object) -> None:
        self.entered.set()
        await self._leave.wait()

    def block(self, *_given: object) -> None:
        """The same in a thread."""
        self._loop.call_soon_threadsafe(self.entered.set)
        self._leave_the_thread.wait()

    def let_go(self) -> None:
        self._leave.set()
        self._leave_the_thread.set()


def _hook(code: Callable[..., object]) -> Run:
    hooks = Hooks()
    hooks.register_session_hook("post_turn", code)
    return lambda session: run(session, "one", "two", hooks=hooks)


def _provider(code: Callable[..., object]) -> Run:
    providers = Registry()
    providers.register(id="slow", subscribes_to=["post_turn"], evaluate=code)
    return lambda session: run(session, "one", "two", providers=providers, reminders=True)


def _tool(hang: Callable[[], Coroutine[Any, Any, None]]) -> Run:
    async def do(*_given: object) -> str:
        await hang()
        return "done"

    return lambda session: run(session, a_reply("work"), "two", tools=[ATool(do=do)])


def _model(hang: Callable[[], Coroutine[Any, Any, None]]) -> Run:
    async def answer(_view: object) -> Reply:
        await hang()
        return Reply(text="one")

    return lambda session: run(session, answer, "two")


@pytest.mark.requirement("store:isolation:slow-code-delays-no-accept")
@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(lambda code: _hook(code.hang), id="a-hook"),
        pytest.param(lambda code: _hook(code.block), id="a-hook-in-a-thread"),
        pytest.param(lambda code: _provider(code.hang), id="a-provider"),
        pytest.param(lambda code: _provider(code.block), id="a-provider-in-a-thread"),
        pytest.param(lambda code: _tool(code.hang), id="a-tool"),
        pytest.param(lambda code: _model(code.hang), id="a-model"),
    ],
)
def test_hanging_user_code_delays_no_accept_and_loses_nothing(twin: Twin, begin: Callable[[Hanging], Run]) -> None:
    async def story() -> None:
        async with two_of(twin) as (here, there):
            session, other = await a_session(here), await a_session(there)
            code = Hanging()
            running = asyncio.ensure_future(begin(code)(session))
            await code.entered.wait()
            # Each of these is acknowledged while it still hangs, which ends below.
            accepted = [await who.remind(f"fact {n}") for n, who in enumerate((session, other, session, other))]
            assert not running.done()
            code.let_go()
            result, model = await running
            assert result.undelivered == ()
            assert all(is_shown(model, f"fact {number}") for number in range(4))
            sent = [entry.reminder_id for entry in accepted]
            drained = [entry.event for entry in await told(there) if isinstance(entry.event, Injected)]
            assert [event.reminder.id for event in drained if event.reminder.id in sent] == sent

    played(story)


@pytest.mark.requirement("store:isolation:slow-code-delays-no-accept")
def test_hooks_and_providers_that_fail_are_reported_and_lose_nothing(twin: Twin) -> None:
    def fail(_context: object) -> None:
        raise RuntimeError("broken")

    async def story() -> None:
        async with twin.open() as store:
            session = await a_session(store)
            await session.remind("the fact")
            hooks, providers = Hooks(), Registry()
            hooks.register_session_hook("user_prompt_submit", fail)
            providers.register(id="broken", subscribes_to=["user_prompt_submit"], evaluate=fail)
            result, model = await run(session, hooks=hooks, providers=providers, reminders=True)
            assert len(result.problems) == 2
            assert (is_shown(model, "the fact"), is_shown(model, TASK)) == (True, True)

    played(story)


@pytest.mark.requirement("store:isolation:slow-code-delays-no-accept")
def test_a_subscriber_that_does_not_read_is_cut_off_and_delays_no_other(twin: Twin) -> None:
    many = SUBSCRIBER_EVENTS // 2 + 100

    async def story() -> None:
        async with two_of(twin) as (here, there):
            slow, quick = here.subscribe(), here.subscribe()
            for source in (slow, quick):
                waiting = asyncio.ensure_future(anext(source))
                await is_followed(here)
                await here.commit("s", a_start)
                await waiting
            await anext(quick)
            for _ in range(2):
                await there.commit("t", so_many(many))
                assert len(await took(quick, many)) == many
            sent = await Sender(there).send(a_draft())
            assert (sent.reminder_id, (await anext(quick)).sequence) == ("r-1", 2 * many + 3)
            seen = await took(slow, SUBSCRIBER_EVENTS)
            with pytest.raises(CursorLost) as lost:
                await anext(slow)
            assert lost.value.seen == seen[-1].sequence
            again = here.subscribe(after=lost.value.seen)
            missed = 2 * many + 3 - lost.value.seen
            assert (await took(again, missed))[-1].sequence == 2 * many + 3
            for source in (quick, again):
                await source.aclose()

    played(story)


@pytest.mark.requirement("store:isolation:slow-code-delays-no-accept")
def test_a_decision_that_fails_fails_alone(twin: Twin) -> None:
    def fail(state: SessionState) -> Iterable[Event]:
        yield from go_live(state, a_reminder(), IN_PROCESS)
        raise RuntimeError("broken")

    async def story() -> None:
        async with twin.open() as store:
            sender = Sender(store)
            good: list[Callable[[], Coroutine[Any, Any, object]]] = [lambda: sender.send(a_draft())] * 3
            bad: list[Callable[[], Coroutine[Any, Any, object]]] = [lambda: store.commit("s", deciding(fail))] * 3
            mixed = [ask() for pair in zip(good, bad, strict=True) for ask in pair]
            outcomes = await asyncio.gather(*mixed, return_exceptions=True)
            assert [isinstance(outcome, RuntimeError) for outcome in outcomes] == [False, True] * 3
            entries = await told(store)
            assert [type(entry.event) for entry in entries] == [Queued] * 3
            assert facts(store.state("s")) == facts(fold(entry.event for entry in entries))

    played(story)
