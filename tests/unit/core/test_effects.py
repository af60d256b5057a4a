"""Whatever a hook returns is read or refused, and nothing else happens."""

from hypothesis import given
from hypothesis import strategies as st

from sideband.core.draft import Draft
from sideband.core.effects import (
    ACTION_KEYS,
    Deny,
    Phase,
    ReplaceArgs,
    ReplaceResult,
    action_of,
    read_effects,
    read_tool_action,
)
from sideband.core.errors import ReminderError
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


@given(returns, st.sampled_from(Phase))
def test_any_action_is_read_or_refused(action: object, phase: Phase) -> None:
    try:
        read = read_tool_action(action, phase)
    except ReminderError:
        assert phase is Phase.AFTER
        return
    assert read is None or isinstance(read, ReplaceResult if phase is Phase.AFTER else Deny | ReplaceArgs)


@given(st.dictionaries(names, st.sampled_from([None, True, False, "x", {}, 1])))
def test_a_call_is_denied_exactly_when_a_deny_says_so(action: dict[str, object]) -> None:
    denied = action.get("deny") is not None and action["deny"] is not False
    assert isinstance(read_tool_action(action, Phase.BEFORE), Deny) is denied


def test_an_action_is_read_also_where_the_reminder_beside_it_is_refused() -> None:
    assert action_of({"reminder": {"body": ""}, "then": {"deny": "frozen"}}) == {"deny": "frozen"}
    assert action_of({"deny": "frozen"}) == {"deny": "frozen"}
    assert action_of({"body": "x"}) is None
    assert action_of([{"deny": "frozen"}]) is None
