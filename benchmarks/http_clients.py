"""What an official client takes to send finished bytes, beside the HTTP library below it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import process_time_ns
from typing import Final, NamedTuple

from benchmarks.effort import Effort

ROOT: Final = Path(__file__).parents[1]
NEEDED: Final = ("anthropic", "openai", "httpx2")
# Connections are opened, and imports finished, before anything is measured.
WARM_UP: Final = 3

STREAM: Final = "/stream"

Post = Callable[[str, bytes], Awaitable[None]]


class Posted(NamedTuple):
    """Nanoseconds of this process's CPU time for one request: by the library below, and by the official client.

    The last is what that takes when the answer is streamed.
    """

    raw: float
    client: float
    streamed: float


def absent() -> list[str]:
    """What is not installed of what is needed."""
    return [name for name in NEEDED if find_spec(name) is None]


def posted(body: bytes, effort: Effort) -> dict[str, Posted]:
    """Sending these bytes over each wire, to a service in another process."""
    with _service() as port:
        return asyncio.run(_posted(port, body, effort))


@contextmanager
def _service() -> Iterator[int]:
    command = (sys.executable, "-m", "benchmarks.sink")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:  # noqa: S603 - our own program
        try:
            yield int(process.stdout.readline() if process.stdout else 0)
        finally:
            process.terminate()


async def _posted(port: int, body: bytes, effort: Effort) -> dict[str, Posted]:
    url = f"http://127.0.0.1:{port}"
    found = {}
    async with AsyncExitStack() as stack:
        for name, opened, path in (
            ("Anthropic Messages", _anthropic, "/v1/messages"),
            ("OpenAI Chat", _openai, "/v1/chat/completions"),
            ("OpenAI Responses", _openai, "/v1/responses"),
        ):
            client = await stack.enter_async_context(opened(url))
            raw = await stack.enter_async_context(_raw(url))
            ways = [partial(post, path) for post in (raw, client.whole, client.streamed)]
            found[name] = Posted(*await _compared(ways, body, effort))
    return found


async def _compared(ways: Sequence[Callable[[bytes], Awaitable[None]]], body: bytes, effort: Effort) -> list[float]:
    """The least of several rounds, of all ways in turn."""
    number = max(1, effort.calls // 20)
    for post in ways:
        await _cpu_time(post, body, WARM_UP)
    rounds = [[await _cpu_time(post, body, number) for post in ways] for _ in range(effort.rounds)]
    return [min(spent) for spent in zip(*rounds, strict=True)]


async def _cpu_time(post: Callable[[bytes], Awaitable[None]], body: bytes, number: int) -> float:
    start = process_time_ns()
    for _ in range(number):
        await post(body)
    return (process_time_ns() - start) / number


class _Client(NamedTuple):
    """Two ways to send bytes to a path."""

    whole: Post
    streamed: Post


@asynccontextmanager
async def _anthropic(url: str) -> AsyncIterator[_Client]:
    from anthropic import AsyncAnthropic, AsyncStream  # noqa: PLC0415 - it may be absent

    async with AsyncAnthropic(api_key="none", base_url=url, max_retries=0) as client:

        async def whole(path: str, body: bytes) -> None:
            await client.post(path, content=body, cast_to=object)

        async def streamed(path: str, body: bytes) -> None:
            kind = AsyncStream[object]
            await _read(await client.post(STREAM + path, content=body, cast_to=object, stream=True, stream_cls=kind))

        yield _Client(whole, streamed)


@asynccontextmanager
async def _openai(url: str) -> AsyncIterator[_Client]:
    from openai import AsyncOpenAI, AsyncStream  # noqa: PLC0415 - it may be absent

    async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

        async def whole(path: str, body: bytes) -> None:
            await client.post(path, content=body, cast_to=object)

        async def streamed(path: str, body: bytes) -> None:
            kind = AsyncStream[object]
            await _read(await client.post(STREAM + path, content=body, cast_to=object, stream=True, stream_cls=kind))

        yield _Client(whole, streamed)


async def _read(stream: AsyncIterable[object]) -> None:
    async for _ in stream:
        pass


@asynccontextmanager
async def _raw(url: str) -> AsyncIterator[Post]:
    from httpx2 import AsyncClient  # noqa: PLC0415 - it may be absent

    async with AsyncClient(base_url=url, headers={"content-type": "application/json"}) as client:

        async def post(path: str, body: bytes) -> None:
            (await client.post(path, content=body)).raise_for_status()

        yield post
