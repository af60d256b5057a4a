"""The registry of hooks, when each is told, and how little one that misbehaves can do."""

import asyncio
import copy
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from sideband.core.errors import InvalidOption, UnknownOption
from sideband.core.hookevents import SessionEvent, WorkerEvent
from sideband.loop.guard import Problem
from sideband.loop.hooks import HOOK_SECONDS, WHEN, HookContext, Hooks
from sideband.loop.run import LoopStatus
from sideband.ports import FileChange, ModelError, ToolOutput
from sideband.testing import SeededEventLoop, run_schedule
from tests.loop_builders import AScene, ATool, a_call, a_reply, hang

# Long enough for a hook that returns at once, on a loaded machine.
SHORT = 0.2


@pytest.fixture
def door() -> Iterator[threading.Event]:
    """Keeps a thread until the test is over."""
    event = threading.Event()
    yield event
    event.set()


# The registry.


def test_hooks_are_kept_in_the_order_in_which_they_were_registered() -> None:
    hooks = Hooks()
    hooks.register_session_hook("post_turn", min)
    hooks.register_session_hook("post_turn", max)
    hooks.register_tool_hook("a*", pre=min)
    hooks.register_tool_hook("*b", post=max)
    assert hooks.session[SessionEvent.POST_TURN] == [min, max]
    assert [(hook.pre, hook.post) for hook in hooks.tools_matching("ab")] == [(min, None), (None, max)]
    assert [hook.pre for hook in hooks.tools_matching("ac")] == [min]


def test_clearing_forgets_every_hook() -> None:
    hooks = Hooks()
    hooks.register_session_hook("post_turn", min)
    hooks.register_tool_hook("*", pre=min)
    hooks.register_step_hook(pre=min)
    hooks.register_persona_hook("*", pre=min)
    hooks.clear()
    assert (hooks.session, hooks.tool, hooks.step, hooks.persona) == ({}, [], [], [])


def test_a_hook_on_an_event_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownOption, match="did you mean 'post_turn'"):
        Hooks().register_session_hook("post_trun", min)


@pytest.mark.parametrize("pattern", [5, None, "", ["a"]], ids=repr)
def test_a_pattern_that_is_no_name_is_refused(pattern: Any) -> None:  # noqa: ANN401 - of any kind
    hooks = Hooks()
    with pytest.raises(InvalidOption, match="pattern"):
        hooks.register_tool_hook(pattern, pre=min)
    with pytest.raises(InvalidOption, match="pattern"):
        hooks.register_persona_hook(pattern, pre=min)
    assert (hooks.tool, hooks.persona) == ([], [])


def test_a_hook_that_is_no_function_is_refused() -> None:
    hooks, nothing = Hooks(), cast("Any", 5)
    with pytest.raises(InvalidOption, match="a hook must be a function, not 5"):
        hooks.register_session_hook("post_turn", nothing)
    with pytest.raises(InvalidOption, match="pre must be a function, not 5"):
        hooks.register_tool_hook("*", pre=nothing)
    with pytest.raises(InvalidOption, match="post must be a function, not 5"):
        hooks.register_step_hook(post=nothing)
    with pytest.raises(InvalidOption, match="pre must be a function, not 5"):
        hooks.register_persona_hook("*", pre=nothing)
    assert (hooks.session, hooks.tool, hooks.step, hooks.persona) == ({}, [], [], [])


@pytest.mark.parametrize("event", [*SessionEvent, *WorkerEvent])
def test_every_event_can_be_registered_for(event: str) -> None:
    hooks = Hooks()
    hooks.register_session_hook(event, min)
    assert sum(map(len, hooks.session.values())) == 1


def test_the_table_of_moments_is_total() -> None:
    assert set(WHEN) == set(SessionEvent)
    assert all(WHEN.values())


# What a hook is told.


def test_what_a_hook_is_told_can_be_read_both_ways() -> None:
    context = HookContext({"tool_name": "run"}, event="post_tool_use")
    assert (context["tool_name"], context.tool_name, context.event) == ("run", "run", "post_tool_use")
    assert context.unheard_of is None
    assert copy.deepcopy(context) == context


# In a run.


def test_hooks_have_five_seconds() -> None:
    assert HOOK_SECONDS == 5


def test_every_event_of_a_session_is_told_where_the_table_says() -> None:
    class Watching:
        def changes(self) -> list[FileChange]:
            return [FileChange(path=changed.pop())] if changed else []

    scene = AScene()
    told: list[str] = []
    changed = ["a.py"]

    async def hook(context: dict[str, str]) -> dict[str, str] | None:
        told.append(context["event"])
        return {"body": "Look around."} if context["event"] == "session_idle" else None

    async def allow(_call: object) -> None:
        return None

    permission = type("Allowing", (), {"ask": staticmethod(allow)})
    for event in SessionEvent:
        scene.hooks.register_session_hook(event, hook)
    scene.says(a_reply("work", tokens=95), a_reply(text="Done.", tokens=10), context_window=100)

    async def main() -> None:
        run = await scene.begin(
            daemon=True,
            wake_seconds=1,
            permission=permission,
            compactor=lambda messages, _: messages[1:],
            watcher=Watching(),
            max_turns=3,
        )
        await run.finish()
        scene.says(ModelError("no"))
        await scene.play("Again.")
        await scene.session.close()

    asyncio.run(main())
    assert told == [
        "session_start",
        "user_prompt_submit",
        "file_edited",
        "post_turn",
        "on_budget_threshold",
        "permission_asked",
        "permission_replied",
        "post_tool_use",
        "post_step",
        "pre_compact",
        "post_compact",
        "post_turn",
        "post_agent_turn",
        "post_step",
        "pre_finish",
        "session_idle",
        "post_turn",
        "on_budget_threshold",
        "post_agent_turn",
        "post_step",
        "pre_finish",
        "post_finish",
        "user_prompt_submit",
        "session_error",
        "post_finish",
        "session_end",
    ]
    assert set(told) == set(SessionEvent)


