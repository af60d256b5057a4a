"""Reminders as a peer may write them, most of them acceptable."""

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

from sideband.core.reminder import MAX_TTL_TURNS, Propagate, RoleHint
from sideband.core.seams import Mode
from sideband.core.surfaces import RULES, Surface, spelled

printable = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20)
json_values: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 10) | printable,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(printable, inner, max_size=2),
    max_leaves=4,
)
whole = st.integers(1, MAX_TTL_TURNS)
FIELDS: Final[Mapping[str, st.SearchStrategy[object]]] = {
    "body": printable | printable.map(lambda text: f"\n\t {text} "),
    "tags": st.lists(printable, max_size=4),
    "dedupe_key": printable | st.just(" "),
    "ttl_turns": whole | whole.map(float) | st.integers(-1, 1),
    "preserve_on_compact": st.booleans(),
    "propagate": st.sampled_from([word.value for word in Propagate]),
    "role_hint": st.sampled_from([word.value for word in RoleHint]),
    "mode": st.sampled_from([word.value for word in Mode]),
    "id": st.from_regex(r"[A-Za-z0-9._:-]{1,128}", fullmatch=True),
    "source": printable,
    "fired_at_turn": st.integers(-5, 5) | st.just(3.0),
    "originating_agent_id": printable,
    "_meta": st.dictionaries(printable | st.just("sideband"), json_values, max_size=2),
}


def payloads(surface: Surface, *, may_be_null: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Reminders of which the parser of a surface accepts most."""
    rules = RULES[surface]
    required = {"body", "id"} if rules.wants_id else {"body"}
    fields = {field: FIELDS[field] for field in rules.fields}
    named = {spelled(field, rules.case): strategy for field, strategy in fields.items() if field in required}
    optional = {
        spelled(field, rules.case): strategy | st.none() if may_be_null else strategy
        for field, strategy in fields.items()
        if field not in required
    }
    if rules.skips_unknown:
        optional |= {"anythingElse": json_values, "mode": json_values}
    return st.fixed_dictionaries(named, optional=optional)
