"""Two processes with one session: what one of them has committed, the other reads."""

import pytest

from sideband.core.errors import SessionBusy
from sideband.core.events import Started
from sideband.runtime.store import Store
from tests.decisions import saying
from tests.unit.store.twins import Twin, played


def test_what_one_has_accepted_the_other_sees_at_once(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as here, durable.open() as there:
            mine, yours = await Store(here).session("s"), await Store(there).session("s")
            for number in range(20):
                accepted = await yours.remind(f"reminder {number}")
                assert (await mine.pending())[-1].reminder.id == accepted.reminder_id
                message = await yours.prompt(f"message {number}")
                assert (await mine.waiting())[-1].item.id == message

    played(story)


def test_a_run_is_cancelled_where_it_runs(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as here, durable.open() as there:
            mine, yours = await Store(here).session("s"), await Store(there).session("s")
            lease = await here.acquire("s", "me")
            await here.commit("s", saying(Started()), lease=lease)
            with pytest.raises(
                SessionBusy, match=r"is held by another process or another handle on it.*cancel it there"
            ):
                await yours.cancel()
            await here.release(lease)
            assert not await yours.cancel(), "what a process has left behind is not running"
            assert not await mine.cancel()

    played(story)
