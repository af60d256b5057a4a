"""One run, however it is driven: to the end, step by step, or iterated over."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import pytest

from sideband.core.apply import fold
from sideband.core.errors import SessionBusy
from sideband.core.messages import Reply
from sideband.core.state import Decision
from sideband.loop.agent import AgentRun
from sideband.loop.run import LoopStatus, Step
from sideband.ports import FileChange, Lease, ModelError
from sideband.render.view import RequestView
from sideband.testing import MemoryStore
from tests.decisions import whole
from tests.loop_builders import (
    AScene,
    ATool,
    a_call,
    a_reply,
    hang,
    others,
    same_state,
    unanswered_calls,
    until,
    vars_of,
)

_Value = TypeVar("_Value")


def an_eventful_scene() -> AScene:
    """Tools, an interrupt, a steer, a late remark, a queued message, and something for the record."""
    scene = AScene(ATool("read"), ATool("write"))

    async def interrupted(_view: RequestView) -> Reply:
        await scene.session.remind("stop", mode="interrupt_immediate", ttl_turns=2)
        return a_reply("write")

    async def steered(_view: RequestView) -> Reply:
        await scene.session.inject("faster", mode="steer")
        await scene.session.prompt("and then rest")
        return a_reply("read", "write")

    async def late(_view: RequestView) -> str:
        await scene.session.remind("one thing more", dedupe_key="k")
        return "Done."

    scene.says(a_reply("read"), interrupted, steered, late, "Really done.", "Rested.")
    return scene


async def to_the_end(run: AgentRun) -> None:
    await run.finish()


async def step_by_step(run: AgentRun) -> None:
    while await run.step() is not None:
        pass


async def iterated(run: AgentRun) -> None:
    async for _ in run:
        pass


async def mixed(run: AgentRun) -> None:
    await run.step()
    await run.step()
    await run.finish()


@pytest.mark.parametrize("drive", [step_by_step, iterated, mixed])
def test_every_way_of_driving_passes_the_same_seams(drive: object) -> None:
    journals = []
    for driven in (to_the_end, drive):
        scene = an_eventful_scene()

        async def main(scene: AScene = scene, driven: object = driven) -> None:
            await scene.session.remind("for the file", mode="audit_only")
            run = await scene.begin()
            await driven(run)  # type: ignore[operator]  # one of the functions above
            assert run.result is not None
            assert (run.over, run.result.status) == (True, LoopStatus.COMPLETED)

        asyncio.run(main())
        journals.append(scene.journal)
    assert journals[0] == journals[1]


def test_folding_the_journal_of_a_run_gives_its_state() -> None:
    scene = an_eventful_scene()
    asyncio.run(scene.play())
    assert vars_of(fold(scene.journal)) == vars_of(scene.state)
    assert unanswered_calls(scene.state.messages) == []


def test_the_steps_of_a_run_say_what_happened() -> None:
    scene = AScene()
    scene.says(a_reply("work", text="I work."), "Done.")

    async def main() -> list[tuple[str, object]]:
        return [(event.name, event.value) async for event in await scene.begin()]

    steps = asyncio.run(main())
    assert [name for name, _ in steps] == ["turn", "tools", "turn", "finished"]
    assert [value.text for name, value in steps if name == Step.TURN] == ["I work.", "Done."]  # type: ignore[attr-defined]


def test_changing_a_reply_that_was_yielded_changes_no_record() -> None:
    scene = AScene()
    scene.says(a_reply(a_call(path="a")))

    async def main() -> None:
        async for event in await scene.begin():
            if event.name is Step.TURN:
                for call in event.value.tool_calls:
                    call.args["path"] = "elsewhere"

    asyncio.run(main())
    assert scene.state.messages[1]["tool_calls"][0]["args"] == {"path": "a"}


def test_a_run_says_what_it_came_to() -> None:
    scene = AScene()
    scene.says(a_reply("work", tokens=10), a_reply(text="Done.", tokens=20))
    result = asyncio.run(scene.play())
    assert (result.status, result.text, result.turns) == (LoopStatus.COMPLETED, "Done.", 2)
    assert (result.usage.prompt_tokens, result.usage.output_tokens) == (30, 2)
    assert (result.problems, result.undelivered, result.error) == ((), (), None)


def test_the_model_is_told_of_the_system_text_and_the_tools() -> None:
    scene = AScene(ATool("read"), ATool("write"))
    asyncio.run(scene.play(system="Be brief."))
    (request,) = scene.model.requests
    assert (request.system, request.tools) == ("Be brief.", ("read", "write"))


def test_the_same_inbox_gives_the_same_requests_whatever_ran_before() -> None:
    scene = AScene()

    async def main() -> None:
        await scene.play("First.")
        await scene.session.remind("a fact", ttl_turns=1)
        await scene.play("Second.")
        await scene.play("Third.")

    asyncio.run(main())
    assert [request.turn for request in scene.model.requests] == [1, 2, 3]
    assert scene.requests_with("a fact") == [2]


class SlowStore(MemoryStore):
    """Like a store on a disk it decides a moment after it was asked."""

    async def commit(
        self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
    ) -> _Value:
        await asyncio.sleep(0)
        return await super().commit(session_id, decide, lease=lease, receipts=receipts)


def test_a_run_is_not_over_before_its_session_is_idle_and_its_record_complete() -> None:
    class Noting(MemoryStore):
        async def commit(
            self, session_id: str, decide: Decision[_Value], *, lease: Lease | None = None, receipts: Sequence[str] = ()
        ) -> _Value:
            decided = await super().commit(session_id, whole(decide), lease=lease, receipts=receipts)
            busy.extend((type(event).__name__, scene.session.busy) for event in decided.events)
            return decided.value

    busy: list[tuple[str, bool]] = []
    scene = AScene(store=Noting())
    scene.says(ModelError("no"))

    async def main() -> None:
        await scene.session.remind("for the file", mode="audit_only")
        await scene.play()

    asyncio.run(main())
    assert busy[-3:] == [("Idled", True), ("AuditRecorded", True), ("Checkpoint", True)]
    assert not scene.session.busy


def test_runs_side_by_side_keep_to_their_own_sessions() -> None:
    store = SlowStore()
    scenes = [AScene(name=name, store=store) for name in ("a", "b", "c")]

    async def main() -> None:
        for scene in scenes:
            scene.says(a_reply("work"), a_reply("work"))
            await scene.session.remind(f"for {scene.session.id} alone")
        await asyncio.gather(*(scene.play(f"Task of {scene.session.id}.") for scene in scenes))

    asyncio.run(main())
    for scene in scenes:
        assert scene.requests_with(f"for {scene.session.id} alone") == [1, 2, 3]
        assert all(f"Task of {scene.session.id}." in request.text for request in scene.model.requests)
        assert same_state(scene)
    assert scenes[0].kinds == scenes[1].kinds == scenes[2].kinds


# Left alone.


def test_leaving_an_iteration_early_ends_the_run() -> None:
    scene = AScene()
    scene.says(a_reply("work"))

    async def main() -> None:
        await scene.session.remind("for the file", mode="audit_only")
        run = await scene.begin()
        async for _ in run:
            break
        await others()
        assert run.over
        assert run.result is None
        with pytest.raises(RuntimeError, match="before it had a result"):
            await run.finish()

    asyncio.run(main())
    assert scene.results() == [("c1", "cancelled")]
    assert not scene.state.running
    assert scene.kinds[-2:] == ["AuditRecorded", "Checkpoint"]
    assert same_state(scene)


def test_an_error_in_the_body_of_an_iteration_ends_the_run() -> None:
    scene = AScene()
    scene.says(a_reply("work"))

    async def main() -> None:
        async def stumble(run: AgentRun) -> None:
            async for _ in run:
                raise ZeroDivisionError

        run = await scene.begin()
        with pytest.raises(ZeroDivisionError):
            await stumble(run)
        await others()
        assert run.over

    asyncio.run(main())
    assert (scene.results(), scene.state.running) == ([("c1", "cancelled")], False)


def test_a_run_that_is_stepped_through_is_closed_by_its_context() -> None:
    scene = AScene()
    scene.says(a_reply("work"))

    async def main() -> None:
        async with await scene.begin() as run:
            await until(run, Step.TURN)
        assert await run.step() is None

    asyncio.run(main())
    assert (scene.results(), scene.state.running, scene.state.request) == ([("c1", "cancelled")], False, None)


def test_a_run_that_never_began_can_be_closed_and_its_prompt_waits() -> None:
    scene = AScene()

    async def main() -> None:
        run = await scene.begin("Do this.")
        with pytest.raises(SessionBusy):
            await scene.begin()
        await run.aclose()
        assert run.over
        await scene.play("And that.")

    asyncio.run(main())
    assert [scene.requests_with(text)[0] for text in ("Do this.", "And that.")] == [1, 2]


def test_closing_a_run_that_is_over_changes_nothing() -> None:
    scene = AScene()

    async def main() -> None:
        run = await scene.begin()
        await run.finish()
        before = len(scene.journal)
        await run.aclose()
        assert len(scene.journal) == before

    asyncio.run(main())


def test_after_leaving_an_iteration_inside_the_context_of_a_run_another_can_begin_at_once() -> None:
    scene = AScene()
    scene.says(a_reply("work"), "Done.")

    async def main() -> None:
        async with await scene.begin() as run:
            async for _ in run:
                break
        assert (await scene.play("Again.")).status is LoopStatus.COMPLETED

    asyncio.run(main())


def test_a_session_that_is_in_use_says_how_to_leave_the_run() -> None:
    scene = AScene()
    scene.says(a_reply("work"))

    async def main() -> None:
        async with await scene.begin() as run:
            await run.step()
            with pytest.raises(SessionBusy, match="async with run"):
                await scene.begin()

    asyncio.run(main())


@pytest.mark.parametrize("leave", ["aclose", "context"])
def test_a_run_that_somebody_else_drives_is_cancelled_by_leaving_it(leave: str) -> None:
    scene = AScene(ATool(do=hang))
    scene.says(a_reply("work"))

    async def main() -> None:
        run = await scene.begin()
        driving = asyncio.create_task(run.finish())
        await others()
        if leave == "aclose":
            await run.aclose()
        else:
            async with run:
                pass
        assert run.over
        assert (await driving).status is LoopStatus.CANCELLED

    asyncio.run(main())
    assert scene.results() == [("c1", "cancelled")]
    assert same_state(scene)


def test_two_who_drive_a_run_to_its_end_get_the_same_result() -> None:
    scene = AScene()

    async def main() -> None:
        run = await scene.begin()
        one, other = await asyncio.gather(run.finish(), run.finish())
        assert one is other

    asyncio.run(main())
    assert len(scene.model.requests) == 1


def test_two_who_step_through_a_run_get_a_step_each() -> None:
    scene = AScene()
    scene.says(a_reply("work"))

    async def main() -> list[str]:
        async with await scene.begin() as run:
            steps = await asyncio.gather(run.step(), run.step(), run.step())
        return [step.name for step in steps if step is not None]

    assert asyncio.run(main()) == ["turn", "tools", "turn"]


@pytest.mark.parametrize("how", ["step", "finish"])
def test_a_hook_cannot_drive_the_run_it_is_told_by(how: str) -> None:
    scene = AScene()
    runs: list[AgentRun] = []

    async def hook(_context: object) -> None:
        await getattr(runs[0], how)()

    scene.hooks.register_session_hook("post_turn", hook)

    async def main() -> None:
        runs.append(await scene.begin())
        result = await runs[0].finish()
        assert result.status is LoopStatus.COMPLETED
        assert "cannot call step() or finish() of the same run" in result.problems[0].message

    asyncio.run(main())


def test_a_hook_that_closes_its_run_ends_it_once_it_has_answered() -> None:
    scene = AScene()
    runs: list[AgentRun] = []

    async def hook(_context: object) -> None:
        await runs[0].aclose()

    scene.hooks.register_session_hook("post_turn", hook)
    scene.says(a_reply("work"))

    async def main() -> None:
        runs.append(await scene.begin())
        assert (await runs[0].finish()).status is LoopStatus.CANCELLED

    asyncio.run(main())
    assert scene.results() == [("c1", "cancelled")]


# Nothing to say.


def test_a_run_on_an_empty_session_is_over_without_a_request() -> None:
    scene = AScene()
    result = asyncio.run(scene.play(None))
    assert (result.status, result.turns, scene.model.requests) == (LoopStatus.COMPLETED, 0, [])
    assert not scene.state.running


@pytest.mark.parametrize("how", ["inbox", "hook"])
def test_a_run_on_a_session_that_has_only_reminders_says_them(how: str) -> None:
    scene = AScene()

    async def main() -> None:
        if how == "inbox":
            await scene.session.remind("a fact")
        else:
            scene.hooks.register_persona_hook("*", pre=lambda _: {"body": "a fact"})
        await scene.play(None)

    asyncio.run(main())
    assert scene.requests_with("a fact") == [1]


# What hooks around a run are told.


def test_hooks_around_iterations_and_runs_are_asked_on_both_sides() -> None:
    scene = AScene()
    scene.says(a_reply("work"))
    told: list[tuple[str, object]] = []

    async def hook(context: dict[str, object]) -> None:
        told.append((str(context["event"]), context.get("turn", context.get("agent"))))

    scene.hooks.register_step_hook(pre=hook, post=hook)
    scene.hooks.register_step_hook()
    scene.hooks.register_persona_hook("main*", pre=hook, post=hook)
    scene.hooks.register_persona_hook("main*")
    scene.hooks.register_persona_hook("other", pre=hook, post=hook)
    asyncio.run(scene.play(name="mainly"))
    assert told == [
        ("pre_persona", "mainly"),
        ("pre_step", 1),
        ("post_step", 1),
        ("pre_step", 2),
        ("post_step", 2),
        ("post_persona", "mainly"),
    ]


def test_a_file_that_somebody_else_changed_is_told_once_before_the_next_iteration() -> None:
    class Watching:
        def __init__(self) -> None:
            self.news = [[FileChange(path="a.py"), FileChange(path="b.py", kind="deleted")]]

        def changes(self) -> list[FileChange]:
            return self.news.pop() if self.news else []

    scene = AScene()
    scene.says(a_reply(a_call()))

    async def hook(context: dict[str, str]) -> dict[str, str]:
        return {"body": f"{context['path']} was {context['kind']}"}

    scene.hooks.register_session_hook("file_edited", hook)
    asyncio.run(scene.play(watcher=Watching()))
    assert scene.requests_with("a.py was modified") == scene.requests_with("b.py was deleted") == [1, 2]
    assert scene.kinds.count("Injected") == 2


def test_a_watcher_that_fails_is_reported_and_stops_nothing() -> None:
    class Failing:
        def changes(self) -> list[FileChange]:
            raise OSError("the disk is gone")

    scene = AScene()
    result = asyncio.run(scene.play(watcher=Failing()))
    assert result.status is LoopStatus.COMPLETED
    ((where, message, _),) = result.problems
    assert where == "watcher"
    assert message.endswith("Failing.changes raised OSError: the disk is gone")
