"""Awaiting something that may be ended from outside."""

import asyncio

import pytest

from sideband.loop.scope import Alarm, Ended, Forsaken, OutOfTime, Scope
from sideband.testing import run_schedule
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


def test_what_is_ended_while_it_runs_out_of_time_has_ended() -> None:
    async def main() -> None:
        scope = Scope()

        async def work() -> None:
            try:
                await hang()
            finally:
                scope.end()
                await others()

        with pytest.raises(Ended):
            await scope.inside(work(), seconds=0)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())


def test_what_does_not_mind_being_ended_is_returned_and_leaves_no_trace() -> None:
    async def main() -> None:
        scope = Scope()

        async def stubborn() -> str:
            try:
                await hang()
            except asyncio.CancelledError:
                return "finished all the same"
            return ""

        asyncio.get_running_loop().call_soon(scope.end)
        assert await scope.inside(stubborn()) == "finished all the same"
        await asyncio.sleep(0)

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


# Many limits, one timer.


def test_scopes_that_share_an_alarm_run_out_of_time_each_at_its_own() -> None:
    async def main() -> list[tuple[str, float]]:
        alarm, loop = Alarm(keeps_timer=True), asyncio.get_running_loop()
        ended: list[tuple[str, float]] = []

        async def wait(name: str, seconds: float) -> None:
            with pytest.raises(OutOfTime):
                await Scope(alarm).inside(hang(), seconds=seconds)
            ended.append((name, loop.time()))

        await asyncio.gather(wait("last", 30), wait("first", 10), wait("second", 20))
        await wait("alone", 5)
        alarm.off()
        return ended

    assert run_schedule(1, main) == [("first", 10.0), ("second", 20.0), ("last", 30.0), ("alone", 35.0)]


def test_a_limit_that_was_lifted_ends_nobody_later() -> None:
    async def main() -> None:
        alarm = Alarm(keeps_timer=True)
        assert await Scope(alarm).inside(_answer(), seconds=10) == 42
        await Scope(alarm).inside(asyncio.sleep(15), seconds=20)
        alarm.off()

    run_schedule(1, main)


def test_a_scope_of_its_own_leaves_no_timer_behind() -> None:
    async def main() -> float:
        await Scope().inside(_answer(), seconds=3_600)
        await asyncio.sleep(1)
        return asyncio.get_running_loop().time()

    assert run_schedule(1, main) == 1.0
