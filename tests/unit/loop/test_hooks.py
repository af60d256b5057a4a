"""The registry of hooks, when each is told, and how little one that misbehaves can do."""

import asyncio
import copy
import functools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sideband.core.errors import UnknownOption
from sideband.core.hookevents import SessionEvent, WorkerEvent
from sideband.loop.hooks import HOOK_SECONDS, WHEN, HookContext, HookFailure, Hooks, call, name_of
from sideband.loop.run import LoopStatus
from sideband.ports import FileChange, ModelError
from tests.loop_builders import AScene, a_reply, hang

TINY = 0.001


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


# Calling one.


async def _coroutine(context: object) -> object:
    return context


def _returns_a_coroutine(context: object) -> object:
    return _coroutine(context)


class _Callable:
    def __call__(self, context: object) -> object:
        return context


class _AsyncCallable:
    async def __call__(self, context: object) -> object:
        return context


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda context: context, id="a-function"),
        pytest.param(_coroutine, id="a-coroutine-function"),
        pytest.param(functools.partial(_coroutine), id="a-partial"),
        pytest.param(_Callable(), id="an-object"),
        pytest.param(_AsyncCallable(), id="an-object-that-is-awaited"),
        pytest.param(_returns_a_coroutine, id="a-function-that-returns-a-coroutine"),
    ],
)
def test_a_hook_of_any_kind_is_called(function: Any) -> None:  # noqa: ANN401 - of any kind
    assert asyncio.run(call(function, "told")) == "told"


def test_a_function_runs_beside_the_loop() -> None:
    assert asyncio.run(call(lambda _: threading.current_thread() is threading.main_thread(), None)) is False


def test_hooks_have_five_seconds() -> None:
    assert HOOK_SECONDS == 5


def test_a_function_that_hangs_is_given_up(door: threading.Event) -> None:
    def wait_for_the_door(_context: object) -> None:
        door.wait()

    with pytest.raises(HookFailure, match=r"wait_for_the_door took longer than 0\.001 s"):
        asyncio.run(call(wait_for_the_door, None, seconds=TINY))


class Late:
    """A function that answers only when the door is open, in a thread that can be waited for."""

    def __init__(self, door: threading.Event) -> None:
        self._door = door
        self._begun = threading.Event()
        self._thread = threading.current_thread()

    def __call__(self, _context: object) -> str:
        self._thread = threading.current_thread()
        self._begun.set()
        self._door.wait()
        return "too late"

    def finish(self) -> None:
        self._begun.wait()
        self._door.set()
        self._thread.join()


def test_a_function_that_answers_too_late_is_not_heard(door: threading.Event) -> None:
    late = Late(door)

    async def main() -> None:
        with pytest.raises(HookFailure):
            await call(late, None, seconds=TINY)
        late.finish()
        await asyncio.sleep(0)

    asyncio.run(main())


def test_a_function_that_outlives_the_loop_disturbs_nobody(door: threading.Event) -> None:
    late = Late(door)
    with pytest.raises(HookFailure):
        asyncio.run(call(late, None, seconds=TINY))
    late.finish()


def test_a_coroutine_that_hangs_is_cancelled() -> None:
    with pytest.raises(HookFailure, match=r"hang took longer than 0\.001 s"):
        asyncio.run(call(hang, None, seconds=TINY))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(ValueError("no"), "ValueError: no", id="an-error"),
        pytest.param(TimeoutError("slow"), "TimeoutError: slow", id="a-time-out-of-its-own"),
        pytest.param(StopIteration(3), "StopIteration: 3", id="the-end-of-an-iteration"),
        pytest.param(asyncio.CancelledError(), "ancelled", id="a-cancellation-of-its-own"),
        pytest.param(SystemExit(1), "SystemExit: 1", id="an-exit"),
    ],
)
@pytest.mark.parametrize("awaited", [False, True], ids=["function", "coroutine"])
def test_a_hook_that_raises_is_a_failure_that_names_it(
    error: BaseException,
    words: str,
    awaited: bool,  # noqa: FBT001 - a column of the table
) -> None:
    def fails(_context: object) -> None:
        raise error

    async def fails_later(_context: object) -> None:
        raise error

    function = fails_later if awaited else fails
    if awaited and isinstance(error, StopIteration):
        words = "StopIteration"
    with pytest.raises(HookFailure, match=f"{function.__name__} raised .*{words}"):
        asyncio.run(call(function, None))


def test_cancelling_whoever_waits_for_a_hook_cancels_it() -> None:
    async def main() -> None:
        task = asyncio.create_task(call(hang, None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_hook_is_named_by_its_function_or_its_type() -> None:
    assert name_of(_coroutine) == "_coroutine"
    assert name_of(_Callable()) == "_Callable"


# In a run.


def test_every_event_of_a_session_is_told_where_the_table_says() -> None:
    class Watching:
        def changes(self) -> list[FileChange]:
            return [FileChange(path=changed.pop())] if changed else []

    scene = AScene()
    told: list[str] = []
    changed = ["a.py"]

    async def hook(context: dict[str, str]) -> None:
        told.append(context["event"])

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
    result = asyncio.run(scene.play(hook_seconds=TINY))
    assert (result.status, heard, scene.results()) == (LoopStatus.COMPLETED, ["post_turn"] * 2, [("c1", "ok")])
    here = "test_hooks_that_fail_or_hang_are_reported_by_name_and_stop_nothing.<locals>."
    turn = [
        (f"hook {here}fails on post_turn", f"{here}fails raised LookupError: lost"),
        (f"hook {here}hangs on post_turn", f"{here}hangs took longer than 0.001 s"),
        ("hook hang on post_turn", "hang took longer than 0.001 s"),
    ]
    tool = [
        (f"hook {here}fails on pre_tool_use", f"{here}fails raised LookupError: lost"),
        ("hook hang on post_tool_use", "hang took longer than 0.001 s"),
    ]
    assert list(result.problems) == [*turn, *tool, *turn]


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
