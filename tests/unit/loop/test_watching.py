"""Asking a watcher: beside the loop, within its time, and whatever it answers."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sideband.loop.run import LoopStatus
from sideband.ports import FileChange
from tests.loop_builders import AScene, a_reply


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
