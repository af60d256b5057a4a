"""A client that is open as long as its event loop."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from sideband.models.connection import _HELD, Connection


class Clients:
    """Opens clients that are numbers, and notes what became of them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.opened = 0
        self.refused = 0

    async def __call__(self, _settings: str) -> AsyncGenerator[int, None]:
        self.opened += 1
        number = self.opened
        await asyncio.sleep(0)
        if self.refused:
            self.refused -= 1
            raise ConnectionError("not now")
        self.log.append(f"open {number}")
        try:
            yield number
        finally:
            await asyncio.sleep(0)
            self.log.append(f"closed {number}")


def test_it_is_opened_at_its_first_use_and_kept() -> None:
    clients = Clients()
    connection = Connection(clients, "here")

    async def main() -> list[int]:
        return [await connection.client(), await connection.client()]

    assert clients.log == []
    assert asyncio.run(main()) == [1, 1]


def test_the_end_of_the_event_loop_closes_it() -> None:
    clients = Clients()
    asyncio.run(Connection(clients, "here").client())
    assert clients.log == ["open 1", "closed 1"]


def test_another_event_loop_has_another() -> None:
    clients = Clients()
    connection = Connection(clients, "here")
    assert [asyncio.run(connection.client()) for _ in range(3)] == [1, 2, 3]
    assert clients.log == ["open 1", "closed 1", "open 2", "closed 2", "open 3", "closed 3"]


def test_those_who_come_at_the_same_time_share_one() -> None:
    clients = Clients()
    connection = Connection(clients, "here")

    async def main() -> list[int]:
        return await asyncio.gather(*(connection.client() for _ in range(5)))

    assert asyncio.run(main()) == [1] * 5


def test_it_can_be_closed_earlier_and_is_opened_again_when_needed() -> None:
    clients = Clients()
    connection = Connection(clients, "here")

    async def main() -> int:
        await connection.aclose()
        await connection.client()
        await connection.aclose()
        await connection.aclose()
        return await connection.client()

    assert asyncio.run(main()) == 2
    assert clients.log == ["open 1", "closed 1", "open 2", "closed 2"]


def test_whoever_uses_it_alike_shares_it_and_the_last_one_closes_it() -> None:
    clients = Clients()
    one, other = Connection(clients, "here"), Connection(clients, "here")
    elsewhere = Connection(clients, "there")

    async def main() -> list[int]:
        numbers = [await connection.client() for connection in (one, other, elsewhere)]
        await one.aclose()
        numbers.append(await other.client())
        await other.aclose()
        clients.log.append("over")
        return numbers

    assert asyncio.run(main()) == [1, 1, 2, 1]
    assert clients.log == ["open 1", "open 2", "closed 1", "over", "closed 2"]


def test_one_that_was_forgotten_serves_the_next_who_asks_for_the_same() -> None:
    clients = Clients()

    async def main() -> list[int]:
        return [await Connection(clients, "here").client() for _ in range(3)]

    assert asyncio.run(main()) == [1, 1, 1]
    assert clients.log == ["open 1", "closed 1"]


def test_event_loops_that_are_over_are_forgotten() -> None:
    connection = Connection(Clients(), "here")
    for _ in range(3):
        asyncio.run(connection.client())
    assert sum(loop.is_closed() for loop in _HELD) <= 1


def test_what_could_not_be_opened_is_tried_again() -> None:
    clients = Clients()
    clients.refused = 1
    connection = Connection(clients, "here")

    async def main() -> int:
        with pytest.raises(ConnectionError):
            await connection.client()
        return await connection.client()

    assert asyncio.run(main()) == 2
    assert clients.log == ["open 2", "closed 2"]
