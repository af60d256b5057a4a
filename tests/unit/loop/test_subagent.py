"""Workers: what they inherit, and what their parent hears of them."""

import asyncio
from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.core.events import Inherited, TurnCommitted
from sideband.core.reminder import Source
from sideband.loop.run import LoopStatus
from sideband.loop.subagent import Phase, Worker, envelope, receive
from sideband.models.scripted import Line
from sideband.ports import Committed, Decision, ModelError
from sideband.runtime.store import Store
from sideband.testing import CountingIds, MemoryStore
from tests.loop_builders import AScene, a_reply, a_session, hang, others
from tests.workers import AFamily

# What it inherits.


def test_a_child_has_what_propagates_before_its_first_turn() -> None:
    family = AFamily()

    async def main() -> Worker:
        session = family.parent.session
        await session.remind("everybody", propagate="all", ttl_turns=5)
        await session.remind("the direct helper", propagate="session")
        await session.remind("only here", propagate="none")
        await family.parent.play()
        worker = await family.spawn()
        await worker.work()
        return worker

    worker = asyncio.run(main())
    (request,) = family.model.requests
    assert [body in request.text for body in ("everybody", "the direct helper", "only here")] == [True, True, False]
    copies = {item.reminder.body: item.reminder for item in worker.child.state.live}
    originals = {item.reminder.body: item.reminder for item in family.parent.state.live}
    for body, left in (("everybody", 4), ("the direct helper", None)):
        assert copies[body].id == originals[body].id
        assert (copies[body].source, copies[body].originating_agent_id) == (Source.INHERITED, "parent")
        assert (copies[body].ttl_turns, copies[body].fired_at_turn) == (left, 1)


def test_a_grandchild_has_only_what_is_for_all() -> None:
    async def main() -> list[str]:
        family = AFamily()
        await family.parent.session.remind("everybody", propagate="all")
        await family.parent.session.remind("the direct helper", propagate="session")
        await family.parent.play()
        child, grandchild = a_session("child"), a_session("grandchild")
        await receive(child.talk, envelope(family.parent.session.talk, "task"))
        await receive(grandchild.talk, envelope(child.talk, "task"))
        live = [item.reminder for item in grandchild.talk.state.live]
        assert [reminder.originating_agent_id for reminder in live] == ["parent"]
        return [reminder.body for reminder in live]

    assert asyncio.run(main()) == ["everybody"]


def test_a_handoff_that_arrives_twice_brings_nothing_new() -> None:
    async def main() -> None:
        scene = AScene()
        await scene.session.remind("everybody", propagate="all")
        await scene.play()
        child = AScene(name="child")
        handed = envelope(scene.session.talk, "task")
        assert handed.task == "task"
        await receive(child.session.talk, handed)
        await child.session.clear(id=child.events(Inherited)[0].reminder.id)
        await receive(child.session.talk, handed)
        assert (len(child.events(Inherited)), len(child.state.live)) == (1, 0)

    asyncio.run(main())


# What its parent hears.


@pytest.mark.parametrize(
    ("script", "options", "status", "last"),
    [
        pytest.param(["Read."], {}, LoopStatus.COMPLETED, "worker_completed", id="completed"),
        pytest.param([a_reply("work")], {"max_turns": 1}, LoopStatus.MAX_TURNS, "worker_completed", id="out-of-turns"),
        pytest.param([ModelError("no")], {}, LoopStatus.FAILED, "worker_failed", id="failed"),
    ],
)
def test_the_hooks_of_the_parent_hear_how_a_worker_ends(
    script: list[Line], options: dict[str, Any], status: LoopStatus, last: str
) -> None:
    family = AFamily(*script)

    async def main() -> None:
        worker = await family.spawn(name="reader", **options)
        assert (await worker.work()).status is status

    asyncio.run(main())
    assert (family.events[0], family.events[-1]) == ("worker_spawned", last)
    assert family.events.count("worker_progressed") == (status is not LoopStatus.FAILED)
    spawned = family.heard[0][1]
    assert {name: spawned[name] for name in ("session_id", "worker", "worker_session_id", "task")} == {
        "session_id": "parent",
        "worker": "reader",
        "worker_session_id": "child-1",
        "task": "Read the logs.",
    }
    assert family.heard[-1][1]["status"] == status.value


