"""The events that hooks and providers hang on, and the providers that are always there."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from sideband.core.errors import TooManyProviders, UnknownOption, UnsupportedHookEvent, shown


class SessionEvent(StrEnum):
    """What happens to a session; a hook may answer with reminders."""

    SESSION_START = "session_start"
    SESSION_END = "session_end"
    USER_PROMPT_SUBMIT = "user_prompt_submit"
    PRE_COMPACT = "pre_compact"
    POST_COMPACT = "post_compact"
    POST_TURN = "post_turn"
    PERMISSION_ASKED = "permission_asked"
    PERMISSION_REPLIED = "permission_replied"
    FILE_EDITED = "file_edited"
    SESSION_ERROR = "session_error"
    SESSION_IDLE = "session_idle"
    ON_BUDGET_THRESHOLD = "on_budget_threshold"
    POST_TOOL_USE = "post_tool_use"
    POST_STEP = "post_step"
    POST_AGENT_TURN = "post_agent_turn"
    PRE_FINISH = "pre_finish"
    POST_FINISH = "post_finish"


class WorkerEvent(StrEnum):
    """What happens to a worker; a hook may only watch."""

    WORKER_SPAWNED = "worker_spawned"
    WORKER_PROGRESSED = "worker_progressed"
    WORKER_WAITING_FOR_INPUT = "worker_waiting_for_input"
    WORKER_SUSPENDED = "worker_suspended"
    WORKER_RESUMED = "worker_resumed"
    WORKER_COMPLETED = "worker_completed"
    WORKER_FAILED = "worker_failed"
    WORKER_CANCELLED = "worker_cancelled"


# A resumed worker is a session that goes on, so a provider has something to say to it.
PROVIDER_EVENTS: Final[tuple[SessionEvent | WorkerEvent, ...]] = (*SessionEvent, WorkerEvent.WORKER_RESUMED)

CANONICAL_PROVIDERS: Final = (
    "token_pressure",
    "idle_nudge",
    "tool_output_truncated",
    "post_compact_recap",
    "resume_continuity",
    "project_facts",
    "workspace_anchor",
    "grounded_review",
)
# How many providers beside the canonical ones one loop may have.
MAX_OTHER_PROVIDERS: Final = 8


def read_hook_event(value: object) -> SessionEvent | WorkerEvent:
    """The event of this name that a hook may be registered for."""
    return _read(value, (*SessionEvent, *WorkerEvent), by="hooks")


def read_provider_event(value: object) -> SessionEvent | WorkerEvent:
    """The event of this name that a provider may subscribe to."""
    return _read(value, PROVIDER_EVENTS, by="providers")


def refuse_worker_event(event: SessionEvent | WorkerEvent) -> None:
    """A reminder that answers an event which can only be watched is an error."""
    if isinstance(event, WorkerEvent):
        raise UnsupportedHookEvent(event.value)


def refuse_too_many_providers(enabled: Iterable[str]) -> None:
    """The canonical providers are not counted, nor is an id that comes twice."""
    others = tuple(dict.fromkeys(name for name in enabled if name not in CANONICAL_PROVIDERS))
    if len(others) > MAX_OTHER_PROVIDERS:
        raise TooManyProviders(others, MAX_OTHER_PROVIDERS)


def _read(value: object, events: tuple[SessionEvent | WorkerEvent, ...], *, by: str) -> SessionEvent | WorkerEvent:
    for event in events:
        if isinstance(value, str) and value == event:
            return event
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    near = get_close_matches(value, [event.value for event in events], n=1) if isinstance(value, str) else []
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(events)}"
    raise UnknownOption(f"{by} have no event {shown(value)}; {hint}", field="event", value=value)
