"""Cancelling a turn: it never happened or ended in order, and the inbox does not notice."""

import asyncio
from typing import Any

import pytest

from sideband.core.events import Cancelled, Expired, Fired, TurnCommitted, TurnVoided
from sideband.core.messages import Reply
from sideband.loop.run import LoopStatus, Step
from sideband.ports import ModelError, ToolContext
from sideband.render.view import RequestView
from tests.loop_builders import AScene, ATool, a_reply, hang, others, same_state, unanswered_calls, until


def cancelling(scene: AScene) -> Any:  # noqa: ANN401 - a line of a script
    """A model call that a client cancels; it would never have answered."""

    async def line(_view: RequestView) -> str:
        assert await scene.session.cancel()
        await hang()
        return "too late"

    return line


def test_a_cancelled_model_call_never_happened() -> None:
    scene = AScene()
    scene.says(cancelling(scene), "Done.")

    async def main() -> None:
        await scene.session.remind("a fact", ttl_turns=1)
        result = await scene.play()
        assert (result.status, result.turns, result.usage.prompt_tokens) == (LoopStatus.CANCELLED, 0, 0)
        assert (scene.state.running, scene.state.request) == (False, None)
        (pending,) = await scene.session.pending()
        assert (pending.state, pending.reminder.ttl_turns) == ("live", 1)
        await scene.play("Go on.")

    asyncio.run(main())
    assert scene.events(TurnVoided) == [TurnVoided(turn=1)]
    assert [event.turn for event in scene.events(TurnCommitted)] == [1]
    assert [request.turn for request in scene.model.requests] == [1, 1]
    assert scene.requests_with("a fact") == [1, 2]
    assert [event.turn for event in scene.events(Expired)] == [1]
    assert [event.turn for event in scene.events(Fired)] == [1, 1]
    assert same_state(scene)


def test_cancelled_tools_have_a_result_each() -> None:
    scene = AScene(ATool("slow", hang), ATool("quick"))

    async def main() -> None:
        run = await scene.begin()
        await until(run, Step.TURN)
        driving = asyncio.create_task(run.finish())
        await others()
        assert await scene.session.cancel()
        assert (await driving).status is LoopStatus.CANCELLED

    scene.says(a_reply("slow", "quick", "slow"))
    asyncio.run(main())
    assert scene.results() == [("c2", "ok"), ("c1", "cancelled"), ("c3", "cancelled")]
    assert unanswered_calls(scene.state.messages) == []
    assert scene.events(TurnCommitted)
    assert not scene.events(TurnVoided)
    assert same_state(scene)


def test_a_single_cancelled_tool_has_a_result() -> None:
    scene = AScene(ATool("slow", hang))
    scene.says(a_reply("slow"))

    async def main() -> None:
        driving = asyncio.create_task(scene.play())
        await others()
        await scene.session.cancel()
        assert (await driving).status is LoopStatus.CANCELLED

    asyncio.run(main())
    assert scene.results() == [("c1", "cancelled")]


def test_a_cancelled_tool_says_what_it_has_already_done() -> None:
    def write(_args: object, context: ToolContext) -> object:
        context.applied("wrote src/a.py")
        context.applied("deleted src/b.py")
        return hang()

    scene = AScene(ATool("write", write))
    scene.says(a_reply("write"))

    async def main() -> None:
        driving = asyncio.create_task(scene.play())
        await others()
        await scene.session.cancel()
        await driving

    asyncio.run(main())
    assert scene.result_text() == "Cancelled. Changes already made: wrote src/a.py; deleted src/b.py."


@pytest.mark.parametrize("event", ["post_turn", "post_step", "pre_finish"])
def test_a_run_can_be_cancelled_between_turns(event: str) -> None:
    tool = ATool()
    scene = AScene(tool)
    scene.says(a_reply("work") if event != "pre_finish" else "Done.", "never said")

    async def hook(_context: object) -> None:
        await scene.session.cancel()

    scene.hooks.register_session_hook(event, hook)
    result = asyncio.run(scene.play())
    assert (result.status, result.turns) == (LoopStatus.CANCELLED, 1)
    assert len(tool.calls) == (event == "post_step")
    assert unanswered_calls(scene.state.messages) == []
    assert (scene.state.running, len(scene.events(Cancelled))) == (False, 1)


def test_a_run_can_be_cancelled_while_it_waits_to_try_again() -> None:
    scene = AScene()
    scene.says(ModelError("busy", status=503), "never said")

    class Cancelling:
        def monotonic(self) -> float:
            return 0.0

        def now_ms(self) -> int:
            return 0

        async def sleep(self, _seconds: float) -> None:
            await scene.session.cancel()
            await hang()

    result = asyncio.run(scene.play(clock=Cancelling()))
    assert (result.status, len(scene.model.requests)) == (LoopStatus.CANCELLED, 1)
    assert scene.kinds.count("TurnVoided") == 1


def test_a_run_can_be_cancelled_before_it_begins() -> None:
    scene = AScene()

    async def main() -> None:
        run = await scene.begin()
        run.cancel()
        assert (await run.finish()).status is LoopStatus.CANCELLED

    asyncio.run(main())
    assert (scene.model.requests, scene.state.running) == ([], False)


