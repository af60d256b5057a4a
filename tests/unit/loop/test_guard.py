"""Calling user code: hooks, watchers and listeners of any kind, within their time, whatever they return or raise."""

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.loop.cancel import CancelScope, Ended
from sideband.loop.guard import MAX_PROBLEMS, Problem, Problems, UserCodeFailed, call_guarded, name_of, read_guarded
from sideband.loop.run import LoopStatus
from sideband.ports import FileChange
from sideband.testing import run_schedule
from tests.loop_builders import AScene, a_reply, hang

TINY = 0.001


@pytest.fixture
def door() -> Iterator[threading.Event]:
    """Keeps a thread until the test is over."""
    event = threading.Event()
    yield event
    event.set()


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
    assert asyncio.run(call_guarded(function, "told")) == "told"


def test_a_function_runs_beside_the_loop() -> None:
    assert asyncio.run(call_guarded(lambda _: threading.current_thread() is threading.main_thread(), None)) is False


def test_a_function_that_hangs_is_given_up(door: threading.Event) -> None:
    def wait_for_the_door(_context: object) -> None:
        door.wait()

    with pytest.raises(UserCodeFailed, match=r"wait_for_the_door took longer than 0\.001 s"):
        asyncio.run(call_guarded(wait_for_the_door, None, seconds=TINY))


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
        with pytest.raises(UserCodeFailed):
            await call_guarded(late, None, seconds=TINY)
        late.finish()
        await asyncio.sleep(0)

    asyncio.run(main())


def test_a_function_that_outlives_the_loop_disturbs_nobody(door: threading.Event) -> None:
    late = Late(door)
    with pytest.raises(UserCodeFailed):
        asyncio.run(call_guarded(late, None, seconds=TINY))
    late.finish()


def test_a_coroutine_that_hangs_is_cancelled() -> None:
    with pytest.raises(UserCodeFailed, match=r"hang took longer than 0\.001 s"):
        asyncio.run(call_guarded(hang, None, seconds=TINY))


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
    with pytest.raises(UserCodeFailed, match=f"{function.__name__} raised .*{words}"):
        asyncio.run(call_guarded(function, None))


def test_cancelling_whoever_waits_for_a_hook_cancels_it() -> None:
    async def main() -> None:
        task = asyncio.create_task(call_guarded(hang, None))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_a_hook_is_named_by_its_function_or_its_type() -> None:
    assert name_of(_coroutine) == "_coroutine"
    assert name_of(_Callable()) == "_Callable"


# Names.


