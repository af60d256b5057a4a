"""Drafts: how a repeat is recognised, and what becomes a record."""

from hypothesis import given
from hypothesis import strategies as st

from sideband.core.reminder import Draft, Propagate, ReminderId, RoleHint, Source, fingerprint, in_name_of, mint
from sideband.core.seams import Mode
from tests.builders import a_draft, a_reminder

FIELDS: dict[str, st.SearchStrategy[object]] = {
    "body": st.sampled_from(["x", "y", "xy"]),
    "tags": st.sampled_from([(), ("a",), ("a", "b"), ("b", "a"), ("ab",)]),
    "dedupe_key": st.sampled_from([None, "a", "b"]),
    "ttl_turns": st.sampled_from([None, 1, 2]),
    "preserve_on_compact": st.booleans(),
    "propagate": st.sampled_from(Propagate),
    "role_hint": st.sampled_from(RoleHint),
    "mode": st.sampled_from(Mode),
    "claims": st.sampled_from([{}, {"source": "a"}, {"originating_agent_id": "a"}]),
}
DRAFTS = st.fixed_dictionaries(FIELDS).map(lambda fields: a_draft(**fields))


@given(one=DRAFTS, other=DRAFTS)
def test_two_drafts_have_one_fingerprint_exactly_if_they_are_equal(one: Draft, other: Draft) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (one == other)


def test_the_fingerprint_ignores_the_order_of_keys() -> None:
    one = a_draft(claims={"source": "a", "fired_at_turn": 1})
    other = a_draft(claims={"fired_at_turn": 1, "source": "a"})
    assert fingerprint(one) == fingerprint(other)


def test_the_fingerprint_ignores_the_envelope() -> None:
    assert fingerprint(a_draft(meta={"traceparent": "1"})) == fingerprint(a_draft(meta={"traceparent": "2"}))


def test_the_fingerprint_ignores_the_id_and_unknown_fields() -> None:
    assert fingerprint(a_draft(caller_id="a", ignored=("x",))) == fingerprint(a_draft(caller_id="b"))


def test_the_name_of_a_server_is_put_in_front_of_the_id_it_chose() -> None:
    assert in_name_of(a_draft(caller_id="r1", dedupe_key="k"), "ci") == a_draft(caller_id="ci:r1", dedupe_key="k")
    assert in_name_of(a_draft(), "ci") == a_draft()


def test_a_record_has_what_was_asked_for_and_what_the_session_adds() -> None:
    asked = {"body": "x", "tags": ("a",), "dedupe_key": "k", "ttl_turns": 2, "preserve_on_compact": True}
    hints = {"propagate": Propagate.ALL, "role_hint": RoleHint.DEVELOPER}
    draft = a_draft(**asked, **hints, mode=Mode.AUDIT_ONLY, caller_id="mine", claims={"source": "boss"})
    minted = mint(
        draft, reminder_id=ReminderId("r9"), source=Source.HOOK, fired_at_turn=3, originating_agent_id="parent"
    )
    assert minted == a_reminder(
        "r9", **asked, **hints, source=Source.HOOK, fired_at_turn=3, originating_agent_id="parent"
    )
