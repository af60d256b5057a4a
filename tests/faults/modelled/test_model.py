"""Every store does what the model does, whatever happens in whatever order, and whoever dies in between."""

from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from sideband.core.events import Closed
from tests.faults.modelled.homes import HOMES, Home, House
from tests.faults.modelled.machine import SessionMachine
from tests.faults.modelled.planted import FORGOTTEN, ForgetfulHome
from tests.faults.replay import Tried
from tests.faults.sizes import size

EXAMPLES: Final = size("SIDEBAND_SESSIONS", small=50, soak=10_000)
# The longer a store takes, the fewer examples it has.
SHARES: Final = {"memory": 1, "sqlite": 2, "postgres": 10}
FEWEST: Final = 5
STEPS: Final = 50
# A fault that is planted has to be found in so many.
SOON: Final = 300


def play(home: Home, chosen: settings) -> int:
    """How many sessions were lived through; raises where a store and the model differ."""

    class Machine(SessionMachine):
        house = House(home)

    with closing(Machine.house):
        run_state_machine_as_test(Machine, settings=chosen)
        return Machine.house.sessions


@pytest.mark.requirement("store:durable:ttl-is-monotone", "promises:journal:folding-rebuilds-the-state")
@pytest.mark.parametrize("name", HOMES)
def test_a_store_does_what_the_model_does(name: str, tmp_path: Path, tried: Tried) -> None:
    examples = max(FEWEST, EXAMPLES // SHARES[name])
    chosen = settings(max_examples=examples, stateful_step_count=STEPS)
    try:
        tried(f"sessions beside the model, {name}", play(HOMES[name](tmp_path), chosen))
    except Exception as error:
        # Hypothesis keeps what it has found, and plays that first.
        error.add_note(f"play it again: pytest tests/faults/modelled -k 'does_what_the_model_does and {name}'")
        raise


ALWAYS_THE_SAME: Final = settings(
    max_examples=SOON,
    stateful_step_count=STEPS,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    print_blob=False,
)


@pytest.mark.parametrize("forgotten", FORGOTTEN.values(), ids=FORGOTTEN)
def test_a_store_that_forgets_something_is_found(forgotten: type) -> None:
    with pytest.raises((AssertionError, LookupError)):
        play(ForgetfulHome(forgotten), ALWAYS_THE_SAME)


def test_a_store_that_forgets_what_never_happens_passes() -> None:
    assert play(ForgetfulHome(Closed), settings(ALWAYS_THE_SAME, max_examples=FEWEST)) >= FEWEST
