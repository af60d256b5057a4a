"""The runner where its store or a listener fails, and where it is stopped at an awkward moment."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sideband.core.errors import InvalidOption, StoreClosed, StoreUnavailable, UnknownMessage
from sideband.core.events import Closing, InjectDelivered, Started
from sideband.loop.run import LoopResult, LoopStatus
from sideband.ports import Lease, ModelError
from sideband.render.view import RequestView
from sideband.runtime import runner as module
from sideband.runtime.runner import RETRY_SECONDS, Outcome, Runner, TurnStatus
from sideband.testing import MemoryStore, ScriptedModel
from tests.agents import awaited
from tests.decisions import saying
from tests.loop_builders import AScene, a_session, hang, others


def a_runner(scene: AScene, **options: Any) -> Runner:  # noqa: ANN401 - those of a runner
    defaults: dict[str, Any] = {"model": scene.model, "hooks": scene.hooks, "providers": scene.providers}
    return Runner(scene.session, reminders=False, **(defaults | options))


class FailingStore(MemoryStore):
    """Asking for a lease fails, or waits, as long as `trouble` is set."""

    trouble: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def acquire(self, session_id: str, holder: str) -> Lease:
        if self.trouble is not None:
            await self.trouble()
        return await super().acquire(session_id, holder)


def test_a_runner_does_not_wake_by_itself() -> None:
    with pytest.raises(InvalidOption, match="do not wake by themselves"):
        Runner(a_session(), model=ScriptedModel(), wake_seconds=10)
    with pytest.raises(TypeError, match="no option 'colour'"):
        Runner(a_session(), model=ScriptedModel(), colour="red")  # type: ignore[call-arg]  # that is the point


@awaited
async def test_a_runner_may_be_started_twice_and_closed_before_it_was_started() -> None:
    scene = AScene()
    await a_runner(scene).aclose()
    runner = a_runner(scene)
    runner.start()
    runner.start()
    assert await runner.outcome(await scene.session.prompt("Mend it.")) == Outcome(TurnStatus.COMPLETED)
    await runner.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@awaited
async def test_a_store_that_fails_is_asked_again_and_the_failure_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = FailingStore()

    async def fail() -> None:
        raise StoreUnavailable("the disk is gone")

    store.trouble = fail
    scene = AScene(store=store)
    with caplog.at_level(logging.WARNING, logger="sideband"):
        async with a_runner(scene) as runner:
            message_id = await scene.session.prompt("Mend it.")
            await asyncio.sleep(5 * RETRY_SECONDS)
            store.trouble = None
            assert (await runner.outcome(message_id)).status == "completed"
    assert len([record for record in caplog.records if "the disk is gone" in record.message]) == 1


class OnceFailingStore(MemoryStore):
    """The commit after `fails` was set fails."""

    fails = False

    async def commit(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - those of any commit
        if self.fails:
            self.fails = False
            raise StoreUnavailable("the disk is gone")
        return await super().commit(*args, **options)


@awaited
async def test_a_turn_whose_commit_fails_ends_as_failed_and_the_queue_goes_on() -> None:
    store = OnceFailingStore()
    scene = AScene(store=store)

    def answer(_view: RequestView) -> str:
        store.fails = True
        return "lost"

    scene.says(answer)
    closing = {status: Closing(records={"state": status}) for status in ("failed", "cancelled")}
    async with a_runner(scene, closing=closing) as runner:
        first, second = [await scene.session.prompt(text) for text in ("one", "two")]
        assert (await runner.outcome(first)).status == "failed"
        assert scene.state.records["state"] == "failed"
        assert (await runner.outcome(second)).status == "completed"


@awaited
async def test_a_closed_store_ends_its_runner() -> None:
    store = FailingStore()

    async def fail() -> None:
        raise StoreClosed

    store.trouble = fail
    scene = AScene(store=store)
    async with a_runner(scene):
        await scene.session.prompt("Mend it.")
        await others()
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("late", [False, True], ids=["the-lease-comes-in-time", "the-lease-comes-too-late"])
@awaited
async def test_a_runner_that_is_closed_while_it_asks_for_the_lease_keeps_none(late: bool) -> None:  # noqa: FBT001 - a column
    store, asked, granted = FailingStore(), asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await granted.wait()

    store.trouble = wait
    scene = AScene(store=store)
    runner = a_runner(scene)
    runner.start()
    await scene.session.prompt("Mend it.")
    await asked.wait()
    closing = asyncio.ensure_future(runner.aclose())
    await others()
    if not late:
        granted.set()
    await closing
    store.trouble = None
    assert (scene.model.requests, scene.session.busy) == ([], False)
    await store.acquire("main", "another process")


@awaited
async def test_a_runner_that_is_closed_while_it_asks_for_the_lease_ends_at_once_if_nothing_is_left() -> None:
    store, asked, granted = FailingStore(), asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await granted.wait()

    store.trouble = wait
    scene = AScene(store=store)
    runner = a_runner(scene)
    runner.start()
    message_id = await scene.session.prompt("Mend it.")
    await asked.wait()
    await scene.session.revoke(message_id)
    before = asyncio.get_running_loop().time()
    closing = asyncio.ensure_future(runner.aclose())
    await others()
    granted.set()
    await closing
    assert asyncio.get_running_loop().time() - before < 1
    store.trouble = None
    await store.acquire("main", "another process")


@awaited
async def test_a_turn_that_was_opened_after_the_runner_has_seen_an_idle_session_is_not_resumed() -> None:
    scene = AScene()
    async with a_runner(scene, resume=True) as runner:
        await runner.outcome(await scene.session.prompt("Mend it."))
        await others()
        await scene.store.commit("main", saying(Started(message_id="of-a-process-that-dies")))
        await asyncio.sleep(2 * RETRY_SECONDS)
    assert (len(scene.model.requests), scene.state.running) == (1, False)


@awaited
async def test_a_listener_that_fails_or_hangs_does_not_end_the_runner(caplog: pytest.LogCaptureFixture) -> None:
    scene = AScene()
    told: list[str | None] = []

    async def listen(message_id: str | None, _result: LoopResult) -> None:
        told.append(message_id)
        if len(told) == 1:
            raise LookupError("lost")
        await hang()

    with caplog.at_level(logging.WARNING, logger="sideband"):
        async with a_runner(scene, on_result=listen) as runner:
            ids = [await scene.session.prompt(text) for text in ("one", "two", "three")]
            assert [(await runner.outcome(message_id)).status for message_id in ids] == ["completed"] * 3
            await others()
    assert told == ids
    assert "LookupError: lost" in caplog.text


@awaited
async def test_text_that_comes_after_its_turn_was_cancelled_is_not_passed_on() -> None:
    scene = AScene()
    heard: list[str] = []

    async def line(_view: RequestView) -> str:
        try:
            await a_session(store=scene.store).cancel()
            await hang()
        except asyncio.CancelledError:
            return "too late"
        return ""

    scene.says(line)
    async with a_runner(scene, on_reply=lambda _reply, text: heard.append(text)) as runner:
        message_id = await scene.session.prompt("Mend it.")
        assert (await runner.outcome(message_id)).status == "cancelled"
        await others()
    assert heard == []


@awaited
async def test_the_outcome_of_an_unknown_message_is_an_error() -> None:
    with pytest.raises(UnknownMessage):
        await a_runner(AScene()).outcome("unknown")


@pytest.mark.parametrize("why", ["pruned", "sent-before-the-cursor"])
@awaited
async def test_the_outcome_of_a_message_whose_end_is_out_of_reach_is_an_error(why: str) -> None:
    scene = AScene()
    async with a_runner(scene) as runner:
        message_id = await scene.session.prompt("Mend it.")
        await runner.outcome(message_id)
        if why == "pruned":
            await scene.store.prune("main")
        after = 0 if why == "pruned" else len(scene.store.journal)
        with pytest.raises(UnknownMessage):
            await asyncio.wait_for(runner.outcome(message_id, after=after), 10)


@awaited
async def test_the_outcome_of_a_steer_is_that_of_the_turn_that_took_it() -> None:
    scene = AScene()
    begun, released = asyncio.Event(), asyncio.Event()

    async def wait(_view: RequestView) -> str:
        begun.set()
        await released.wait()
        return "Done."

    scene.says("First.", wait)
    async with a_runner(scene) as runner:
        await scene.session.prompt("Mend it.")
        steer = await scene.session.inject("Quickly.", mode="steer")
        await scene.session.prompt("Again.")
        late = await scene.session.inject("Now.", mode="steer")
        assert (await runner.outcome(steer)).status == "completed"
        await begun.wait()
        told = asyncio.ensure_future(runner.outcome(late))
        await others()
        released.set()
        assert (await told).status == "completed"


@awaited
async def test_a_session_that_is_closed_in_a_turn_ends_that_turn_as_closed() -> None:
    scene = AScene()
    message_id = await scene.session.prompt("Mend it.")
    runner = a_runner(scene)
    blocks = ({"type": "text", "text": "Mend it."},)
    await scene.store.commit(
        "main", saying(Started(message_id=message_id), InjectDelivered(message_id=message_id, content=blocks))
    )
    await scene.session.close()
    assert (await runner.outcome(message_id)).status == "closed"


@awaited
async def test_a_subscriber_that_was_too_slow_looks_again() -> None:
    scene = AScene(store=MemoryStore(subscriber_events=1))
    message_id = await scene.session.prompt("Mend it.")
    async with a_runner(scene) as runner:
        assert await runner.outcome(message_id) == Outcome(TurnStatus.COMPLETED)


@awaited
async def test_the_outcome_is_refused_if_the_store_is_closed_meanwhile() -> None:
    scene = AScene()
    message_id = await scene.session.prompt("Mend it.")
    told = asyncio.ensure_future(a_runner(scene).outcome(message_id))
    await others()
    scene.store._feed.end()
    with pytest.raises(StoreClosed):
        await told


@awaited
async def test_the_outcome_of_an_audit_message_is_that_it_is_on_record() -> None:
    scene = AScene()
    scene.says("Done.")
    async with a_runner(scene) as runner:
        note = await scene.session.inject("For the record.", mode="audit_only")
        await scene.session.prompt("Mend it.")
        assert await runner.outcome(note) == Outcome(TurnStatus.COMPLETED)


@awaited
async def test_the_errors_of_the_last_prompts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RESULTS", 1)
    scene = AScene()
    scene.says(ModelError("first", status=400), ModelError("second", status=400))
    async with a_runner(scene) as runner:
        first, second = [await scene.session.prompt(text) for text in ("one", "two")]
        await runner.outcome(second)
        await others()
        assert await runner.outcome(first) == Outcome(TurnStatus.FAILED)
        assert await runner.outcome(second) == Outcome(TurnStatus.FAILED, "second")


def test_a_turn_ends_like_a_run_or_with_its_session() -> None:
    assert {*TurnStatus} == {*LoopStatus, "closed"}
