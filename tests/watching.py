"""Runs a watcher in the background of a test and gives its notices one by one."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from sideband.watch.notice import Notice, NoticeWatcher

# Long enough for a machine under load; a test that passes never waits so long.
PATIENCE_SECONDS = 20

_T = TypeVar("_T")


def run(scenario: Coroutine[Any, Any, _T]) -> _T:
    """Run a scenario, which fails if it takes too long."""

    async def in_time() -> _T:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await scenario

    return asyncio.run(in_time())


class Watching:
    """The notices of a running watcher."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[Notice] = asyncio.Queue()

    async def next(self) -> Notice:
        return await self.told.get()

    async def bodies(self, count: int) -> list[str]:
        return [(await self.next()).body for _ in range(count)]

    async def until(self, text: str) -> list[Notice]:
        """All notices up to the first one whose body contains the text."""
        seen = [await self.next()]
        while text not in seen[-1].body:
            seen.append(await self.next())
        return seen


@asynccontextmanager
async def watching(watcher: NoticeWatcher) -> AsyncIterator[Watching]:
    """Run the watcher; the block begins when it notices changes."""
    watching = Watching()

    async def collect() -> None:
        async with aclosing(watcher.notices()) as notices:
            async for notice in notices:
                watching.told.put_nowait(notice)

    collecting = asyncio.create_task(collect())
    ready = asyncio.create_task(watcher.ready.wait())
    await asyncio.wait({collecting, ready}, return_when=asyncio.FIRST_COMPLETED)
    if collecting.done():
        ready.cancel()
        collecting.result()
    try:
        yield watching
    finally:
        collecting.cancel()
        await asyncio.wait({collecting})
    if not collecting.cancelled():
        collecting.result()


def filled(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def replaced(path: Path, text: str) -> None:
    """Save like most editors: write another file and rename it."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, path)  # noqa: PTH105 - named like what editors do
