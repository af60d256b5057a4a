"""The events that hooks and providers can be registered for, and the canonical providers."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from sideband.core.errors import TooManyProviders, UnknownOption, UnsupportedHookEvent, shown, suggestion


class SessionEvent(StrEnum):
    """An event of a session; a hook may return reminders."""

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
    """An event of a worker, which is another agent's run; a hook may observe it and cannot return reminders."""

    WORKER_SPAWNED = "worker_spawned"
    WORKER_PROGRESSED = "worker_progressed"
    WORKER_WAITING_FOR_INPUT = "worker_waiting_for_input"
    WORKER_SUSPENDED = "worker_suspended"
    WORKER_RESUMED = "worker_resumed"
    WORKER_COMPLETED = "worker_completed"
    WORKER_FAILED = "worker_failed"
    WORKER_CANCELLED = "worker_cancelled"


SessionEventWord: TypeAlias = (
    SessionEvent
    | Literal[
        "session_start",
        "session_end",
        "user_prompt_submit",
        "pre_compact",
        "post_compact",
        "post_turn",
        "permission_asked",
        "permission_replied",
        "file_edited",
        "session_error",
        "session_idle",
        "on_budget_threshold",
        "post_tool_use",
        "post_step",
        "post_agent_turn",
        "pre_finish",
        "post_finish",
    ]
)
HookEventWord: TypeAlias = (
    SessionEventWord
    | WorkerEvent
    | Literal[
        "worker_spawned",
        "worker_progressed",
        "worker_waiting_for_input",
        "worker_suspended",
        "worker_resumed",
        "worker_completed",
        "worker_failed",
        "worker_cancelled",
    ]
)
ProviderEventWord: TypeAlias = SessionEventWord | WorkerEvent | Literal["worker_resumed"]

# A worker that resumes continues its own session, so a provider can add reminders to that session.
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
# The number of providers that one loop may have besides the canonical ones.
MAX_OTHER_PROVIDERS: Final = 8


def read_hook_event(value: object) -> SessionEvent | WorkerEvent:
    """The event with this name; `UnknownOption` if hooks have no such event."""
    return _read_event(value, (*SessionEvent, *WorkerEvent), owner="hooks")


def read_provider_event(value: object) -> SessionEvent | WorkerEvent:
    """The event with this name; `UnknownOption` if providers cannot subscribe to it."""
    return _read_event(value, PROVIDER_EVENTS, owner="providers")


def refuse_worker_event(event: SessionEvent | WorkerEvent) -> None:
    """Raise `UnsupportedHookEvent` for an event on which a hook cannot return reminders."""
    if isinstance(event, WorkerEvent):
        raise UnsupportedHookEvent(event.value)


def refuse_too_many_providers(enabled: Iterable[str]) -> None:
    """Raise `TooManyProviders` if too many are enabled; canonical and repeated ids do not count."""
    others = tuple(dict.fromkeys(name for name in enabled if name not in CANONICAL_PROVIDERS))
    if len(others) > MAX_OTHER_PROVIDERS:
        raise TooManyProviders(others, MAX_OTHER_PROVIDERS)


def _read_event(
    value: object, events: tuple[SessionEvent | WorkerEvent, ...], *, owner: str
) -> SessionEvent | WorkerEvent:
    for event in events:
        if isinstance(value, str) and value == event:
            return event
    hint = suggestion(value, (event.value for event in events), kind="events")
    raise UnknownOption(f"{owner} have no event {shown(value)}; {hint}", field="event", value=value)
