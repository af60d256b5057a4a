"""What a run is made of, how it behaves, and what it comes to."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from sideband.core.items import InboxItem
from sideband.core.usage import Usage
from sideband.loop.budget import Budget
from sideband.loop.conversation import Conversation
from sideband.loop.hooks import HOOK_SECONDS, Hooks
from sideband.loop.problems import Problem
from sideband.loop.sending import OnRestart
from sideband.loop.telling import Surroundings
from sideband.loop.tenure import Tenure
from sideband.ports import Clock, Compactor, Model, OnText, Permission, Tool, Watcher
from sideband.providers.context import Provider
from sideband.render.view import SystemText


class LoopStatus(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    MAX_TURNS = "max_turns"
    MAX_TOKENS = "max_tokens"
    CANCELLED = "cancelled"
    SUSPENDED = "suspended"
    FAILED = "failed"
    LEASE_LOST = "lease_lost"


class Step(StrEnum):
    """Where a run pauses for whoever drives it step by step."""

    TURN = "turn"
    TOOLS = "tools"
    IDLE = "idle"
    FINISHED = "finished"


class LoopEvent(NamedTuple):
    """Something that happened in a run: a reply, the outcomes of its calls, a daemon without work, the result."""

    name: Step
    value: Any = None


class LoopResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to; `undelivered` is what waits in the inbox and no request of this run has shown."""

    status: LoopStatus
    text: str
    turns: int
    usage: Usage
    undelivered: tuple[InboxItem, ...] = ()
    problems: tuple[Problem, ...] = ()
    error: str | None = None


class LoopSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a run behaves.

    `context_window` is what the length of a prompt is measured against (None: it is not known). `wake_seconds` lets an
    idle daemon look around by itself after so long (None: only an interrupt or a message wakes it);
    `hold_queue_after_cancel` is whether queued messages wait for the client's next word once a turn was cancelled.
    """

    name: str = "agent"
    system: SystemText = SystemText()
    task: str = ""
    budget: Budget = Budget()
    context_window: int | None = None
    daemon: bool = False
    wake_seconds: float | None = None
    model_seconds: float = 600.0
    tool_seconds: float = 120.0
    hook_seconds: float = HOOK_SECONDS
    hold_queue_after_cancel: bool = True


class LoopParts(NamedTuple):
    """What a run is made of; `registered` are the ids of all hooks and providers of one's own, enabled or not."""

    talk: Conversation
    model: Model
    clock: Clock
    hooks: Hooks
    providers: Sequence[Provider]
    around: Surroundings
    tools: Sequence[Tool] = ()
    permission: Permission | None = None
    compactor: Compactor | None = None
    watcher: Watcher | None = None
    on_text: OnText | None = None
    on_restart: OnRestart | None = None
    tenure: Tenure | None = None
    registered: Sequence[str] = ()

    def schemas(self) -> list[dict[str, Any]]:
        """What a request tells the model of the tools."""
        return [
            {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
            for tool in self.tools
        ]
