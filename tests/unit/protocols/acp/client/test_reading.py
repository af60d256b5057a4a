"""Whatever an agent sends as its capabilities or updates, reading it never fails."""

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.trust import REACHES, ROLE_HINTS
from sideband.protocols.acp.client.capabilities import read_capabilities
from sideband.protocols.acp.client.updates import ReminderReader
from sideband.protocols.wire import fitted

# The names that are looked for, so that many of them are found.
NAMES = st.sampled_from(
    [
        "agentCapabilities",
        "capabilities",
        "sessionCapabilities",
        "session",
        "_meta",
        "sideband",
        "harn",
        "steering",
        "supported",
        "reminders",
        "reminder",
        "inject",
        "modes",
        "steerInStream",
        "steer_in_stream",
        "pending",
        "replace",
        "emit",
        "propagate",
        "roleHints",
        "loadSession",
        "resume",
        "list",
        "close",
        "update",
        "sessionUpdate",
        "id",
        "body",
        "source",
        "tags",
        "reminderId",
        "dedupeKey",
        "droppedReminderIds",
        "phase",
    ]
)
WORDS = st.sampled_from(
    [
        "reminder_emitted",
        "reminder_deduped",
        "reminder_expired",
        "session_info_update",
        "session",
        "system",
        "host",
        "steer",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(max_size=5)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6), max_leaves=25
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=8)


@given(OBJECTS)
def test_any_reply_to_initialize_has_capabilities(reply: dict[str, Any]) -> None:
    found = read_capabilities(reply)
    if found.reminders is not None:
        assert found.reminders.propagate
        assert found.reminders.role_hints


@given(st.lists(OBJECTS, max_size=5))
def test_any_update_is_read_or_skipped(updates: list[dict[str, Any]]) -> None:
    logging.getLogger("sideband").disabled = True
    try:
        reader = ReminderReader()
        for update in updates:
            reader.read("s", update)
    finally:
        logging.getLogger("sideband").disabled = False


@pytest.mark.parametrize("rising", [REACHES, ROLE_HINTS], ids=["propagate", "role_hint"])
@given(data=st.data())
def test_a_hint_becomes_a_supported_one_and_rises_only_if_all_are_above_it(rising: Any, data: st.DataObject) -> None:  # noqa: ANN401 - of either vocabulary
    wanted = data.draw(st.sampled_from(rising))
    supported = data.draw(st.lists(st.sampled_from(rising), min_size=1, unique=True))
    chosen = fitted(wanted, supported, rising)
    assert chosen in supported
    rank = rising.index
    if rank(chosen) > rank(wanted):
        assert all(rank(word) >= rank(chosen) for word in supported)
    else:
        assert not any(rank(chosen) < rank(word) <= rank(wanted) for word in supported)
