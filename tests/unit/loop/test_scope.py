"""Awaiting something that may be ended from outside."""

import asyncio

import pytest

from sideband.loop.scope import Ended, Forsaken, OutOfTime, Scope
from tests.loop_builders import hang, others


async def _answer() -> int:
    return 42


def test_what_is_awaited_inside_is_returned() -> None:
    assert asyncio.run(Scope().inside(_answer())) == 42


def test_what_it_raises_is_raised() -> None:
    async def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        asyncio.run(Scope().inside(fail()))


def test_ending_the_scope_ends_what_is_awaited() -> None:
    async def main() -> None:
        scope = Scope()
        asyncio.get_running_loop().call_soon(scope.end)
        with pytest.raises(Ended):
            await scope.inside(hang())
        assert scope.ended
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())


def test_after_the_end_nothing_more_is_awaited() -> None:
    async def main() -> None:
        scope, begun = Scope(), []
        scope.end()

        async def work() -> None:
            begun.append(1)

        with pytest.raises(Ended):
            await scope.inside(work())
        assert begun == []

    asyncio.run(main())


def test_ending_reaches_everything_that_is_inside() -> None:
    async def main() -> None:
        scope = Scope()
        tasks = [asyncio.create_task(scope.inside(hang())) for _ in range(3)]
        await others()
        scope.end()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Ended] * 3

    asyncio.run(main())


def test_one_scope_inside_another_ends_alone() -> None:
    async def main() -> None:
        outer, inner = Scope(), Scope()

        async def work() -> str:
            asyncio.get_running_loop().call_soon(inner.end)
            with pytest.raises(Ended):
                await inner.inside(hang())
            return "went on"

        assert await outer.inside(work()) == "went on"

    asyncio.run(main())


def test_the_outer_scope_ends_the_inner_one_too() -> None:
    async def main() -> None:
        outer, inner = Scope(), Scope()
        asyncio.get_running_loop().call_soon(outer.end)
        with pytest.raises(Ended):
            await outer.inside(inner.inside(hang()))
        assert not inner.ended

    asyncio.run(main())


def test_what_takes_too_long_is_out_of_time() -> None:
    with pytest.raises(OutOfTime):
        asyncio.run(Scope().inside(hang(), seconds=0))


def test_a_time_out_of_somebody_else_stays_what_it_is() -> None:
    async def work() -> None:
        raise TimeoutError("the server was slow")

    with pytest.raises(TimeoutError, match="the server was slow"):
        asyncio.run(Scope().inside(work(), seconds=60))


def test_ending_twice_is_ending_once() -> None:
    async def main() -> None:
        scope = Scope()
        task = asyncio.create_task(scope.inside(hang()))
        await others()
        scope.end()
        await asyncio.sleep(0)
        scope.end()
        with pytest.raises(Ended):
            await task

    asyncio.run(main())


def test_a_cancelled_task_is_cancelled() -> None:
    async def main() -> None:
        task = asyncio.create_task(Scope().inside(hang()))
        await others()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_who_gives_up_by_itself_does_not_cancel_whoever_waits() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        with pytest.raises(Forsaken):
            await Scope().inside(work())

    asyncio.run(main())
