"""The events of hooks and providers, and how many providers there may be."""

import pytest

from sideband.core.errors import UnknownOption
from sideband.core.hookevents import (
    CANONICAL_PROVIDERS,
    PROVIDER_EVENTS,
    SessionEvent,
    WorkerEvent,
    read_hook_event,
    read_provider_event,
    refuse_worker_event,
)


@pytest.mark.parametrize("event", [*SessionEvent, *WorkerEvent])
def test_a_hook_may_be_registered_for_every_event(event: SessionEvent | WorkerEvent) -> None:
    assert read_hook_event(event.value) is event


@pytest.mark.parametrize("event", PROVIDER_EVENTS)
def test_a_provider_may_subscribe_to_its_events(event: SessionEvent | WorkerEvent) -> None:
    assert read_provider_event(event.value) is event


def test_worker_resumed_is_the_only_worker_event_for_providers() -> None:
    assert [event for event in PROVIDER_EVENTS if isinstance(event, WorkerEvent)] == [WorkerEvent.WORKER_RESUMED]
    with pytest.raises(UnknownOption, match="'worker_failed'"):
        read_provider_event("worker_failed")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        pytest.param("file_edit", "did you mean 'file_edited'", id="nearly-right-is-put-right"),
        pytest.param("SESSION_IDLE", "the events are session_start", id="case-matters"),
        pytest.param("", "the events are session_start", id="empty"),
        pytest.param(3, "no event 3; the events are", id="not-a-string"),
        pytest.param(None, "no event None", id="nothing"),
    ],
)
def test_an_unknown_event_is_refused_with_the_known_ones(value: object, hint: str) -> None:
    with pytest.raises(UnknownOption, match=hint) as refused:
        read_hook_event(value)
    assert (refused.value.code, refused.value.field, refused.value.value) == ("HARN-RMD-001", "event", value)


@pytest.mark.parametrize("event", SessionEvent)
def test_a_reminder_may_answer_every_session_event(event: SessionEvent) -> None:
    refuse_worker_event(event)


def test_there_are_eight_canonical_providers() -> None:
    assert sorted(CANONICAL_PROVIDERS) == [
        "grounded_review",
        "idle_nudge",
        "post_compact_recap",
        "project_facts",
        "resume_continuity",
        "token_pressure",
        "tool_output_truncated",
        "workspace_anchor",
    ]
