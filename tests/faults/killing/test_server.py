"""PostgreSQL servers that are killed while clients wait for their answers."""

from pathlib import Path
from typing import Final

import pytest

from tests.faults.killing.serving import KILLS_EACH, play
from tests.faults.replay import Tried
from tests.faults.sizes import size

KILLS: Final = size("SIDEBAND_SERVER_KILLS", small=4, soak=100)
# A fault that is planted has to be found while so many servers are killed again and again.
SOON: Final = 5


@pytest.mark.requirement("store:durable:acknowledged-survives")
@pytest.mark.parametrize("seed", range(-(-KILLS // KILLS_EACH)))
def test_what_was_acknowledged_outlives_the_server_and_what_was_refused_was_never_there(
    seed: int, tmp_path: Path, tried: Tried
) -> None:
    tried("servers killed, postgres", play("postgres", seed, tmp_path))


def test_a_server_that_does_not_wait_for_its_disk_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as found:
        sum(play("postgres", seed, tmp_path, careless=True) for seed in range(SOON))
    assert found.value.__notes__[0].startswith("play it again: python -m tests.faults.again server postgres ")
