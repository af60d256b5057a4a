"""Every store does what the model does, whatever happens in whatever order, and whoever dies in between."""

from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.faults.modelled.homes import HOMES, House
from tests.faults.modelled.machine import SessionMachine
from tests.faults.sizes import size

EXAMPLES: Final = size("SIDEBAND_SESSIONS", small=50, soak=2_000)
# The longer a store takes, the fewer examples it has.
SHARES: Final = {"memory": 1, "sqlite": 2, "postgres": 10}


@pytest.mark.requirement("store:durable:ttl-is-monotone", "promises:journal:folding-rebuilds-the-state")
@pytest.mark.parametrize("name", HOMES)
def test_a_store_does_what_the_model_does(name: str, tmp_path: Path) -> None:
    class Machine(SessionMachine):
        house = House(HOMES[name](tmp_path))

    try:
        run_state_machine_as_test(
            Machine,
            settings=settings(max_examples=max(5, EXAMPLES // SHARES[name]), stateful_step_count=50),
        )
    finally:
        Machine.house.leave()
