"""Processes that are killed while they migrate a store."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from sideband.core.errors import StoreDamaged
from tests.faults.killing.killer import a_nursery
from tests.faults.killing.migrating import OLD_STORES, Forward
from tests.faults.replay import Tried
from tests.faults.sizes import size

MIGRATIONS: Final = size("SIDEBAND_MIGRATIONS", small=24, soak=400)
EACH: Final = -(-MIGRATIONS // len(OLD_STORES))
# A fault that is planted has to be found in so many stores.
SOON: Final = 40


@pytest.mark.requirement("store:durable:acknowledged-survives")
@pytest.mark.parametrize("name", OLD_STORES)
def test_a_store_outlives_those_who_are_killed_while_they_bring_it_forward(
    name: str, tmp_path: Path, tried: Tried
) -> None:
    async def story() -> int:
        kills = 0
        async with a_nursery() as nursery:
            forward = Forward(nursery, name, tmp_path)
            for number in count():
                if kills >= EACH:
                    return kills
                # Some are through before they can be killed; most are not.
                assert number < 4 * EACH, f"only {kills} were killed"
                kills += await forward.outlive(number)
        return kills

    tried(f"processes killed while migrating, {name}", asyncio.run(story()))


@pytest.mark.parametrize("name", OLD_STORES)
def test_a_migration_in_two_steps_is_found(name: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with a_nursery() as nursery:
            forward = Forward(nursery, name, tmp_path, careless=True)
            for number in range(SOON):
                await forward.outlive(number)

    with pytest.raises((AssertionError, StoreDamaged)) as found:
        asyncio.run(story())
    assert found.value.__notes__[0].startswith(f"play it again: python -m tests.faults.again migration {name} ")
