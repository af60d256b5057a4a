"""Workers that pause and go on, and what is asked of one that does not run."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sideband.core.errors import SessionBusy
from sideband.core.events import Compacted
from sideband.loop.run import LoopStatus
from sideband.loop.subagent import Phase, ResumeCause, Resumption, Worker, WrongPhase, digest
from sideband.ports import Reply
from sideband.render.view import RequestView
from sideband.testing import ScriptedModel
from tests.loop_builders import AScene, a_reply
from tests.workers import AFamily, a_suspended_worker

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


# Only a suspended worker is resumed.


async def refused(worker: Worker) -> None:
    with pytest.raises(WrongPhase, match=f"worker 'worker' is {worker.phase}, and only one that is suspended"):
        await worker.resume(Resumption(input="more", continue_transcript=False))


def test_a_worker_that_runs_is_not_resumed_and_loses_nothing() -> None:
    family = AFamily()
    workers: list[Worker] = []

    async def line(_view: RequestView) -> str:
        before = [*workers[0].child.state.messages]
        await refused(workers[0])
        assert workers[0].child.state.messages == before
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
        before = [*worker.child.state.messages]
        await refused(worker)
        worker.suspend("too late")
        await refused(worker)
        assert (worker.child.state.messages, len(worker.child.state.live)) == (before, 0)

    asyncio.run(main())
    assert family.events[-1] == "worker_completed"


def test_a_worker_works_once() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await family.spawn()
        await worker.work()
        with pytest.raises(WrongPhase) as wrong:
            await worker.work()
        assert wrong.value.phase is Phase.ENDED

    asyncio.run(main())
    assert family.events.count("worker_spawned") == 1


def test_a_worker_whose_session_is_in_use_stays_suspended_and_loses_nothing() -> None:
    family = AFamily()

    async def main() -> None:
        worker = await a_suspended_worker(family)
        before = [*worker.child.state.messages]
        session = await family.store.session(worker.child.session_id)
        afresh = Resumption(continue_transcript=False)
        with session.calling(), pytest.raises(SessionBusy):
            await worker.resume(afresh)
        assert (worker.phase, worker.child.state.messages) == (Phase.SUSPENDED, before)
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
