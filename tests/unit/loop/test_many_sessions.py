"""Several sessions side by side: what is done to one is done to no other, and what comes late comes to its own."""

import asyncio
from collections import Counter
from typing import Any

from sideband.core.events import Cancelled, ResultRecorded, TurnCommitted
from sideband.loop.run import LoopStatus
from sideband.testing import MemoryStore, ScriptedModel, WireRecorder
from tests.loop_builders import AScene, ATool, a_reply, a_session, hang, others


def a_pair(*, tools: tuple[ATool, ...] = ()) -> tuple[AScene, AScene]:
    """Two sessions in one store."""
    store = MemoryStore()
    return AScene(*tools, name="first", store=store), AScene(name="second", store=store)


# Cancelling.


def test_a_cancel_ends_the_turn_of_its_session_and_of_no_other() -> None:
    first, second = a_pair()
    going = asyncio.Event()

    async def waits(_view: object) -> str:
        await going.wait()
        return "Done."

    async def main() -> None:
        first.says(lambda _view: hang())
        second.says(waits)
        ends = [asyncio.create_task(scene.play()) for scene in (first, second)]
        await others()
        assert await first.session.cancel()
        await others()
        assert second.state.running
        going.set()
        assert [(await end).status for end in ends] == [LoopStatus.CANCELLED, LoopStatus.COMPLETED]

    asyncio.run(main())
    assert (len(first.events(Cancelled)), len(second.events(Cancelled))) == (1, 0)


def test_a_cancel_where_nothing_runs_says_so_and_changes_nothing() -> None:
    first, _ = a_pair()

    async def main() -> None:
        first.says(lambda _view: hang())
        running = asyncio.create_task(first.play())
        await others()
        before = list(first.store.journal)
        never_seen = a_session("never seen", store=first.store)
        assert await never_seen.cancel() is False
        await others()
        assert first.store.journal == before
        assert (first.state.running, running.done()) == (True, False)
        assert await first.session.cancel()
        await running
        assert await first.session.cancel() is False

    asyncio.run(main())


def test_a_call_is_cancelled_by_its_own_run_alone() -> None:
    first, second = a_pair(tools=(ATool(do=hang),))

    async def main() -> None:
        first.says(a_reply("work"), "Done.")
        run, other = await first.begin(), await second.begin()
        driving = asyncio.create_task(run.finish())
        await others()
        assert (other.cancel_call("c1"), run.cancel_call("c2")) == (False, False)
        await others()
        assert first.results() == []
        assert run.cancel_call("c1")
        await driving
        await other.finish()

    asyncio.run(main())
    assert first.results() == [("c1", "cancelled")]


# Late.


def test_what_comes_after_another_session_has_begun_still_belongs_to_its_own() -> None:
    finished = asyncio.Event()

    async def slow(*_: object) -> str:
        await finished.wait()
        return "found at last"

    first, second = a_pair(tools=(ATool(do=slow),))
    recorder = WireRecorder(ScriptedModel([a_reply("work"), "Second.", "First."]))
    told: list[tuple[str, str]] = []

    async def hears(context: dict[str, Any]) -> None:
        told.append((context["event"], context["session_id"]))

    async def main() -> None:
        for event in ("session_start", "post_tool_use", "post_finish"):
            first.hooks.register_session_hook(event, hears)
        working = asyncio.create_task(first.play(model=recorder))
        await others()
        assert (await second.play(model=recorder, hooks=first.hooks)).text == "Second."
        behind = len(first.store.journal)
        finished.set()
        assert (await working).text == "First."
        late = {logged.session_id for logged in first.store.journal[behind:]}
        assert late == {"first"}

    asyncio.run(main())
    assert told == [
        ("session_start", "first"),
        ("session_start", "second"),
        ("post_finish", "second"),
        ("post_tool_use", "first"),
        ("post_finish", "first"),
    ]
    assert [exchange.view.session_id for exchange in recorder.exchanges] == ["first", "second", "first"]
    assert "found at last" not in str(second.state.messages)
    owners = Counter((logged.session_id, type(logged.event)) for logged in first.store.journal)
    assert (owners["first", ResultRecorded], owners["second", ResultRecorded]) == (1, 0)
    assert (owners["first", TurnCommitted], owners["second", TurnCommitted]) == (2, 1)
