"""Processes killed while they begin, change and delete sessions: the list, records and receipts are what was said."""

from pathlib import Path
from typing import Final

import pytest

from tests.faults.killing.keeping_hunt import play
from tests.faults.killing.moments import OF_SESSIONS
from tests.faults.replay import Tried
from tests.faults.shared_stores import PLACES
from tests.faults.sizes import size

HUNTS: Final = size("SIDEBAND_SESSION_HUNTS", small=3, soak=60)


@pytest.mark.requirement(
    "store:durable:acknowledged-survives",
    "store:sessions:begin-is-durable",
    "store:sessions:records-change-with-their-commit",
    "store:sessions:delete-leaves-no-content",
    "store:receipts:live-as-long-as-the-session",
)
@pytest.mark.parametrize("seed", range(HUNTS))
@pytest.mark.parametrize("place", PLACES)
def test_sessions_outlive_processes_that_are_killed_while_they_keep_them(
    place: str, seed: int, tmp_path: Path, tried: Tried
) -> None:
    kills = play(place, seed, tmp_path)
    assert kills >= len(OF_SESSIONS)
    tried(f"processes killed while they keep sessions, {place}", kills)