def test_a_worker_that_is_cancelled_says_so() -> None:
    family = AFamily(lambda _view: hang())

    async def main() -> None:
        worker = await family.spawn()
        working = asyncio.create_task(worker.work())
        await others()
        worker.cancel()
        assert (await working).status is LoopStatus.CANCELLED

    asyncio.run(main())
    assert family.events == ["worker_spawned", "worker_cancelled"]


def test_a_worker_whose_task_is_cancelled_says_so_too() -> None:
    family = AFamily(lambda _view: hang())

    async def main() -> None:
        worker = await family.spawn()
        working = asyncio.create_task(worker.work())
        await others()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert not worker.child.state.running
        assert worker.phase is Phase.ENDED

    asyncio.run(main())
    assert family.events == ["worker_spawned", "worker_cancelled"]


@pytest.mark.parametrize("told", ["worker_spawned", "worker_progressed"])
def test_a_worker_is_at_rest_before_its_end_is_told_also_while_a_hook_of_its_parent_hangs(told: str) -> None:
    family = AFamily(a_reply("work"))
    at_rest: list[bool] = []

    async def main() -> None:
        worker = await family.spawn()

        async def looks(_context: object) -> None:
            at_rest.append(not worker.child.state.running and not worker.child.state.open_calls)

        family.parent.hooks.register_session_hook(told, hang)
        family.parent.hooks.register_session_hook("worker_cancelled", looks)
        working = asyncio.create_task(worker.work())
        await others()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(main())
    assert at_rest == [True]
    assert family.events[-1] == "worker_cancelled"


def test_who_is_cancelled_while_an_end_is_told_has_had_its_end() -> None:
    family = AFamily()
    family.parent.hooks.register_session_hook("worker_completed", hang)

    async def main() -> None:
        worker = await family.spawn()
        working = asyncio.create_task(worker.work())
        await others()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(main())
    assert family.events == ["worker_spawned", "worker_progressed", "worker_completed"]


def test_a_worker_that_cannot_even_begin_has_failed() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await family.spawn(model="nowhere:x")
        with pytest.raises(InvalidOption):
            await worker.work()
        assert worker.phase is Phase.ENDED

    asyncio.run(main())
    assert family.events == ["worker_spawned", "worker_failed"]
    assert "nowhere:x" in family.heard[-1][1]["error"]


def test_what_a_model_failed_with_is_told_to_the_parent() -> None:
    family = AFamily(ModelError("the quota is used up"))

    async def main() -> None:
        await (await family.spawn()).work()

    asyncio.run(main())
    assert family.heard[-1][1]["error"] == "the quota is used up"


class ABrokenStore(MemoryStore):
    """One that breaks when a turn is to be committed."""

    async def commit(self, session_id: str, decide: Decision, **options: Any) -> Committed:  # noqa: ANN401 - the store's
        committed = await super().commit(session_id, decide, **options)
        if any(isinstance(event, TurnCommitted) for event in committed.events):
            raise OSError("the disk is full")
        return committed


def test_a_worker_whose_run_breaks_has_failed() -> None:
    family = AFamily()
    family.store = Store(ABrokenStore(), new_id=CountingIds("child"))

    async def main() -> None:
        with pytest.raises(OSError, match="the disk is full"):
            await (await family.spawn()).work()

    asyncio.run(main())
    assert family.events == ["worker_spawned", "worker_failed"]
    assert "the disk is full" in family.heard[-1][1]["error"]


def test_a_worker_that_idles_waits_for_input() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await family.spawn(daemon=True)
        working = asyncio.create_task(worker.work())
        await others()
        assert family.events[-1] == "worker_waiting_for_input"
        worker.suspend("nothing to do")
        await working

    asyncio.run(main())
    assert family.events[-1] == "worker_suspended"


def test_a_parents_hook_can_only_watch() -> None:
    family = AFamily()

    async def meddles(_context: object) -> object:
        return {"body": "faster"}

    family.parent.hooks.register_session_hook("worker_spawned", meddles)

    async def main() -> None:
        worker = await family.spawn()
        await worker.work()
        ((where, message, _),) = worker.problems
        assert where.endswith("meddles on worker_spawned")
        assert message.startswith("HARN-RMD-008")

    asyncio.run(main())
    assert family.parent.journal == []
