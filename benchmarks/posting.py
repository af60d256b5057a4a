"""What an official client takes to send finished bytes, beside the HTTP library below it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import process_time_ns
from typing import Final, NamedTuple

from benchmarks.effort import Effort

ROOT: Final = Path(__file__).parents[1]
NEEDED: Final = ("anthropic", "openai", "httpx2")
# Connections are opened, and imports finished, before anything is measured.
WARM_UP: Final = 3

Post = Callable[[bytes], Awaitable[None]]


class Posted(NamedTuple):
    """Nanoseconds of this process's CPU time for one request: by the official client, and by the library below it."""

    client: float
    raw: float


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
            client = await stack.enter_async_context(opened(url, path))
            raw = await stack.enter_async_context(_raw(url, path))
            found[name] = await _compared(client, raw, body, effort)
    return found


async def _compared(client: Post, raw: Post, body: bytes, effort: Effort) -> Posted:
    """The least of several rounds, of both in turn."""
    spent: dict[Post, list[float]] = {client: [], raw: []}
    number = max(1, effort.calls // 20)
    for post in spent:
        await _cpu_time(post, body, WARM_UP)
    for _ in range(effort.rounds):
        for post, times in spent.items():
            times.append(await _cpu_time(post, body, number))
    return Posted(min(spent[client]), min(spent[raw]))


async def _cpu_time(post: Post, body: bytes, number: int) -> float:
    start = process_time_ns()
    for _ in range(number):
        await post(body)
    return (process_time_ns() - start) / number


@asynccontextmanager
async def _anthropic(url: str, path: str) -> AsyncIterator[Post]:
    from anthropic import AsyncAnthropic, AsyncStream  # noqa: PLC0415 - it may be absent

    async with AsyncAnthropic(api_key="none", base_url=url, max_retries=0) as client:

        async def post(body: bytes) -> None:
            stream = await client.post(path, content=body, cast_to=object, stream=True, stream_cls=AsyncStream[object])
            async with stream:
                async for _ in stream:
                    pass

        yield post


@asynccontextmanager
async def _openai(url: str, path: str) -> AsyncIterator[Post]:
    from openai import AsyncOpenAI, AsyncStream  # noqa: PLC0415 - it may be absent

    async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0) as client:

        async def post(body: bytes) -> None:
            stream = await client.post(path, content=body, cast_to=object, stream=True, stream_cls=AsyncStream[object])
            async with stream:
                async for _ in stream:
                    pass

        yield post


@asynccontextmanager
async def _raw(url: str, path: str) -> AsyncIterator[Post]:
    from httpx2 import AsyncClient  # noqa: PLC0415 - it may be absent

    async with AsyncClient(base_url=url, headers={"content-type": "application/json"}) as client:

        async def post(body: bytes) -> None:
            (await client.post(path, content=body)).raise_for_status()

        yield post
