"""The tables of seams and modes are complete, and say the same in both directions."""

import pytest

from sideband.core.seams import DRAINS, INJECT_CLASS, InjectMode, Mode, Seam


def test_every_seam_has_a_row() -> None:
    assert DRAINS.keys() == set(Seam)


def test_every_mode_of_a_message_has_a_class() -> None:
    assert INJECT_CLASS.keys() == set(InjectMode)


def test_only_queued_messages_belong_to_no_seam() -> None:
    assert [mode for mode, waits_in in INJECT_CLASS.items() if waits_in is None] == [InjectMode.QUEUE]


@pytest.mark.parametrize(
    ("mode", "seams"),
    [
        pytest.param(
            Mode.INTERRUPT_IMMEDIATE,
            {
                Seam.ITERATION_START,
                Seam.PRE_TOOL_DISPATCH,
                Seam.POST_TOOL_DISPATCH,
                Seam.ITERATION_END,
                Seam.DAEMON_IDLE_PRE,
                Seam.DAEMON_IDLE_POST,
            },
            id="interrupts",
        ),
        pytest.param(
            Mode.FINISH_STEP, {Seam.ITERATION_START, Seam.POST_TOOL_DISPATCH, Seam.ITERATION_END}, id="finish-step"
        ),
        pytest.param(Mode.AUDIT_ONLY, {Seam.LOOP_EXIT}, id="audit-only"),
    ],
)
def test_a_mode_is_drained_at(mode: Mode, seams: set[Seam]) -> None:
    assert {seam for seam, modes in DRAINS.items() if mode in modes} == seams


@pytest.mark.parametrize("seam", Seam)
def test_no_seam_takes_a_class_twice(seam: Seam) -> None:
    assert len(set(DRAINS[seam])) == len(DRAINS[seam])
