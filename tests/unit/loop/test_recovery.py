"""A session whose process died: what it left open ends, is told truthfully, and is not done twice."""

import asyncio

from sideband.core.events import Equipped, Event, Fired, ResultRecorded, TurnVoided
from sideband.loop.guard import Problem
from sideband.loop.run import LoopStatus
from sideband.runtime.agents import llm_call
from sideband.testing import MemoryStore
from tests.decisions import saying
from tests.loop_builders import AScene, ATool, a_call, a_reply, hang, others, same_state, unanswered_calls


async def died_in(*tools: ATool, script: object) -> list[Event]:
    """What the journal of a run holds whose process died while something hung."""
    scene = AScene(*tools)
    scene.says(*script)  # type: ignore[misc]  # a script
    await scene.session.remind("a fact", ttl_turns=2)
    driving = asyncio.create_task(scene.play())
    await others()
    journal = list(scene.journal)
    driving.cancel()
    await asyncio.wait([driving])
    return journal


async def a_revived_scene(journal: list[Event], *tools: ATool) -> AScene:
    """A new process that finds this journal."""
    scene = AScene(*tools, store=MemoryStore())
    await scene.session.talk.commit(saying(*journal))
    return scene


def test_a_call_without_a_result_is_told_as_unknown_and_not_run_again() -> None:
    async def main() -> None:
        journal = await died_in(ATool("write", hang), script=[a_reply(a_call("write", path="a"))])
        tool = ATool("write")
        scene = await a_revived_scene(journal, tool)
        assert scene.state.running
        result = await scene.play("Go on.")
        assert result.status is LoopStatus.COMPLETED
        assert tool.calls == []
        assert scene.results() == [("c1", "unknown")]
        assert "not known whether this ran" in scene.result_text()
        assert unanswered_calls(scene.model.requests[0].messages) == []
        assert scene.requests_with("Go on.") == [1]
        assert same_state(scene)

    asyncio.run(main())


def test_what_does_no_harm_twice_is_run_again() -> None:
    async def main() -> None:
        calls = a_reply(a_call("read", "c1", path="a"), a_call("write", "c2"), a_call("gone", "c3"))
        journal = await died_in(ATool("read", hang), ATool("write", hang), ATool("gone", hang), script=[calls])
        reading, writing = ATool("read", lambda *_: "text of a", idempotent=True), ATool("write")
        scene = await a_revived_scene(journal, reading, writing)
        await scene.play("Go on.")
        assert (reading.calls, writing.calls) == ([{"path": "a"}], [])
        assert scene.results() == [("c2", "unknown"), ("c3", "unknown"), ("c1", "ok")]
        assert scene.result_text("c1") == "text of a"
        assert unanswered_calls(scene.model.requests[0].messages) == []

    asyncio.run(main())


def test_a_request_without_a_reply_never_happened() -> None:
    async def main() -> None:
        journal = await died_in(script=[lambda _view: hang()])
        assert isinstance(journal[-1], Fired)
        scene = await a_revived_scene(journal)
        await scene.play("Go on.")
        assert scene.events(TurnVoided) == [TurnVoided(turn=1)]
        assert [request.turn for request in scene.model.requests] == [1]
        (pending,) = await scene.session.pending()
        assert pending.reminder.ttl_turns == 1
        assert same_state(scene)

    asyncio.run(main())


def test_an_open_permission_does_not_hold_the_next_run() -> None:
    class Silent:
        async def ask(self, _call: object) -> None:
            await hang()

    async def main() -> None:
        first = AScene()
        first.says(a_reply("work"))
        driving = asyncio.create_task(first.play(permission=Silent()))
        await others()
        assert first.state.permission_open
        journal = list(first.journal)
        driving.cancel()
        await asyncio.wait([driving])
        scene = await a_revived_scene(journal)
        await scene.session.remind("urgent", mode="interrupt_immediate")
        await scene.play("Go on.")
        assert not scene.state.permission_open
        assert scene.requests_with("urgent") == [1]

    asyncio.run(main())


def test_what_waited_when_the_process_died_still_waits() -> None:
    async def main() -> None:
        first = AScene()

        async def line(_view: object) -> str:
            await first.session.inject("steered", mode="steer")
            await first.session.prompt("queued")
            await hang()
            return ""

        first.says(line)
        driving = asyncio.create_task(first.play())
        await others()
        journal = list(first.journal)
        driving.cancel()
        await asyncio.wait([driving])
        scene = await a_revived_scene(journal)
        await scene.play(None)
        assert (scene.requests_with("steered")[0], scene.requests_with("queued")[0]) == (1, 1)

    asyncio.run(main())


def test_a_call_can_be_made_where_a_run_died() -> None:
    async def main() -> None:
        journal = await died_in(ATool("write", hang), script=[a_reply("write")])
        scene = await a_revived_scene(journal)
        reply = await llm_call("What happened?", session=scene.session, model=scene.model)
        assert reply.text == "Done."
        assert [event.status for event in scene.events(ResultRecorded)] == ["unknown"]
        assert unanswered_calls(scene.model.requests[0].messages) == []

    asyncio.run(main())


def test_a_session_that_ended_in_order_has_nothing_to_recover() -> None:
    scene = AScene()

    async def main() -> None:
        await scene.play()
        await scene.play("Again.")

    asyncio.run(main())
    assert scene.kinds.count("Started") == scene.kinds.count("Idled") == 2
    assert not scene.events(TurnVoided)


# What a process has to register again.


def by_hand(_context: object) -> None:
    """A hook with a name."""


def test_a_resumed_session_names_the_hooks_and_providers_that_are_missing() -> None:
    async def main() -> None:
        scene = AScene()
        for hook, event in ((by_hand, "post_turn"), (by_hand, "session_idle")):
            scene.hooks.register_session_hook(event, hook)
        scene.hooks.register_tool_hook("*", pre=hang)
        scene.providers.register(id="mine", subscribes_to=["post_turn"], evaluate=lambda _: None)
        first = await scene.play()
        assert [problem.message for problem in first.problems if "registered" in problem.message] == []
        resumed = await a_revived_scene(scene.journal)
        resumed.hooks.register_step_hook(post=by_hand)
        result = await resumed.play("Go on.")
        missing = "it was registered when this session last ran, and is not registered now"
        assert result.problems == (Problem("provider mine", missing), Problem("hook hang", missing))
        assert (await resumed.play("And on.")).problems == (), "once"
        assert [event.ids for event in resumed.events(Equipped)] == [
            ("provider mine", "hook by_hand", "hook hang"),
            ("hook by_hand",),
        ]
        assert same_state(resumed)

    asyncio.run(main())


def test_a_provider_that_is_turned_off_is_not_missing() -> None:
    async def main() -> None:
        scene = AScene()
        scene.providers.register(id="mine", subscribes_to=["post_turn"], evaluate=lambda _: None)
        await scene.play()
        assert (await scene.play("Again.", reminders=False)).problems == ()

    asyncio.run(main())


def test_a_run_without_hooks_and_providers_of_its_own_notes_nothing() -> None:
    scene = AScene()
    asyncio.run(scene.play())
    assert scene.events(Equipped) == []
