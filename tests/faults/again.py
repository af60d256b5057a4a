"""Run a seed again that found a fault: `python -m tests.faults.again LAYER PLACE SEED [TIMES]`.

A layer is `kill`, `sessions`, `migration`, `server`, `power` or `race`, a place `sqlite` or `postgres`. Real processes are never stopped twice
at exactly the same moment: what a seed has found once may take some times to be found again.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from tests.faults.killing import keeping_hunt, killer, migrating, serving
from tests.faults.power import test_power_loss as power
from tests.faults.racing import race
from tests.faults.shared_stores import PLACES

Play: TypeAlias = Callable[[str, int, Path], int]
"""Runs one seed on a store, in its own directory; returns how much was tried and raises what it finds."""

LAYERS: Final[Mapping[str, Play]] = MappingProxyType(
    {
        "kill": killer.play,
        "sessions": keeping_hunt.play,
        "migration": migrating.play,
        "server": serving.play,
        "power": power.play,
        "race": race.play,
    }
)


def main(layer: str = "", place: str = "", seed: str = "", times: str = "1") -> None:
    """Exit with the fault if one is found; otherwise say that there is none."""
    if layer not in LAYERS or place not in PLACES or not seed.isdecimal() or not times.isdecimal():
        sys.exit(__doc__)
    tries = 0
    for _ in range(int(times)):
        with tempfile.TemporaryDirectory(prefix="sideband-again-") as directory:
            tries += LAYERS[layer](place, int(seed), Path(directory))
    sys.stdout.write(f"{layer} {place} {seed}: {tries} tried, nothing found\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
