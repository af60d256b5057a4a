"""Faults that are planted on purpose: schedules find each of them, by the law it breaks, and only while it is there."""

import pytest

from tests.faults.schedules.planted import PLANTED, Planted
from tests.faults.schedules.play import LAWS, judge


def first_seed(planted: Planted) -> int:
    """The first seed under which the fault breaks its law."""
    for seed in range(planted.within):
        if judge(planted.scenario, seed, planted.plant).breaks(planted.law):
            return seed
    raise AssertionError(f"not found in {planted.within} schedules of {planted.scenario}")


@pytest.mark.parametrize("planted", [pytest.param(planted, id=name) for name, planted in PLANTED.items()])
def test_a_planted_fault_is_found_and_the_code_without_it_passes_the_same_seeds(planted: Planted) -> None:
    seed = first_seed(planted)
    assert not any(judge(planted.scenario, played) for played in range(seed + 1))


def test_every_law_can_be_broken() -> None:
    assert {planted.law for planted in PLANTED.values()} == {law.__name__ for law in LAWS}
