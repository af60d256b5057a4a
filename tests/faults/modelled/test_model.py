"""Every store agrees with the naive session under any sequence of operations and crashes."""

from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from sideband.core.events import Closed
from tests.faults.modelled.machine import SessionMachine
from tests.faults.modelled.planted import FORGOTTEN, ForgetfulHome
from tests.faults.modelled.stores import HOMES, Home, House
from tests.faults.replay import Tried
from tests.faults.sizes import size

EXAMPLES: Final = size("SIDEBAND_SESSIONS", small=50, soak=10_000)
# Slower stores get fewer examples.
SHARES: Final = {"memory": 1, "sqlite": 2, "postgres": 10}
FEWEST: Final = 5
STEPS: Final = 50
# A planted fault has to be found within this many examples.
SOON: Final = 300


def play(home: Home, chosen: settings) -> int:
    """Run the state machine on a store; return the number of sessions played."""

    class Machine(SessionMachine):
        house = House(home)

    with closing(Machine.house):
        run_state_machine_as_test(Machine, settings=chosen)
        return Machine.house.sessions


@pytest.mark.requirement("store:durable:ttl-is-monotone", "promises:journal:folding-rebuilds-the-state")
@pytest.mark.parametrize("name", HOMES)
def test_a_store_agrees_with_the_naive_session(name: str, tmp_path: Path, tried: Tried) -> None:
    examples = max(FEWEST, EXAMPLES // SHARES[name])
    chosen = settings(max_examples=examples, stateful_step_count=STEPS)
    try:
        tried(f"sessions compared with the naive session, {name}", play(HOMES[name](tmp_path), chosen))
    except Exception as error:
        # Hypothesis keeps the failing example and runs it first.
        error.add_note(f"run it again: pytest tests/faults/modelled -k 'agrees_with_the_naive_session and {name}'")
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
def test_a_store_that_loses_events_of_one_kind_is_found(forgotten: type) -> None:
    with pytest.raises((AssertionError, LookupError)):
        play(ForgetfulHome(forgotten), ALWAYS_THE_SAME)


def test_a_store_that_loses_only_events_that_never_happen_passes() -> None:
    assert play(ForgetfulHome(Closed), settings(ALWAYS_THE_SAME, max_examples=FEWEST)) >= FEWEST
