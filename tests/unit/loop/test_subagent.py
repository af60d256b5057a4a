"""Workers: what they inherit, what their parent hears of them, and how they pause and go on."""

import asyncio
from typing import Any

import pytest

from sideband.core.events import Compacted, Inherited
from sideband.core.hookevents import WorkerEvent
from sideband.core.reminder import Source
from sideband.loop.run import LoopStatus
from sideband.loop.subagent import ResumeCause, Resumption, Worker, digest, envelope, receive
from sideband.models.scripted import Line
from sideband.ports import ModelError, Reply, RequestView
from sideband.runtime.store import Store
from sideband.runtime.workers import spawn
from sideband.testing import CountingIds, ScriptedModel
from tests.loop_builders import AScene, a_reply, a_session, hang, others


class AFamily:
    """A parent with a session, and a worker of it with a model of its own."""

    def __init__(self, *script: Line) -> None:
        self.parent = AScene(name="parent")
        self.store = Store(self.parent.store, new_id=CountingIds("child"))
        self.model = ScriptedModel(script)
        self.heard: list[tuple[str, dict[str, Any]]] = []
        for event in WorkerEvent:
            self.parent.hooks.register_session_hook(event, self._hear)

    async def _hear(self, context: dict[str, Any]) -> None:
        self.heard.append((context["event"], dict(context)))

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.heard]

    async def spawn(self, task: str = "Read the logs.", **options: Any) -> Worker:  # noqa: ANN401 - those of agent_run
        defaults: dict[str, Any] = {
            "model": self.model,
            "tools": self.parent.tools,
            "hooks": self.parent.hooks,
            "providers": self.parent.providers,
            "clock": self.parent.clock,
        }
        return await spawn(self.parent.session, self.store, task, **(defaults | options))

    def requests_with(self, text: str) -> list[int]:
        return [number for number, request in enumerate(self.model.requests, start=1) if text in request.text]


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
        worker.suspend()
        worker.cancel()
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

    asyncio.run(main())
    assert family.events == ["worker_spawned", "worker_cancelled"]


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
        ((where, message),) = worker.problems
        assert where.endswith("meddles on worker_spawned")
        assert message.startswith("HARN-RMD-008")

    asyncio.run(main())
    assert family.parent.journal == []


# Pausing and going on.


async def a_suspended_worker(
    family: AFamily,
    *script: Line,
    reason: str | None = "waiting for the nightly build",
    **options: Any,  # noqa: ANN401 - those of agent_run
) -> Worker:
    """A worker that was suspended in its first turn; the script is what its model says afterwards."""
    workers: list[Worker] = []

    async def first(_view: RequestView) -> Reply:
        workers[0].suspend(reason)
        return a_reply("work", text="I begin.")

    family.model = ScriptedModel([first, *script])
    workers.append(await family.spawn(**options))
    assert (await workers[0].work()).status is LoopStatus.SUSPENDED
    return workers[0]


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
    assert (resumed["reason"], resumed["cause"]) == ("waiting for the nightly build", resumption.cause.value)


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
    journal: Any = worker.child.journal
    return [logged.event for logged in journal.journal if isinstance(logged.event, kind)]


def test_without_a_reason_none_is_claimed() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await a_suspended_worker(family, reason=None)
        await worker.resume(Resumption())

    asyncio.run(main())
    assert family.requests_with("No reason for the suspension was given.") == [2]


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
