"""Cancel scopes: awaiting code that may be cancelled, time out, or refuse to stop."""

import asyncio
import threading

import pytest

from sideband.loop import cancel
from sideband.loop.cancel import GRACE_SECONDS, CancelScope, Deadlines, Ended, OutOfTime, UnexpectedExit
from sideband.loop.guard import describe
from sideband.testing import SeededEventLoop, run_schedule
from tests.loop_builders import hang, others


async def _answer() -> int:
    return 42


def test_what_is_awaited_inside_is_returned() -> None:
    assert asyncio.run(CancelScope().run(_answer())) == 42


def test_what_it_raises_is_raised() -> None:
    async def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        asyncio.run(CancelScope().run(fail()))


def test_ending_the_scope_ends_what_is_awaited() -> None:
    async def main() -> None:
        scope = CancelScope()
        asyncio.get_running_loop().call_soon(scope.end)
        with pytest.raises(Ended):
            await scope.run(hang())
        assert scope.ended
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())


def test_after_the_end_nothing_more_is_awaited() -> None:
    async def main() -> None:
        scope, begun = CancelScope(), []
        scope.end()

        async def work() -> None:
            begun.append(1)

        with pytest.raises(Ended):
            await scope.run(work())
        assert begun == []

    asyncio.run(main())


def test_ending_reaches_everything_that_is_inside() -> None:
    async def main() -> None:
        scope = CancelScope()
        tasks = [asyncio.create_task(scope.run(hang())) for _ in range(3)]
        await others()
        scope.end()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Ended] * 3

    asyncio.run(main())


def test_one_scope_inside_another_ends_alone() -> None:
    async def main() -> None:
        outer, inner = CancelScope(), CancelScope()

        async def work() -> str:
            asyncio.get_running_loop().call_soon(inner.end)
            with pytest.raises(Ended):
                await inner.run(hang())
            return "went on"

        assert await outer.run(work()) == "went on"

    asyncio.run(main())


def test_the_outer_scope_ends_the_inner_one_too() -> None:
    async def main() -> None:
        outer, inner = CancelScope(), CancelScope()
        asyncio.get_running_loop().call_soon(outer.end)
        with pytest.raises(Ended):
            await outer.run(inner.run(hang()))
        assert not inner.ended

    asyncio.run(main())


def test_what_takes_too_long_is_out_of_time() -> None:
    with pytest.raises(OutOfTime):
        run_schedule(1, lambda: CancelScope().run(hang(), seconds=10))


def test_a_time_out_of_somebody_else_stays_what_it_is() -> None:
    async def work() -> None:
        raise TimeoutError("the server was slow")

    with pytest.raises(TimeoutError, match="the server was slow"):
        asyncio.run(CancelScope().run(work(), seconds=60))


def test_ending_twice_is_ending_once() -> None:
    async def main() -> None:
        scope = CancelScope()
        task = asyncio.create_task(scope.run(hang()))
        await others()
        scope.end()
        await asyncio.sleep(0)
        scope.end()
        with pytest.raises(Ended):
            await task

    asyncio.run(main())


def test_what_is_ended_while_it_runs_out_of_time_has_ended() -> None:
    async def main() -> None:
        scope = CancelScope()

        async def work() -> None:
            try:
                await hang()
            finally:
                scope.end()
                await others()

        with pytest.raises(Ended):
            await scope.run(work(), seconds=0)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())


def test_what_does_not_mind_being_ended_is_returned_and_leaves_no_trace() -> None:
    async def main() -> None:
        scope = CancelScope()

        async def stubborn() -> str:
            try:
                await hang()
            except asyncio.CancelledError:
                return "finished all the same"
            return ""

        asyncio.get_running_loop().call_soon(scope.end)
        assert await scope.run(stubborn()) == "finished all the same"
        await asyncio.sleep(0)

    asyncio.run(main())


def test_a_cancelled_task_is_cancelled() -> None:
    async def main() -> None:
        task = asyncio.create_task(CancelScope().run(hang()))
        await others()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_who_gives_up_by_itself_does_not_cancel_whoever_waits() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        with pytest.raises(UnexpectedExit):
            await CancelScope().run(work())

    asyncio.run(main())


# Code that does not stop.


class Stubborn:
    """Does not heed so many cancellations, and then comes back."""

    def __init__(self, cancellations: int) -> None:
        self.left = cancellations
        self.closed = False

    async def work(self) -> str:
        try:
            while self.left:
                try:
                    await hang()
                except asyncio.CancelledError:
                    self.left -= 1
        except GeneratorExit:
            self.closed = True
            raise
        return "too late"