def test_hooks_that_fail_or_hang_are_reported_by_name_and_stop_nothing(door: threading.Event) -> None:
    scene = AScene()
    heard: list[str] = []

    async def fails(_context: object) -> None:
        raise LookupError("lost")

    def hangs(_context: object) -> None:
        door.wait()

    async def hears(context: dict[str, str]) -> None:
        heard.append(context["event"])

    for hook in (fails, hangs, hang, hears):
        scene.hooks.register_session_hook("post_turn", hook)
    scene.hooks.register_tool_hook("*", pre=fails, post=hang)
    scene.says(a_reply("work"))
    result = asyncio.run(scene.play(hook_seconds=SHORT))
    assert (result.status, heard, scene.results()) == (LoopStatus.COMPLETED, ["post_turn"] * 2, [("c1", "ok")])
    here = "test_hooks_that_fail_or_hang_are_reported_by_name_and_stop_nothing.<locals>."
    assert list(result.problems) == [
        Problem(f"hook {here}fails on post_turn", f"{here}fails raised LookupError: lost", 2),
        Problem(f"hook {here}hangs on post_turn", f"{here}hangs took longer than 0.2 s"),
        Problem("hook hang on post_turn", "hang took longer than 0.2 s", 2),
        Problem(f"hook {here}fails on pre_tool_use", f"{here}fails raised LookupError: lost"),
        Problem("hook hang on post_tool_use", "hang took longer than 0.2 s"),
        # One thread is lost; the second time it is not called.
        Problem(
            f"hook {here}hangs on post_turn", f"{here}hangs was not called: an earlier call of it is still running"
        ),
    ]


def test_a_hook_that_blocks_the_loop_past_its_time_is_reported_and_not_heard() -> None:
    scene = AScene()

    async def blocks(_context: object) -> dict[str, str]:
        # Time passes while no other task runs.
        cast("SeededEventLoop", asyncio.get_running_loop()).advance(6)
        return {"body": "late"}

    scene.hooks.register_session_hook("post_turn", blocks)
    result = run_schedule(1, scene.play)
    ((_, message, _),) = result.problems
    assert message.endswith("blocks took longer than 5 s")
    assert len(scene.state.live) == 0


@pytest.mark.parametrize(
    ("event", "answer", "reported"),
    [
        pytest.param("post_turn", {"deny": "x"}, True, id="nothing-can-be-denied-here"),
        pytest.param("pre_compact", {"decision": "block"}, True, id="another-word-for-blocking"),
        pytest.param("pre_compact", {"block": True}, False, id="what-can-be-blocked"),
        pytest.param("post_turn", {"reminder": {"body": "x"}, "then": None}, False, id="no-action"),
    ],
)
def test_an_action_about_which_nothing_is_done_is_reported(event: str, answer: object, reported: bool) -> None:  # noqa: FBT001 - a column
    scene = AScene()
    scene.says(a_reply("work", tokens=95), context_window=100)

    async def hook(_context: object) -> object:
        return answer

    scene.hooks.register_session_hook(event, hook)
    result = asyncio.run(scene.play(compactor=lambda messages, _: messages, max_turns=2))
    assert bool(result.problems) is reported
    assert all("is ignored: a session hook can decide nothing but" in problem.message for problem in result.problems)


def test_one_hook_is_told_what_happened_whatever_another_made_of_it() -> None:
    scene = AScene(ATool(do=lambda *_: ToolOutput(text="x", data={"lines": [1]})))
    scene.says(a_reply(a_call(paths=["a"])))
    seen: list[object] = []

    def meddle(context: HookContext) -> None:
        context.args["paths"].append("b")
        context.data["lines"].append(2)
        context.result.data["lines"].append(3)

    def look(context: HookContext) -> None:
        seen.append((context.args, context.data, context.result.data))

    for hook in (meddle, look):
        scene.hooks.register_session_hook("post_tool_use", hook)
    asyncio.run(scene.play())
    assert seen == [({"paths": ["a"]}, {"lines": [1]}, {"lines": [1]})]


def test_a_hook_that_registers_another_while_it_is_told_does_not_disturb_the_round() -> None:
    scene = AScene()
    rounds: list[int] = []

    async def multiplies(_context: object) -> None:
        rounds.append(1)
        scene.hooks.register_session_hook("post_turn", multiplies)

    scene.hooks.register_session_hook("post_turn", multiplies)
    scene.says(a_reply("work"))
    asyncio.run(scene.play())
    assert len(rounds) == 1 + 2


def test_a_session_starts_once_even_if_its_first_turn_failed() -> None:
    scene = AScene()
    starts: list[str] = []

    async def hook(context: dict[str, str]) -> None:
        starts.append(context["task"])

    scene.hooks.register_session_hook("session_start", hook)
    scene.says(ModelError("no"), "Done.")

    async def main() -> None:
        await scene.play("First.")
        await scene.play("Second.")

    asyncio.run(main())
    assert starts == ["First."]
