"""Reading what hooks return: every value is either read or refused with an error of ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.effects import (
    ACTION_KEYS,
    LOOKALIKES,
    Deny,
    ReplaceArgs,
    ReplaceResult,
    ToolPhase,
    action_of,
    read_effects,
    read_tool_action,
)
from sideband.core.errors import InvalidOption, ReminderError
from sideband.core.reminder import Draft
from sideband.core.surfaces import Surface

names = st.sampled_from(
    ["reminder", "then", "effects", "body", "type", "kind", "spec", "reason", "truncated", "dropped_bytes", "foo"]
) | st.sampled_from(sorted(ACTION_KEYS))
returns = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(["", "x", "reminder"]) | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@given(
    returns, st.sampled_from([Surface.HOOK, Surface.PROVIDER]), st.sampled_from([None, "post_turn", "worker_failed"])
)
def test_any_return_is_read_or_refused(returned: object, surface: Surface, event: str | None) -> None:
    try:
        effects = read_effects(returned, surface, event=event)
    except ReminderError:
        return
    assert all(isinstance(draft, Draft) for draft in effects.reminders)


@given(returns, st.sampled_from(ToolPhase))
def test_any_action_is_read_or_refused(action: object, phase: ToolPhase) -> None:
    try:
        read = read_tool_action(action, phase)
    except ReminderError:
        assert action is not None
        return
    assert read is None or isinstance(read, ReplaceResult if phase is ToolPhase.AFTER else Deny | ReplaceArgs)


@given(st.dictionaries(names, st.sampled_from([None, True, False, "x", {}, 1])))
def test_a_call_is_denied_exactly_when_a_deny_says_so(action: dict[str, object]) -> None:
    denied = action.get("deny") is not None and action["deny"] is not False
    try:
        read = read_tool_action(action, ToolPhase.BEFORE)
    except ReminderError:
        read = None
    assert isinstance(read, Deny) is denied


@pytest.mark.parametrize("word", sorted(LOOKALIKES | {"block", "result"}))
def test_an_unknown_decision_before_a_tool_is_refused(word: str) -> None:
    with pytest.raises(InvalidOption, match=word):
        read_tool_action(action_of({word: "deny"}), ToolPhase.BEFORE)


@pytest.mark.parametrize("action", ["deny", ["deny"], {"args": [1]}, {"deny": False, "args": 5}, True], ids=repr)
def test_an_action_of_an_unknown_form_is_refused(action: object) -> None:
    with pytest.raises(InvalidOption, match="'deny' or 'args'"):
        read_tool_action(action, ToolPhase.BEFORE)
    with pytest.raises(InvalidOption, match="'result'"):
        read_tool_action({"deny": "too late"}, ToolPhase.AFTER)


@pytest.mark.parametrize("action", [None, {}, {"deny": False}, {"deny": None}], ids=repr)
def test_an_empty_action_is_accepted(action: object) -> None:
    assert read_tool_action(action, ToolPhase.BEFORE) is None


def test_a_denial_counts_wherever_it_stands() -> None:
    assert action_of({"then": {"args": {"a": 1}}, "deny": "frozen"}) == {"deny": "frozen"}
    assert action_of({"then": {"args": {"a": 1}}, "deny": False}) == {"args": {"a": 1}}
    assert action_of({"then": {"deny": "frozen"}, "args": {"a": 1}}) == {"deny": "frozen"}


def test_an_action_is_read_also_where_the_reminder_beside_it_is_refused() -> None:
    assert action_of({"reminder": {"body": ""}, "then": {"deny": "frozen"}}) == {"deny": "frozen"}
    assert action_of({"deny": "frozen"}) == {"deny": "frozen"}
    assert action_of({"body": "x"}) is None
    assert action_of([{"deny": "frozen"}]) is None
