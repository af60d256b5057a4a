"""A seed is a schedule: the same journal each time, in any process; and another seed is another one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.schedules.play import play
from tests.faults.schedules.scenarios import SCENARIOS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_seed_gives_the_same_journal(scenario: str) -> None:
    for seed in range(10):
        assert play(scenario, seed).events == play(scenario, seed).events


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_another_seed_gives_another_journal(scenario: str) -> None:
    # Some are short: a run with nothing to say leaves no more than its end.
    journals = {repr(play(scenario, seed).events) for seed in range(30)}
    assert len(journals) > 20


@pytest.mark.parametrize("scenario", ["tools_side_by_side", "waking_and_stopping_a_daemon"])
def test_a_seed_means_the_same_in_every_process(scenario: str) -> None:
    """Whatever Python decides anew for a process, the order of sets of words above all."""
    outputs = {
        subprocess.run(
            [sys.executable, "-m", "tests.faults.schedules", scenario, "1"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in (1, 2)
    }
    assert len(outputs) == 1
    assert b"Closed(" in outputs.pop()
