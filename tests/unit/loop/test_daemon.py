"""A daemon between its turns: what wakes it, what does not, and how it ends."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sideband.core.errors import SessionBusy, TooManyPending
from sideband.core.events import Cancelled, Started
from sideband.core.seams import ModeWord, Seam
from sideband.core.turn import close
from sideband.loop.agent import AgentRun
from sideband.loop.run import LoopResult, LoopStatus, Step
from sideband.testing import FakeClock
from tests.decisions import saying
from tests.loop_builders import AScene, a_reply, a_session, others, same_state, until

Act = Callable[[AScene, AgentRun], Awaitable[None]]


def idling(act: Act, *, scene: AScene | None = None, wake_seconds: float | None = None) -> tuple[AScene, LoopResult]:
    """Let a daemon become idle, do something to it, let it rest again, and stop it."""
    played = scene or AScene()
    played.clock = FakeClock(patient=True)

    async def main() -> LoopResult:
        run = await played.begin(daemon=True, wake_seconds=wake_seconds)
        driving = asyncio.create_task(run.finish())
        await others()
        assert not played.state.running
        assert not driving.done()
        await act(played, run)
        await others()
        run.stop()
        result = await driving
        await others()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    result = asyncio.run(main())
    assert same_state(played)
    return played, result


async def nothing(_scene: AScene, _run: AgentRun) -> None:
    pass


def test_a_daemon_waits_when_it_has_nothing_to_do_and_ends_when_it_is_stopped() -> None:
    scene, result = idling(nothing)
    assert (result.status, result.turns, len(scene.model.requests)) == (LoopStatus.COMPLETED, 1, 1)


@pytest.mark.parametrize("mode", ["finish_step", "audit_only"])
def test_a_daemon_that_is_full_of_what_does_not_wake_it_can_still_be_woken(mode: ModeWord) -> None:
    async def act(scene: AScene, _run: AgentRun) -> None:
        for number in range(256):
            await scene.session.remind(f"fact {number}", mode=mode, ttl_turns=1)
        with pytest.raises(TooManyPending):
            await scene.session.remind("one more", mode=mode)
        await scene.session.remind("the build is red", mode="interrupt_immediate")
        await others()
        await scene.session.prompt("Mend it first.")

    scene, _ = idling(act)
    assert scene.requests_with("the build is red")[0] == 2
    assert scene.requests_with("Mend it first.") == [3]


def test_an_interrupt_wakes_a_daemon_at_once() -> None:
    async def act(scene: AScene, _run: AgentRun) -> None:
        await scene.session.remind("the build is red", mode="interrupt_immediate")

    scene, result = idling(act)
    assert (result.status, result.turns) == (LoopStatus.COMPLETED, 2)
    assert scene.requests_with("the build is red") == [2]
    assert result.undelivered == ()


def test_an_interrupt_makes_the_session_run_in_the_commit_that_takes_it() -> None:
    async def act(scene: AScene, _run: AgentRun) -> None:
        await scene.session.remind("the build is red", mode="interrupt_immediate")

    scene, _ = idling(act)
    kinds = scene.kinds
    place = kinds.index("Checkpoint")
    assert kinds[place - 2 : place + 1] == ["Started", "Injected", "Checkpoint"]
    assert scene.seam_of("main-3") is Seam.DAEMON_IDLE_POST


@pytest.mark.parametrize("mode", ["finish_step", "audit_only"])
def test_nothing_else_wakes_it(mode: ModeWord) -> None:
    async def act(scene: AScene, _run: AgentRun) -> None:
        await scene.session.remind("by the way", mode=mode)

    scene, result = idling(act)
    assert result.turns == 1
    assert scene.requests_with("by the way") == []


def test_what_did_not_wake_it_is_told_with_the_next_turn() -> None:
    async def act(scene: AScene, _run: AgentRun) -> None:
        await scene.session.remind("by the way", mode="finish_step")
        await others()
        await scene.session.prompt("Anything new?")

    scene, _ = idling(act)
    assert scene.requests_with("by the way") == [2]


def test_a_message_wakes_it() -> None:
    prompts: list[str] = []
    scene = AScene()

    async def hook(context: dict[str, str]) -> None:
        prompts.append(context["prompt"])

    scene.hooks.register_session_hook("user_prompt_submit", hook)

    async def act(scene: AScene, _run: AgentRun) -> None:
        await scene.session.prompt("Also this.")

    idling(act, scene=scene)
    assert scene.requests_with("Also this.") == [2]
    assert prompts == ["Mend the build.", "Also this."]


def test_an_interrupt_that_was_revoked_before_it_was_taken_wakes_nobody() -> None:
    async def act(scene: AScene, _run: AgentRun) -> None:
        accepted = await scene.session.remind("false alarm", mode="interrupt_immediate")
        await scene.session.revoke(accepted.reminder_id)

    scene, result = idling(act, wake_seconds=60)
    assert (result.turns, scene.requests_with("false alarm")) == (1, [])


def test_a_message_that_is_held_after_a_cancel_wakes_nobody() -> None:
    async def act(scene: AScene, _run: AgentRun) -> None:
        await scene.session.prompt("held")
        await scene.session.talk.commit(saying(Cancelled(hold_queue=True)))

    _, result = idling(act)
    assert [len(result.undelivered), result.turns] == [1, 1]


# Its own time.


@pytest.mark.parametrize("body", [None, "Look around."], ids=["has-nothing-to-answer", "has-a-reminder-to-answer"])
def test_after_its_own_time_a_daemon_hears_of_its_idleness_and_answers_what_is_new(body: str | None) -> None:
    scene = AScene()
    told: list[int] = []

    async def hook(context: dict[str, int]) -> dict[str, str] | None:
        told.append(context["wake_interval_ms"])
        assert not scene.state.running
        return None if body is None else {"body": body}

    scene.hooks.register_session_hook("session_idle", hook)

    async def act(scene: AScene, _run: AgentRun) -> None:
        scene.clock.advance(89)
        await others()
        assert told == []
        scene.clock.advance(1)

    _, result = idling(act, scene=scene, wake_seconds=90)
    assert (told, result.turns) == ([90_000], 1 if body is None else 2)


def test_the_idle_nudge_is_shown_by_the_request_that_follows() -> None:
    scene = AScene()
    scene.clock = FakeClock(patient=True)

    async def main() -> None:
        run = await scene.begin(daemon=True, wake_seconds=60, reminders=True)
        driving = asyncio.create_task(run.finish())
        await others()
        scene.clock.advance(60)
        await others()
        run.stop()
        await driving

    asyncio.run(main())
    assert scene.requests_with("was idle for at least 60 seconds") == [2]


def test_a_reason_that_comes_before_its_time_is_no_idleness() -> None:
    scene = AScene()
    told: list[object] = []
    scene.hooks.register_session_hook("session_idle", told.append)

    async def act(scene: AScene, _run: AgentRun) -> None:
        scene.clock.advance(59)
        await scene.session.remind("now", mode="interrupt_immediate")

    _, result = idling(act, scene=scene, wake_seconds=60)
    assert (told, result.turns) == ([], 2)


def test_a_clock_that_fails_does_not_pass_for_a_timer() -> None:
    class Broken(FakeClock):
        async def sleep(self, _seconds: float) -> None:
            raise OSError("no such clock")

    scene = AScene()

    async def main() -> None:
        with pytest.raises(OSError, match="no such clock"):
            await scene.play(daemon=True, wake_seconds=1, clock=Broken())

    asyncio.run(main())
    assert not scene.state.running


def test_a_message_that_comes_while_idleness_is_told_is_in_the_very_next_request() -> None:
    scene = AScene()

    async def hook(_context: object) -> None:
        await scene.session.prompt("Also this.")

    scene.hooks.register_session_hook("session_idle", hook)

    async def act(scene: AScene, _run: AgentRun) -> None:
        scene.clock.advance(90)

    _, result = idling(act, scene=scene, wake_seconds=90)
    assert (scene.requests_with("Also this."), result.turns) == ([2], 2)


def test_a_daemon_with_nothing_to_say_waits_whatever_the_time() -> None:
    scene = AScene()
    scene.clock = FakeClock(patient=True)

    async def main() -> LoopResult:
        run = await scene.begin(None, daemon=True, wake_seconds=60)
        driving = asyncio.create_task(run.finish())
        for _ in range(3):
            await others()
            scene.clock.advance(60)
        await others()
        assert scene.model.requests == []
        await scene.session.prompt("Now.")
        await others()
        run.stop()
        return await driving

    result = asyncio.run(main())
    assert (result.turns, scene.requests_with("Now.")) == (1, [1])


# How it ends.


@pytest.mark.parametrize("wake_seconds", [None, 60])
def test_a_daemon_whose_session_is_closed_elsewhere_ends(wake_seconds: float | None) -> None:
    scene = AScene()
    scene.clock = FakeClock(patient=True)

    async def main() -> LoopResult:
        run = await scene.begin(daemon=True, wake_seconds=wake_seconds)
        driving = asyncio.create_task(run.finish())
        await others()
        with pytest.raises(SessionBusy):
            await a_session(store=scene.store).close()
        assert not scene.state.closed
        await scene.store.commit("main", close)
        return await driving

    result = asyncio.run(main())
    assert (result.status, scene.kinds[-1]) == (LoopStatus.COMPLETED, "Closed")
    assert same_state(scene)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        pytest.param(AgentRun.stop, LoopStatus.COMPLETED, id="stopped"),
        pytest.param(AgentRun.suspend, LoopStatus.SUSPENDED, id="suspended"),
        pytest.param(AgentRun.cancel, LoopStatus.CANCELLED, id="cancelled"),
    ],
)
def test_an_idle_daemon_ends_at_once(end: Callable[[AgentRun], None], status: LoopStatus) -> None:
    scene = AScene()

    async def main() -> LoopResult:
        run = await scene.begin(daemon=True)
        driving = asyncio.create_task(run.finish())
        await others()
        end(run)
        return await driving

    result = asyncio.run(main())
    assert (result.status, scene.state.running) == (status, False)


def test_a_daemon_that_is_stopped_at_work_finishes_it() -> None:
    scene = AScene()
    scene.says(a_reply("work"), "Done.")

    async def main() -> LoopResult:
        run = await scene.begin(daemon=True)
        run.stop()
        return await run.finish()

    result = asyncio.run(main())
    assert (result.status, result.turns, result.text) == (LoopStatus.COMPLETED, 2, "Done.")


def test_a_daemon_that_is_cancelled_while_it_is_told_of_idleness_ends_without_another_turn() -> None:
    scene = AScene()

    async def main() -> LoopResult:
        run = await scene.begin(daemon=True, wake_seconds=1)

        async def hook(_context: object) -> None:
            run.cancel()

        scene.hooks.register_session_hook("session_idle", hook)
        return await run.finish()

    result = asyncio.run(main())
    assert (result.status, result.turns) == (LoopStatus.CANCELLED, 1)


def test_a_daemon_ends_with_its_budget() -> None:
    scene = AScene()
    result = asyncio.run(scene.play(daemon=True, max_turns=1))
    assert (result.status, result.turns) == (LoopStatus.MAX_TURNS, 1)


def test_a_caller_that_steps_through_a_daemon_is_told_when_it_idles() -> None:
    scene = AScene()

    async def main() -> None:
        async with await scene.begin(daemon=True) as run:
            await until(run, Step.IDLE)
            await scene.session.prompt("Go on.")
            await until(run, Step.TURN)
            await until(run, Step.IDLE)

    asyncio.run(main())
    assert len(scene.model.requests) == 2
    assert len(scene.events(Started)) == 2


# Suspended.


def test_a_suspended_run_ends_after_its_step_and_can_go_on() -> None:
    scene = AScene()

    async def main() -> None:
        run = await scene.begin()
        await until(run, Step.TURN)
        run.suspend()
        await scene.session.remind("meanwhile")
        result = await run.finish()
        assert (result.status, result.turns, len(result.undelivered)) == (LoopStatus.SUSPENDED, 1, 1)
        assert not scene.state.running
        assert (await scene.play(None)).status is LoopStatus.COMPLETED

    scene.says(a_reply("work"), "Done.")
    asyncio.run(main())
    assert scene.results() == [("c1", "ok")]
    assert scene.requests_with("meanwhile") == [2]
