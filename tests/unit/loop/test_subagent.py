"""Workers: what they inherit, how they pause and resume, and what their parent is told."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from sideband.core.errors import SessionBusy, UnknownSession
from sideband.core.events import Compacted, Inherited, TurnCommitted
from sideband.core.messages import Reply
from sideband.core.reminder import Source
from sideband.core.state import Decision
from sideband.loop.run import LoopStatus
from sideband.loop.subagent import digest, envelope, receive
from sideband.models.scripted import Line
from sideband.ports import ModelError
from sideband.render.view import RequestView
from sideband.runtime.store import Store
from sideband.runtime.workers import ResumeCause, Resumption, Worker, WorkerPhase, WrongPhase
from sideband.testing import CountingIds, MemoryStore, ScriptedModel
from tests.decisions import whole
from tests.loop_builders import AScene, a_reply, a_session, hang, others
from tests.subagents import AFamily, a_suspended_worker

_Value = TypeVar("_Value")

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
    copies = {item.reminder.body: item.reminder for item in worker.session.talk.state.live}
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
        await receive(child.talk, await envelope(family.parent.session.talk, "task"), records={})
        await receive(grandchild.talk, await envelope(child.talk, "task"), records={})
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
        handed = await envelope(scene.session.talk, "task")
        assert handed.task == "task"
        await receive(child.session.talk, handed, records={})
        await child.session.clear(id=child.events(Inherited)[0].reminder.id)
        await receive(child.session.talk, handed, records={})
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
        assert not worker.session.talk.state.running
        assert worker.phase is WorkerPhase.ENDED

    asyncio.run(main())
    assert family.events == ["worker_spawned", "worker_cancelled"]


@pytest.mark.parametrize("told", ["worker_spawned", "worker_progressed"])
def test_a_worker_is_at_rest_before_its_end_is_told_also_while_a_hook_of_its_parent_hangs(told: str) -> None:
    family = AFamily(a_reply("work"))
    at_rest: list[bool] = []

    async def main() -> None:
        worker = await family.spawn()

        async def looks(_context: object) -> None:
            at_rest.append(not worker.session.talk.state.running and not worker.session.talk.state.open_calls)

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
        worker = await family.spawn()
        await worker.session.close()
        with pytest.raises(UnknownSession):
            await worker.work()
        assert worker.phase is WorkerPhase.ENDED

    asyncio.run(main())
    assert family.events == ["worker_spawned", "worker_failed"]
    assert "is closed" in family.heard[-1][1]["error"]


def test_what_a_model_failed_with_is_told_to_the_parent() -> None:
    family = AFamily(ModelError("the quota is used up"))

    async def main() -> None:
        await (await family.spawn()).work()

    asyncio.run(main())
    assert family.heard[-1][1]["error"] == "the quota is used up"


class ABrokenStore(MemoryStore):
    """One that breaks when a turn is to be committed."""

    async def commit(self, session_id: str, decide: Decision[_Value], **options: Any) -> _Value:  # noqa: ANN401 - the store's
        decided = await super().commit(session_id, whole(decide), **options)
        if any(isinstance(event, TurnCommitted) for event in decided.events):
            raise OSError("the disk is full")
        return decided.value


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


# Pausing and resuming.


# Pausing and going on.


@pytest.mark.parametrize(
    ("resumption", "words"),
    [
        pytest.param(Resumption(), "resumed by the operator", id="by-the-operator"),
        pytest.param(Resumption(cause=ResumeCause.PARENT), "resumed by its parent agent", id="by-its-parent"),
        pytest.param(Resumption(cause=ResumeCause.TIMEOUT), "resumed by a timeout", id="by-a-timeout"),
        pytest.param(
            Resumption(cause=ResumeCause.TRIGGER, trigger_id="nightly", event_id="e7"), "nightly", id="by-a-trigger"
        ),
    ],
)
def test_the_first_resumed_request_says_why_it_paused_and_who_let_it_go_on(resumption: Resumption, words: str) -> None:
    family = AFamily()

    async def main() -> None:
        worker = await a_suspended_worker(family)
        assert (await worker.resume(resumption)).status is LoopStatus.COMPLETED

    asyncio.run(main())
    assert family.requests_with("waiting for the nightly build") == [2]
    assert family.requests_with(words) == [2]
    assert "suspended at turn 1" in family.model.requests[1].text
    assert "No input was given on resumption." in family.model.requests[1].text
    assert family.events == [
        "worker_spawned",
        "worker_progressed",
        "worker_suspended",
        "worker_resumed",
        "worker_progressed",
        "worker_completed",
    ]
    resumed = dict(family.heard)["worker_resumed"]
    assert (resumed["reason"], resumed["cause"]) == ("waiting for the nightly build", resumption.cause)


def test_what_it_is_told_of_the_pause_is_told_once() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await a_suspended_worker(family, a_reply("work"))
        await worker.resume(Resumption(input="The build is green."))

    asyncio.run(main())
    assert family.requests_with("This session was suspended") == [2]
    assert family.requests_with("Input given on resumption:") == [2]
    assert family.requests_with("The build is green.") == [2, 3]
    assert family.requests_with("I begin.") == [2, 3]
    assert family.requests_with("A digest of it:") == []


def test_a_worker_that_does_not_continue_its_transcript_has_a_digest_of_it() -> None:
    family = AFamily()

    async def main() -> Worker:
        worker = await a_suspended_worker(family)
        await worker.resume(Resumption(input="Start over.", continue_transcript=False))
        return worker

    worker = asyncio.run(main())
    request = family.model.requests[1]
    assert [message["role"] for message in request.messages] == ["user"]
    assert "A digest of it:" in request.text
    assert "user: Read the logs. assistant: I begin. tool: done" in request.text
    assert [event.archived_messages for event in _of(worker, Compacted)] == [3]


def _of(worker: Worker, kind: type[Any]) -> list[Any]:
    journal: Any = worker.session.talk.journal
    return [logged.event for logged in journal.journal if isinstance(logged.event, kind)]


def test_without_a_reason_none_is_claimed() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await a_suspended_worker(family, reason=None)
        await worker.resume(Resumption())

    asyncio.run(main())
    assert family.requests_with("No reason for the suspension was given.") == [2]


# Only a suspended worker is resumed.


async def refused(worker: Worker) -> None:
    with pytest.raises(
        WrongPhase, match=f"worker 'worker' is {worker.phase}; this can only be done while it is suspended"
    ):
        await worker.resume(Resumption(input="more", continue_transcript=False))


def test_a_worker_that_runs_is_not_resumed_and_loses_nothing() -> None:
    family = AFamily()
    workers: list[Worker] = []

    async def line(_view: RequestView) -> str:
        before = [*workers[0].session.talk.state.messages]
        await refused(workers[0])
        assert workers[0].session.talk.state.messages == before
        return "Read."

    async def main() -> None:
        family.model = ScriptedModel([line])
        workers.append(await family.spawn())
        await refused(workers[0])
        await workers[0].work()

    asyncio.run(main())
    assert family.events == ["worker_spawned", "worker_progressed", "worker_completed"]


def test_a_worker_that_has_ended_is_not_told_that_it_was_suspended() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await family.spawn()
        await worker.work()
        before = [*worker.session.talk.state.messages]
        await refused(worker)
        worker.suspend("too late")
        await refused(worker)
        assert (worker.session.talk.state.messages, len(worker.session.talk.state.live)) == (before, 0)

    asyncio.run(main())
    assert family.events[-1] == "worker_completed"


def test_a_worker_works_once() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await family.spawn()
        await worker.work()
        with pytest.raises(WrongPhase) as wrong:
            await worker.work()
        assert wrong.value.phase is WorkerPhase.ENDED

    asyncio.run(main())
    assert family.events.count("worker_spawned") == 1


def test_a_worker_whose_session_is_in_use_stays_suspended_and_loses_nothing() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await a_suspended_worker(family)
        before = [*worker.session.talk.state.messages]
        session = await family.store.session(worker.session.id)
        afresh = Resumption(continue_transcript=False)
        with session.calling(), pytest.raises(SessionBusy):
            await worker.resume(afresh)
        assert (worker.phase, worker.session.talk.state.messages) == (WorkerPhase.SUSPENDED, before)
        assert family.events[-1] == "worker_suspended"
        assert (await worker.resume(afresh)).status is LoopStatus.COMPLETED

    asyncio.run(main())


def test_a_suspended_worker_that_is_cancelled_ends_where_it_would_go_on() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await a_suspended_worker(family)
        worker.cancel()
        assert (await worker.resume(Resumption())).status is LoopStatus.CANCELLED

    asyncio.run(main())
    assert len(family.model.requests) == 1
    assert family.events[-1] == "worker_cancelled"


def test_a_worker_can_pause_more_than_once() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await a_suspended_worker(family, lambda _view: pauses(worker), "Read.")
        assert (await worker.resume(Resumption())).status is LoopStatus.SUSPENDED
        assert (await worker.resume(Resumption())).text == "Read."

    def pauses(worker: Worker) -> Reply:
        worker.suspend("the second time")
        return a_reply("work")

    asyncio.run(main())
    assert family.requests_with("the second time") == [3]


def test_providers_that_are_off_are_off_for_a_worker_too() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await a_suspended_worker(family, reminders=False)
        await worker.resume(Resumption())

    asyncio.run(main())
    assert family.requests_with("This session was suspended") == []


def test_a_digest_is_short() -> None:
    scene = AScene()
    scene.says("x" * 1_000)
    asyncio.run(scene.play("go"))
    text = digest(scene.state, messages=1, characters=10)
    assert text == "assistant: xxxxxxxxxx"


# Asked before it has begun.


@pytest.mark.parametrize("from_a_hook", [False, True], ids=["before-its-work", "by-a-hook-that-hears-of-it"])
@pytest.mark.parametrize(
    ("act", "status", "last"),
    [
        pytest.param(lambda worker: worker.suspend("wait"), LoopStatus.SUSPENDED, "worker_suspended", id="suspend"),
        pytest.param(Worker.cancel, LoopStatus.CANCELLED, "worker_cancelled", id="cancel"),
    ],
)
def test_what_is_asked_of_a_worker_before_it_runs_is_not_lost(
    act: Callable[[Worker], None], status: LoopStatus, last: str, *, from_a_hook: bool
) -> None:
    family = AFamily()

    async def main() -> None:
        worker = await family.spawn()

        async def acts(_context: object) -> None:
            act(worker)

        if from_a_hook:
            family.parent.hooks.register_session_hook("worker_spawned", acts)
        else:
            act(worker)
        assert (await worker.work()).status is status

    asyncio.run(main())
    assert family.events == ["worker_spawned", last]
    assert family.model.requests == []


def test_a_worker_that_paused_before_it_began_goes_on_with_its_task() -> None:
    family = AFamily("Read.")

    async def main() -> None:
        worker = await family.spawn()
        worker.suspend("not yet")
        await worker.work()
        assert (await worker.resume(Resumption())).text == "Read."

    asyncio.run(main())
    assert family.requests_with("Read the logs.") == family.requests_with("not yet") == [1]
