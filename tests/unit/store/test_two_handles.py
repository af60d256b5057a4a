"""Two processes with one session: what one of them has committed, the other reads."""

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


def test_a_turn_is_cancelled_from_any_handle(durable: Twin) -> None:
    async def story() -> None:
        async with durable.open() as here, durable.open() as there:
            mine, yours = await Store(here).session("s"), await Store(there).session("s")
            lease = await here.acquire("s", "me")
            await here.commit("s", saying(Started()), lease=lease)
            assert await yours.cancel()
            assert (await here.read("s", lambda state: state.running)).value is False
            assert not await mine.cancel()
            await here.release(lease)

    played(story)