class Nameless:
    """Raises at everything that is asked of it."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)


def test_whatever_has_no_name_worth_the_word_is_called_by_its_type() -> None:
    assert name_of(Nameless()) == "Nameless"
    numbered = _Callable()
    numbered.__qualname__ = 7  # type: ignore[attr-defined]
    assert name_of(numbered) == "_Callable"
    assert len(name_of(type("x" * 1_000, (), {}))) == 200


# Hanging.


def test_a_function_that_still_hangs_is_not_called_again_until_it_is_through(door: threading.Event) -> None:
    calls: list[threading.Thread] = []

    def wait_for_the_door() -> str:
        calls.append(threading.current_thread())
        door.wait()
        return "through"

    async def main() -> None:
        with pytest.raises(UserCodeFailed, match="took longer than"):
            await call_guarded(wait_for_the_door, seconds=TINY)
        for _ in range(40):
            with pytest.raises(UserCodeFailed, match="was not called: an earlier call of it is still running"):
                await call_guarded(wait_for_the_door, seconds=60)
        assert len(calls) == 1
        door.set()
        calls[0].join()
        assert await call_guarded(wait_for_the_door, seconds=60) == "through"

    asyncio.run(main())


def test_a_method_that_hangs_is_known_again_and_that_of_another_object_is_not(door: threading.Event) -> None:
    class Waiting:
        def __init__(self, *, hangs: bool) -> None:
            self.hangs = hangs

        def wait(self) -> str:
            return str(self.hangs and door.wait())

    async def main() -> None:
        hanging = Waiting(hangs=True)
        with pytest.raises(UserCodeFailed, match="took longer"):
            await call_guarded(hanging.wait, seconds=TINY)
        with pytest.raises(UserCodeFailed, match="still running"):
            await call_guarded(hanging.wait)
        assert await call_guarded(Waiting(hangs=False).wait) == "False"

    asyncio.run(main())


def test_a_coroutine_that_does_not_stop_is_reported_and_left_to_itself() -> None:
    async def stubborn() -> None:
        while True:
            try:
                await hang()
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        with pytest.raises(
            UserCodeFailed, match=r"stubborn took longer than 5 s, ignored its cancellation and was abandoned"
        ):
            await call_guarded(stubborn, seconds=5)

    run_schedule(1, main)


def test_whoever_ends_the_scope_need_not_wait_for_an_answer() -> None:
    async def main() -> None:
        scope = CancelScope()
        asyncio.get_running_loop().call_soon(scope.end)
        with pytest.raises(Ended):
            await call_guarded(hang, scope=scope, seconds=60)

    run_schedule(1, main)


# Reading what it answered.


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(lambda answer: dict(answer)["body"], id="by-key"),
        pytest.param(list, id="one-by-one"),
        pytest.param(lambda answer: "body" in answer, id="by-asking"),
    ],
)
def test_an_answer_that_cannot_be_read_is_a_failure(reader: Callable[[Any], object]) -> None:
    class Hostile(dict[str, object]):
        def __iter__(self) -> Iterator[str]:
            raise RuntimeError("no")

        def __contains__(self, key: object) -> bool:
            raise RuntimeError("no")

    with pytest.raises(UserCodeFailed, match=r"the returned value cannot be read: (RuntimeError|KeyError)"):
        read_guarded(reader, Hostile())


def test_a_refusal_with_a_code_of_its_own_stays_what_it_is() -> None:
    def refuse() -> None:
        raise InvalidOption("no")

    with pytest.raises(InvalidOption):
        read_guarded(refuse)


# Watchers.


class Telling:
    """Tells what it was given."""

    def __init__(self, changes: Any) -> None:  # noqa: ANN401 - nonsense is the point
        self._changes = changes
        self.threads: list[threading.Thread] = []

    def changes(self) -> Any:  # noqa: ANN401 - the same
        self.threads.append(threading.current_thread())
        return self._changes


def a_broken_list() -> Iterator[FileChange]:
    yield FileChange(path="a.py")
    raise OSError("the disk is gone")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param(None, "not None", id="nothing"),
        pytest.param(5, "not 5", id="a-number"),
        pytest.param("a.py", "not 'a.py'", id="a-text"),
        pytest.param(["a.py"], "not 'a.py'", id="a-list-of-texts"),
        pytest.param([FileChange(path=5)], "path=5", id="a-path-that-is-no-text"),  # type: ignore[arg-type]
        pytest.param([FileChange(path="a", kind=5)], "kind=5", id="a-kind-that-is-no-text"),  # type: ignore[arg-type]
        pytest.param(a_broken_list(), "OSError: the disk is gone", id="a-list-that-breaks-off"),
    ],
)
def test_what_is_no_list_of_changes_is_reported_and_stops_nothing(changes: object, words: str) -> None:
    scene = AScene()
    result = asyncio.run(scene.play(watcher=Telling(changes)))
    assert result.status is LoopStatus.COMPLETED
    ((where, message, _),) = result.problems
    assert where == "watcher"
    assert words in message


def test_a_watcher_looks_beside_the_loop() -> None:
    watcher = Telling(())
    scene = AScene()
    asyncio.run(scene.play(watcher=watcher))
    assert watcher.threads
    assert threading.main_thread() not in watcher.threads


def test_a_watcher_that_has_to_be_awaited_is() -> None:
    class Awaited:
        async def changes(self) -> list[FileChange]:
            return [FileChange(path="a.py")]

    scene = AScene()
    told: list[str] = []

    async def hook(context: dict[str, str]) -> None:
        told.append(context["path"])

    scene.hooks.register_session_hook("file_edited", hook)
    result = asyncio.run(scene.play(watcher=Awaited()))
    assert (told, result.problems) == (["a.py"], ())


def test_a_watcher_that_hangs_stops_nothing_and_is_not_asked_again() -> None:
    door = threading.Event()
    asked: list[int] = []

    class Hanging:
        def changes(self) -> list[FileChange]:
            asked.append(1)
            door.wait()
            return []

    scene = AScene()
    scene.says(a_reply("work"), a_reply("work"))
    result = asyncio.run(scene.play(watcher=Hanging(), hook_seconds=0.05))
    door.set()
    assert (result.status, result.turns, asked) == (LoopStatus.COMPLETED, 3, [1])
    assert [problem.times for problem in result.problems] == [1, 2]


# Problems.


def test_what_is_the_same_is_told_once_with_how_often_it_was() -> None:
    problems = Problems()
    for where, message in [("a", "x"), ("b", "x"), ("a", "x"), ("a", "y")]:
        problems.report(Problem(where, message))
    assert problems.listed() == (Problem("a", "x", 2), Problem("b", "x"), Problem("a", "y"))


def test_of_too_many_different_ones_the_first_are_kept_and_the_rest_are_counted() -> None:
    problems = Problems()
    for number in range(MAX_PROBLEMS + 5):
        problems.report(Problem("a", str(number)))
    problems.report(Problem("a", "0"))
    told = problems.listed()
    assert len(told) == MAX_PROBLEMS + 1
    assert (told[0].times, told[-1].where, told[-1].times) == (2, "problems", 5)


def test_where_nothing_failed_there_is_nothing_to_tell() -> None:
    assert Problems().listed() == ()
