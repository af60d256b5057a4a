"""Delivery modes, the seams of the agent loop, and which modes each seam drains."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, TypeAlias


class Mode(StrEnum):
    """When an accepted reminder is delivered."""

    INTERRUPT_IMMEDIATE = "interrupt_immediate"
    FINISH_STEP = "finish_step"
    AUDIT_ONLY = "audit_only"


ModeWord: TypeAlias = Mode | Literal["interrupt_immediate", "finish_step", "audit_only"]


class InjectMode(StrEnum):
    """When an accepted user message is delivered; `finish_step` means the same as `steer`."""

    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT_IMMEDIATE = "interrupt_immediate"
    FINISH_STEP = "finish_step"
    AUDIT_ONLY = "audit_only"


InjectModeWord: TypeAlias = InjectMode | Literal["queue", "steer", "interrupt_immediate", "finish_step", "audit_only"]


class Seam(StrEnum):
    """A named point of the agent loop where the inbox is drained."""

    ITERATION_START = "iteration_start"
    PRE_TOOL_DISPATCH = "pre_tool_dispatch"
    POST_TOOL_DISPATCH = "post_tool_dispatch"
    ITERATION_END = "iteration_end"
    DAEMON_IDLE_PRE = "daemon_idle_pre"
    DAEMON_IDLE_POST = "daemon_idle_post"
    PRE_COMPACT = "pre_compact"
    POST_COMPACT = "post_compact"
    LOOP_EXIT = "loop_exit"


# What each seam drains, in this order.
DRAINS: Final[Mapping[Seam, tuple[Mode, ...]]] = MappingProxyType(
    {
        Seam.ITERATION_START: (Mode.INTERRUPT_IMMEDIATE, Mode.FINISH_STEP),
        Seam.PRE_TOOL_DISPATCH: (Mode.INTERRUPT_IMMEDIATE,),
        Seam.POST_TOOL_DISPATCH: (Mode.INTERRUPT_IMMEDIATE, Mode.FINISH_STEP),
        Seam.ITERATION_END: (Mode.INTERRUPT_IMMEDIATE, Mode.FINISH_STEP),
        Seam.DAEMON_IDLE_PRE: (Mode.INTERRUPT_IMMEDIATE,),
        Seam.DAEMON_IDLE_POST: (Mode.INTERRUPT_IMMEDIATE,),
        Seam.PRE_COMPACT: (),
        Seam.POST_COMPACT: (),
        Seam.LOOP_EXIT: (Mode.AUDIT_ONLY,),
    }
)

# The mode in which a user message is drained. No seam drains a `queue` message: it starts a turn when the session is idle.
INJECT_CLASS: Final[Mapping[InjectMode, Mode | None]] = MappingProxyType(
    {
        InjectMode.QUEUE: None,
        InjectMode.STEER: Mode.FINISH_STEP,
        InjectMode.FINISH_STEP: Mode.FINISH_STEP,
        InjectMode.INTERRUPT_IMMEDIATE: Mode.INTERRUPT_IMMEDIATE,
        InjectMode.AUDIT_ONLY: Mode.AUDIT_ONLY,
    }
)

# After this many skipped tool batches in a row, interrupts are treated as `finish_step`, so that tools can run.
MAX_SKIPPED_BATCHES: Final = 3
# The number of iterations in a row that a closing drain may add.
MAX_CLOSING_ITERATIONS: Final = 8