def test_what_comes_back_after_its_time_is_out_of_time() -> None:
    async def main() -> None:
        with pytest.raises(OutOfTime) as late:
            await CancelScope().run(Stubborn(1).work(), seconds=10)
        assert not late.value.given_up
        assert asyncio.get_running_loop().time() == 10

    run_schedule(1, main)


def test_what_fails_after_its_time_is_out_of_time() -> None:
    async def work() -> None:
        try:
            await hang()
        except asyncio.CancelledError:
            raise LookupError("lost") from None

    with pytest.raises(OutOfTime):
        run_schedule(1, lambda: CancelScope().run(work(), seconds=10))


def test_what_blocks_the_loop_past_its_time_is_out_of_time() -> None:
    async def work() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SeededEventLoop)
        loop.advance(11)
        return "too late"

    with pytest.raises(OutOfTime):
        run_schedule(1, lambda: CancelScope().run(work(), seconds=10))


@pytest.mark.parametrize("how", ["time", "end"])
def test_what_does_not_stop_is_given_up_after_a_little_while(how: str) -> None:
    stubborn = Stubborn(1_000)

    async def main() -> float:
        scope, loop = CancelScope(), asyncio.get_running_loop()
        if how == "end":
            loop.call_later(10, scope.end)
        with pytest.raises(Ended if how == "end" else OutOfTime) as stopped:
            await scope.run(stubborn.work(), seconds=10 if how == "time" else None)
        assert stopped.value.given_up
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)
        return loop.time()

    assert run_schedule(1, main) == 10 + GRACE_SECONDS
    assert stubborn.closed


@pytest.mark.parametrize("closings", [5, 150], ids=["some-times", "for-ever"])
def test_what_awaits_even_while_it_is_closed_is_given_up_all_the_same(closings: int) -> None:
    told: list[int] = []

    async def work() -> None:
        while len(told) < closings:
            try:
                await hang()
            except (asyncio.CancelledError, GeneratorExit):
                told.append(1)

    with pytest.raises(OutOfTime) as late:
        run_schedule(1, lambda: CancelScope().run(work(), seconds=10))
    assert late.value.given_up
    assert len(told) == min(closings, 101)
    # What could not be closed is kept; where there is no loop any more, it has nothing left to await.
    while cancel._UNCLOSABLE:
        with pytest.raises(AttributeError):
            cancel._UNCLOSABLE.pop().close()


def test_what_waits_for_a_task_that_does_not_stop_is_given_up_too() -> None:
    stubborn = Stubborn(3)

    async def main() -> float:
        inner = asyncio.ensure_future(stubborn.work())

        async def work() -> str:
            return await inner

        with pytest.raises(OutOfTime) as late:
            await CancelScope().run(work(), seconds=10)
        assert late.value.given_up
        when = asyncio.get_running_loop().time()
        while not inner.done():
            inner.cancel()
            await asyncio.sleep(0)
        return when

    assert run_schedule(1, main) == 10 + GRACE_SECONDS


def test_what_waits_for_a_task_is_told_of_its_end_and_gets_its_value() -> None:
    async def main() -> list[str]:
        async def slow(name: str) -> str:
            await asyncio.sleep(5)
            return name

        async def work() -> list[str]:
            return [*await asyncio.gather(slow("a"), slow("b")), await asyncio.ensure_future(slow("c"))]

        return await CancelScope().run(work(), seconds=60)

    assert run_schedule(1, main) == ["a", "b", "c"]


def test_what_waits_for_a_task_has_it_cancelled_when_its_time_is_up() -> None:
    ended: list[float] = []

    async def main() -> None:
        async def slow() -> None:
            try:
                await hang()
            finally:
                await asyncio.sleep(1)
                ended.append(asyncio.get_running_loop().time())

        async def work() -> None:
            await asyncio.ensure_future(slow())

        with pytest.raises(OutOfTime) as late:
            await CancelScope().run(work(), seconds=10)
        assert not late.value.given_up

    run_schedule(1, main)
    assert ended == [11]


def test_time_limits_and_task_groups_of_its_own_work_as_ever() -> None:
    async def work() -> list[str]:
        said: list[str] = []

        async def say(word: str, after: float) -> None:
            await asyncio.sleep(after)
            said.append(word)

        async with asyncio.TaskGroup() as group:
            group.create_task(say("one", 1))
            group.create_task(say("two", 2))
        try:
            async with asyncio.timeout(3):
                await hang()
        except TimeoutError:
            said.append("three")
        return said

    async def main() -> list[str]:
        said = await CancelScope().run(work(), seconds=60)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        return said

    assert run_schedule(1, main) == ["one", "two", "three"]