def test_cancelling_leaves_the_inbox_as_it_is() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> str:
        await scene.session.remind("later", mode="finish_step")
        await scene.session.inject("steered", mode="steer")
        await scene.session.prompt("queued")
        await scene.session.cancel()
        await hang()
        return ""

    scene.says(line)
    result = asyncio.run(scene.play())
    assert [item.id for item in result.undelivered] == [item.id for item in scene.state.inbox.items()]
    assert len(result.undelivered) == 3


def a_scene_cancelled_with_a_message_in_the_queue() -> AScene:
    scene = AScene()

    async def line(_view: RequestView) -> str:
        await scene.session.prompt("queued")
        await scene.session.cancel()
        await hang()
        return ""

    scene.says(line)
    return scene


@pytest.mark.parametrize(
    ("after_cancel", "starts"),
    [
        pytest.param("hold", False, id="held-messages-wait-for-the-clients-next-word"),
        pytest.param("deliver", True, id="others-start-a-turn-once-the-session-is-idle"),
    ],
)
def test_queued_messages_after_a_cancel(after_cancel: str, starts: bool) -> None:  # noqa: FBT001 - a column
    scene = a_scene_cancelled_with_a_message_in_the_queue()

    async def main() -> None:
        await scene.play(queue_after_cancel=after_cancel)
        assert await scene.session.talk.start_queued() is starts

    asyncio.run(main())


@pytest.mark.parametrize(
    ("task", "requests"),
    [
        pytest.param("next word", [2, 3], id="a-prompt"),
        pytest.param(None, [2], id="a-run-without-one"),
    ],
)
def test_the_next_word_of_the_client_releases_what_was_held(task: str | None, requests: list[int]) -> None:
    scene = a_scene_cancelled_with_a_message_in_the_queue()

    async def main() -> None:
        await scene.play()
        await scene.play(task)

    asyncio.run(main())
    assert scene.requests_with("queued") == requests
    assert scene.requests_with("next word") == requests[1:]


def test_where_nothing_runs_there_is_nothing_to_cancel() -> None:
    scene, other = AScene(), AScene()

    async def main() -> None:
        assert not await scene.session.cancel()
        await scene.play()
        before = len(scene.journal)
        assert not await scene.session.cancel()
        assert len(scene.journal) == before

        async def line(_view: RequestView) -> str:
            assert not await scene.session.cancel()
            return "unharmed"

        other.says(line)
        assert (await other.play()).text == "unharmed"

    asyncio.run(main())


# Another process cancels the turn, through the journal.


def test_a_reply_to_a_turn_that_was_cancelled_meanwhile_is_not_acted_upon() -> None:
    tool = ATool()
    scene = AScene(tool)

    async def line(_view: RequestView) -> Reply:
        await scene.session.talk.cancel()
        return a_reply("work")

    scene.says(line, "never said")
    result = asyncio.run(scene.play())
    assert (result.status, result.turns, tool.calls) == (LoopStatus.CANCELLED, 0, [])
    assert unanswered_calls(scene.state.messages) == []
    assert same_state(scene)


def test_tools_that_were_cancelled_meanwhile_end_the_run_and_keep_their_one_result() -> None:
    scene = AScene()

    async def do(*_: object) -> str:
        await scene.session.talk.cancel()
        return "too late"

    scene.tools = (ATool(do=do),)
    scene.says(a_reply("work"), "never said")
    result = asyncio.run(scene.play())
    assert (result.status, result.turns, len(scene.model.requests)) == (LoopStatus.CANCELLED, 1, 1)
    assert scene.results() == [("c1", "cancelled")]
    assert same_state(scene)


# The task that drives it is cancelled.


@pytest.mark.parametrize("tools", [["slow"], ["slow", "slow"]], ids=["one-tool", "two-tools"])
def test_cancelling_the_driving_task_leaves_an_idle_session_and_a_result_for_every_call(tools: list[str]) -> None:
    scene = AScene(ATool("slow", hang))
    scene.says(a_reply(*tools))

    async def main() -> None:
        await scene.session.remind("for the file", mode="audit_only")
        driving = asyncio.create_task(scene.play())
        await others()
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving

    asyncio.run(main())
    assert {status for _, status in scene.results()} == {"cancelled"}
    assert unanswered_calls(scene.state.messages) == []
    assert (scene.state.running, scene.session.busy) == (False, False)
    assert scene.kinds.count("AuditRecorded") == 1
    assert same_state(scene)


def test_cancelling_the_driving_task_in_a_model_call_voids_the_turn() -> None:
    scene = AScene()
    scene.says(lambda _view: hang())

    async def main() -> None:
        driving = asyncio.create_task(scene.play())
        await others()
        assert scene.state.running
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving

    asyncio.run(main())
    assert scene.events(TurnVoided) == [TurnVoided(turn=1)]
    assert (scene.state.running, scene.state.request, scene.state.next_turn) == (False, None, 1)
