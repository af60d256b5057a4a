"""An interrupt between a reply and its tools: nothing runs, everything is told, and tools get their turn in the end."""

import asyncio
from typing import Any

import pytest

from sideband.core.accept import accept
from sideband.core.events import Checkpoint, ResultRecorded
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import Reply
from sideband.core.seams import MAX_SKIPPED_BATCHES, Mode, Seam
from sideband.core.trust import Provenance, Trust
from sideband.loop.run import LoopResult, LoopStatus
from sideband.render.view import RequestView
from tests.builders import a_draft
from tests.loop_builders import AScene, ATool, a_call, a_reply

EDITOR = Provenance(trust=Trust.CONTROLLER, principal="editor", via="acp")


def interrupting(scene: AScene, reply: Reply, body: str = "Stop: the deploy is frozen.") -> Any:  # noqa: ANN401 - a line
    """A model call during which an interrupt is accepted."""

    async def line(_view: RequestView) -> Reply:
        await scene.session.remind(body, mode="interrupt_immediate")
        return reply

    return line


async def interrupt(scene: AScene, sender: Provenance, reminder_id: str) -> None:
    """Accept an interrupt from a bridge."""
    draft = a_draft(mode=Mode.INTERRUPT_IMMEDIATE)
    await scene.session.talk.commit(
        lambda state: accept(state, draft, sender, new_id=reminder_id, limits=DEFAULT_LIMITS)
    )


def test_no_tool_of_an_interrupted_batch_has_any_effect() -> None:
    scene = AScene(ATool("write"), ATool("read"))
    scene.says(interrupting(scene, a_reply("write", "read", "write")))
    asyncio.run(scene.play())
    assert [tool.calls for tool in scene.tools] == [[], []]


def test_the_request_after_an_interrupt_shows_it_behind_the_results() -> None:
    scene = AScene()
    scene.says(interrupting(scene, a_reply("work")))
    asyncio.run(scene.play())
    assert scene.requests_with("the deploy is frozen") == [2]
    assert scene.model.requests[1].messages[-1]["status"] == "interrupted"


def test_two_who_interrupt_are_both_named_and_each_once() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> Reply:
        for number, sender in enumerate((EDITOR, Provenance(), EDITOR)):
            await interrupt(scene, sender, f"r{number}")
        return a_reply("work")

    scene.says(line)
    asyncio.run(scene.play())
    assert "interrupted by editor, the operator." in scene.result_text()


def test_a_skipped_batch_leaves_a_checkpoint_that_says_so() -> None:
    scene = AScene()
    scene.says(interrupting(scene, a_reply("work")))
    asyncio.run(scene.play())
    (checkpoint,) = scene.events(Checkpoint)
    assert checkpoint == Checkpoint(turn=1, seam=Seam.PRE_TOOL_DISPATCH, ids=("main-3",), dispatch_skipped=True)


@pytest.mark.parametrize("end", ["budget", "suspension"])
def test_an_interrupt_in_the_last_turn_skips_its_batch_and_waits_for_the_next_run(end: str) -> None:
    tool = ATool()
    scene = AScene(tool)

    async def main() -> LoopResult:
        run = await scene.begin(max_turns=1 if end == "budget" else None)

        async def line(_view: RequestView) -> Reply:
            await scene.session.remind("Stop: the deploy is frozen.", mode="interrupt_immediate")
            if end == "suspension":
                run.suspend()
            return a_reply("work")

        scene.model._script[:] = [line]
        result = await run.finish()
        assert [pending.state for pending in await scene.session.pending()] == ["queued"]
        scene.says("Understood.")
        await scene.play(None)
        return result

    result = asyncio.run(main())
    status = LoopStatus.MAX_TURNS if end == "budget" else LoopStatus.SUSPENDED
    assert (result.status, result.turns, [item.id for item in result.undelivered]) == (status, 1, ["main-3"])
    assert (tool.calls, scene.results()) == ([], [("c1", "interrupted")])
    assert scene.events(Checkpoint)[0] == Checkpoint(turn=1, seam=Seam.PRE_TOOL_DISPATCH, ids=(), dispatch_skipped=True)
    assert scene.requests_with("the deploy is frozen") == [1]


def test_in_the_last_turn_what_may_wait_skips_nothing() -> None:
    tool = ATool()
    scene = AScene(tool)

    async def line(_view: RequestView) -> Reply:
        await scene.session.remind("by the way", mode="finish_step")
        return a_reply("work")

    scene.says(line)
    asyncio.run(scene.play(max_turns=1))
    assert len(tool.calls) == 1


def test_after_three_skipped_batches_in_a_row_an_interrupt_waits_for_the_tools() -> None:
    tool = ATool()
    scene = AScene(tool)
    scene.says(*(interrupting(scene, a_reply("work"), f"alarm {number}") for number in range(5)))
    asyncio.run(scene.play())
    statuses = [status for _, status in scene.results()]
    assert statuses == ["interrupted"] * MAX_SKIPPED_BATCHES + ["ok", "interrupted"]
    assert len(tool.calls) == 1
    assert scene.requests_with("alarm 3")[0] == 5


def test_a_batch_that_ran_makes_the_count_of_skipped_ones_begin_anew() -> None:
    scene = AScene()
    scene.says(
        interrupting(scene, a_reply("work")),
        interrupting(scene, a_reply("work")),
        a_reply("work"),
        *(interrupting(scene, a_reply("work")) for _ in range(4)),
    )
    asyncio.run(scene.play())
    statuses = [event.status for event in scene.events(ResultRecorded)]
    assert statuses == ["interrupted"] * 2 + ["ok"] + ["interrupted"] * 3 + ["ok"]


def test_a_reminder_that_may_finish_the_step_never_skips_a_batch() -> None:
    tool = ATool()
    scene = AScene(tool)

    async def line(_view: RequestView) -> Reply:
        await scene.session.remind("by the way", mode="finish_step")
        await scene.session.inject("and also", mode="steer")
        return a_reply(a_call(path="a"))

    scene.says(line, line, line, line)
    asyncio.run(scene.play())
    assert tool.calls == [{"path": "a"}] * 4
    assert not any(event.dispatch_skipped for event in scene.events(Checkpoint))


def test_an_interrupt_that_was_revoked_in_time_interrupts_nothing() -> None:
    tool = ATool()
    scene = AScene(tool)

    async def line(_view: RequestView) -> Reply:
        accepted = await scene.session.remind("false alarm", mode="interrupt_immediate")
        assert await scene.session.revoke(accepted.reminder_id) == "revoked"
        return a_reply("work")

    scene.says(line)
    asyncio.run(scene.play())
    assert len(tool.calls) == 1
    assert scene.requests_with("false alarm") == []
