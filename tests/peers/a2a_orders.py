"""What the A2A clients in Python have in common: they follow orders. Each runs in an environment of its own, so this
module needs nothing but the standard library.

The orders are JSON objects, one per line of standard input. A client follows them side by side:

    {"as": N, "card": true}                             the card of the agent
    {"as": N, "stream": WORDS, "extensions": [URI]}     send a message and follow the stream of its task
    {"as": N, "subscribe": TASK, "extensions": [URI]}   follow the stream of a task
    {"as": N, "send": WORDS}                            send a message and wait for the end of its task
    {"as": N, "get": TASK}                              the stored task
    {"as": N, "cancel": TASK}                           cancel a task

Each is answered by {"answers": N, "result" or "error"} on standard output, after one {"of": N, "event": ...} for each
event of a stream. Events have the form of a `StreamResponse` of A2A 1.0, whatever version the client speaks. The client
ends when standard input ends.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
Follow: TypeAlias = Callable[[Json], Awaitable[object]]


def tell(**told: object) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


async def lines() -> AsyncIterator[bytes]:
    """Those of standard input."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        async for line in reader:
            yield line
    finally:
        transport.close()


async def serve(follow: Follow) -> None:
    """Follow every order until standard input ends."""
    orders = set()

    async def answer(order: Json) -> None:
        try:
            result = await follow(order)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises is what the test asks for
            tell(answers=order["as"], error=f"{type(error).__name__}: {error}")
        else:
            tell(answers=order["as"], result=result)

    async for line in lines():
        started = asyncio.ensure_future(answer(json.loads(line)))
        orders.add(started)
        started.add_done_callback(orders.discard)
    for started in orders:
        started.cancel()
    await asyncio.gather(*orders, return_exceptions=True)
