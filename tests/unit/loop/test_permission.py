"""Asking for permission: who may not, does not; and while it is open nothing steers."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sideband.core.events import PermissionAsked, PermissionReplied
from sideband.core.messages import ToolCall
from sideband.core.seams import Seam
from sideband.loop.run import LoopStatus
from tests.loop_builders import AScene, ATool, a_call, a_reply, hang, others


class Asked:
    """Answers as the function says, and notes what it was asked."""

    def __init__(self, answer: Callable[[ToolCall], object] = lambda _call: None) -> None:
        self.answer = answer
        self.calls: list[ToolCall] = []

    async def ask(self, call: ToolCall) -> str | None:
        self.calls.append(call)
        answered: Any = self.answer(call)
        if asyncio.iscoroutine(answered):
            answered = await answered
        refused: str | None = answered
        return refused


def test_what_is_allowed_runs() -> None:
    tool, permission = ATool(), Asked()
    scene = AScene(tool)
    scene.says(a_reply(a_call(path="a")))
    asyncio.run(scene.play(permission=permission))
    assert (tool.calls, scene.results()) == ([{"path": "a"}], [("c1", "ok")])
    assert permission.calls == [a_call(path="a")]


def test_what_is_refused_does_not_run_and_the_model_is_told_why() -> None:
    tool = ATool()
    scene = AScene(tool)
    scene.says(a_reply("work", "work"))
    refusal = Asked(lambda call: "not on a Friday" if call.id == "c1" else None)
    asyncio.run(scene.play(permission=refusal))
    assert len(tool.calls) == 1
    assert dict(scene.results()) == {"c1": "denied", "c2": "ok"}
    assert scene.result_text() == "Permission refused: not on a Friday"


def test_who_cannot_be_asked_does_not_allow() -> None:
    def fail(_call: ToolCall) -> None:
        raise ConnectionError("the editor is gone")

    tool = ATool()
    scene = AScene(tool)
    scene.says(a_reply("work"))
    result = asyncio.run(scene.play(permission=Asked(fail)))
    assert (result.status, tool.calls, scene.results()) == (LoopStatus.COMPLETED, [], [("c1", "denied")])
    assert "ConnectionError: the editor is gone" in scene.result_text()
    assert not scene.state.permission_open


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(1)], ids=repr)
def test_who_gives_up_when_it_is_asked_does_not_allow(error: BaseException) -> None:
    def fail(_call: ToolCall) -> None:
        raise error

    scene = AScene()
    scene.says(a_reply("work"))
    result = asyncio.run(scene.play(permission=Asked(fail)))
    assert (result.status, scene.results()) == (LoopStatus.COMPLETED, [("c1", "denied")])
    assert f"raised {type(error).__name__}" in scene.result_text()


@pytest.mark.parametrize("answer", [False, True, 0, {}], ids=repr)
def test_who_says_anything_but_nothing_does_not_allow(answer: object) -> None:
    scene = AScene()
    scene.says(a_reply("work"))
    asyncio.run(scene.play(permission=Asked(lambda _call: answer)))
    assert scene.result_text() == f"Permission refused: {answer}"


def test_who_is_asked_may_answer_without_being_awaited() -> None:
    class Strict:
        def ask(self, call: ToolCall) -> str:
            call.args["path"] = "elsewhere"
            return "no"

    scene = AScene()
    scene.says(a_reply(a_call(path="a")))
    asyncio.run(scene.play(permission=Strict()))
    assert scene.result_text() == "Permission refused: no"
    assert scene.state.messages[1]["tool_calls"][0]["args"] == {"path": "a"}


def test_asking_and_the_answer_are_told_and_on_record() -> None:
    scene = AScene()
    scene.says(a_reply("work"))
    told: list[tuple[str, object]] = []

    async def hook(context: dict[str, object]) -> None:
        told.append((str(context["event"]), context.get("allowed")))

    scene.hooks.register_session_hook("permission_asked", hook)
    scene.hooks.register_session_hook("permission_replied", hook)
    asyncio.run(scene.play(permission=Asked(lambda _call: "no")))
    assert told == [("permission_asked", None), ("permission_replied", False)]
    assert scene.events(PermissionAsked) == [PermissionAsked(request_id="c1")]
    assert scene.events(PermissionReplied) == [PermissionReplied(request_id="c1")]


def test_while_permission_is_open_steers_and_interrupts_are_held_and_facts_are_not() -> None:
    scene = AScene()
    scene.says(a_reply("work"))
    taken: list[tuple[str, ...]] = []

    async def answer() -> None:
        assert scene.state.permission_open
        await scene.session.inject("steered", mode="steer")
        await scene.session.remind("urgent", mode="interrupt_immediate")
        await scene.session.remind("a fact", mode="finish_step")
        # A drain by another process now takes only what may pass.
        taken.append(await scene.session.talk.drain(Seam.POST_TOOL_DISPATCH))

    asyncio.run(scene.play(permission=Asked(lambda _call: answer())))
    assert taken == [("main-5",)]
    assert scene.seam_of("main-4") is Seam.POST_TOOL_DISPATCH
    assert [scene.requests_with(text) for text in ("steered", "urgent", "a fact")] == [[2], [2], [2]]


@pytest.mark.parametrize("end", ["session", "task", "call"])
def test_an_open_permission_ends_with_what_it_was_for(end: str) -> None:
    scene = AScene()
    scene.says(a_reply("work"))

    async def main() -> None:
        run = await scene.begin(permission=Asked(lambda _call: hang()))
        driving = asyncio.create_task(run.finish())
        await others()
        assert scene.state.permission_open
        match end:
            case "session":
                run.cancel()
            case "call":
                assert run.cancel_call("c1")
            case _:
                driving.cancel()
        await asyncio.wait([driving])

    asyncio.run(main())
    assert not scene.state.permission_open
    assert scene.results() == [("c1", "cancelled")]