def test_who_is_really_cancelled_is_cancelled_though_the_code_did_not_mind() -> None:
    async def main() -> None:
        task = asyncio.create_task(CancelScope().run(Stubborn(1).work(), seconds=60))
        await others()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_code_that_goes_on_after_a_time_limit_of_its_own_is_not_given_up() -> None:
    async def work() -> str:
        try:
            async with asyncio.timeout(1):
                await asyncio.sleep(3_600)
        except TimeoutError:
            await asyncio.sleep(5 * GRACE_SECONDS)
        return "went on"

    assert run_schedule(1, lambda: CancelScope().run(work(), seconds=60)) == "went on"


def test_code_that_ignores_the_cancellation_of_its_task_is_given_up() -> None:
    async def main() -> float:
        task = asyncio.create_task(CancelScope().run(Stubborn(1_000).work(), seconds=60))
        await others()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return asyncio.get_running_loop().time()

    assert run_schedule(1, main) == GRACE_SECONDS


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), Odd("x"), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("late", [False, True], ids=["at-once", "after-a-while"])
def test_nobody_ends_the_program_or_the_run_by_raising_something(error: BaseException, late: bool) -> None:  # noqa: FBT001 - a column
    async def work() -> None:
        if late:
            await asyncio.sleep(0)
        raise error

    async def main() -> None:
        with pytest.raises(UnexpectedExit) as unexpected:
            await CancelScope().run(work(), seconds=60)
        assert unexpected.value.__cause__ is error
        assert describe(unexpected.value).startswith(type(error).__name__)

    asyncio.run(main())


def test_an_interrupted_program_is_interrupted() -> None:
    async def work() -> None:
        raise KeyboardInterrupt

    async def main() -> str:
        try:
            await CancelScope().run(work(), seconds=60)
        except KeyboardInterrupt:
            return "interrupted"
        return ""

    assert asyncio.run(main()) == "interrupted"
    heard: list[str] = []

    async def beside() -> None:
        with pytest.raises(UnexpectedExit):
            await CancelScope().run(work())
        heard.append("only somebody's word")

    thread = threading.Thread(target=lambda: asyncio.run(beside()))
    thread.start()
    thread.join()
    assert heard == ["only somebody's word"]


def test_whoever_is_thrown_away_throws_away_what_it_waits_for() -> None:
    stubborn = Stubborn(1)

    async def main() -> None:
        waiting = CancelScope().run(stubborn.work(), seconds=60)
        waiting.send(None)
        waiting.close()

    asyncio.run(main())
    assert stubborn.closed


def test_what_ends_its_own_scope_is_ended_where_it_waits_next() -> None:
    async def main() -> None:
        scope = CancelScope()

        async def work() -> None:
            scope.end()
            await hang()

        with pytest.raises(Ended):
            await scope.run(work())

    asyncio.run(main())


# Many limits, one timer.


def test_scopes_that_share_an_alarm_run_out_of_time_each_at_its_own() -> None:
    async def main() -> list[tuple[str, float]]:
        deadlines, loop = Deadlines(keeps_timer=True), asyncio.get_running_loop()
        ended: list[tuple[str, float]] = []

        async def wait(name: str, seconds: float) -> None:
            with pytest.raises(OutOfTime):
                await CancelScope(deadlines).run(hang(), seconds=seconds)
            ended.append((name, loop.time()))

        await asyncio.gather(wait("last", 30), wait("first", 10), wait("second", 20))
        await wait("alone", 5)
        deadlines.stop()
        return ended

    assert run_schedule(1, main) == [("first", 10.0), ("second", 20.0), ("last", 30.0), ("alone", 35.0)]


def test_a_limit_that_was_lifted_ends_nobody_later() -> None:
    async def main() -> None:
        deadlines = Deadlines(keeps_timer=True)
        assert await CancelScope(deadlines).run(_answer(), seconds=10) == 42
        await CancelScope(deadlines).run(asyncio.sleep(15), seconds=20)
        deadlines.stop()

    run_schedule(1, main)


def test_a_scope_of_its_own_leaves_no_timer_behind() -> None:
    async def main() -> float:
        await CancelScope().run(_answer(), seconds=3_600)
        await asyncio.sleep(1)
        return asyncio.get_running_loop().time()

    assert run_schedule(1, main) == 1.0
