"""The record of a fact: its id, key and document, and the error of the facts."""

import calendar
import copy
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sideband.recall.parse import FIRST_MOMENT, LAST_MOMENT, parse_fact
from sideband.recall.record import (
    FACT_CODES,
    Fact,
    FactCode,
    FactError,
    fact_document,
    fact_key,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def a_fact(**changes: object) -> Fact:
    return parse_fact({"kind": "decision", "claim": "Ship on Fridays.", "confidence": 0.9, "asserted_at": 0, **changes})


def test_the_id_is_a_digest_of_the_content_in_canonical_json() -> None:
    fact = a_fact(
        claim="Größe zählt.",
        evidence=[{"ref": "a.py:1", "kind": "FileRange"}],
        provenance={"tool": "ci", "run": {"nr": 7.0, "by": None}},
    )
    canonical = (
        '{"claim":"Größe zählt.","evidence":[{"kind":"file_range","ref":"a.py:1"}],"kind":"decision",'
        '"provenance":{"run":{"by":null,"nr":7},"tool":"ci"}}'
    )
    assert fact.id == "fact_" + sha256(canonical.encode("utf-8")).hexdigest()[:32]


def test_a_fact_is_stored_under_its_kind_and_id() -> None:
    fact = a_fact(kind="constraint")
    assert fact_key(fact) == f"fact:constraint:{fact.id}"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"confidence": 0.1}, id="confidence"),
        pytest.param({"asserted_at": 5}, id="time"),
        pytest.param({"valid_until": {"event": "release", "asserted_at": 5}}, id="validity"),
        pytest.param({"kind": "DECISION"}, id="spelling-of-the-kind"),
        pytest.param({"claim": " Ship on Fridays.\n"}, id="space-around-the-claim"),
        pytest.param({"schema": "harn.fact.v1"}, id="the-schema-being-stated"),
        pytest.param({"evidence": [], "provenance": {}}, id="emptiness-being-stated"),
    ],
)
def test_the_id_does_not_depend_on(changes: dict[str, object]) -> None:
    assert a_fact(**changes).id == a_fact().id


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"kind": "claim"}, id="kind"),
        pytest.param({"claim": "Ship on Mondays."}, id="claim"),
        pytest.param({"evidence": [{"kind": "trace_ref", "ref": "t1"}]}, id="evidence"),
        pytest.param({"provenance": {"by": "ann"}}, id="provenance"),
    ],
)
def test_the_id_depends_on(changes: dict[str, object]) -> None:
    assert a_fact(**changes).id != a_fact().id


def test_the_order_of_evidence_matters_and_the_order_of_keys_does_not() -> None:
    first, second = {"kind": "trace_ref", "ref": "t1"}, {"ref": "t2", "kind": "trace_ref"}
    swapped = {"ref": "t1", "kind": "trace_ref"}
    assert a_fact(evidence=[first, second]).id == a_fact(evidence=[swapped, second]).id
    assert a_fact(evidence=[first, second]).id != a_fact(evidence=[second, first]).id


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
    max_leaves=8,
)
provenances = st.dictionaries(st.text("abcé", max_size=2), json_values, max_size=4)


def reversed_keys(value: object) -> object:
    match value:
        case dict():
            return {name: reversed_keys(entry) for name, entry in reversed(value.items())}
        case list():
            return [reversed_keys(entry) for entry in value]
        case _:
            return value


@given(provenances)
def test_the_id_is_stable_under_the_order_of_keys(provenance: dict[str, object]) -> None:
    assert a_fact(provenance=provenance).id == a_fact(provenance=reversed_keys(provenance)).id


@given(provenances, st.integers(FIRST_MOMENT, LAST_MOMENT), st.none() | st.integers(FIRST_MOMENT, LAST_MOMENT))
def test_a_document_makes_an_equal_fact_even_through_json(
    provenance: dict[str, object], asserted_at: int, ends: int | None
) -> None:
    fact = a_fact(
        provenance=provenance,
        evidence=[{"kind": "tool_output", "ref": "run 7", "snippet": "  ok"}, {"kind": "user_input", "ref": "chat"}],
        valid_until=None if ends is None else {"event": {"name": "release", "of": provenance}, "asserted_at": ends},
        asserted_at=asserted_at,
    )
    document = msgspec.json.decode(msgspec.json.encode(fact_document(fact)))
    assert parse_fact(document) == fact


def test_a_document_has_the_fields_of_the_schema_and_leaves_out_what_is_absent() -> None:
    fact = a_fact(
        evidence=[{"kind": "FileRange", "ref": "a.py:1"}, {"kind": "trace_ref", "ref": "t1", "snippet": "x"}],
        asserted_at=1_767_225_600_000,
    )
    assert fact_document(fact) == {
        "schema": "harn.fact.v1",
        "id": fact.id,
        "kind": "decision",
        "claim": "Ship on Fridays.",
        "evidence": [
            {"kind": "file_range", "ref": "a.py:1"},
            {"kind": "trace_ref", "ref": "t1", "snippet": "x"},
        ],
        "confidence": 0.9,
        "provenance": {},
        "asserted_at": "2026-01-01T00:00:00.000Z",
    }


def test_a_document_shows_when_the_end_of_validity_was_asserted() -> None:
    fact = a_fact(valid_until={"event": "release", "asserted_at": 1})
    assert fact_document(fact)["valid_until"] == {"event": "release", "asserted_at": "1970-01-01T00:00:00.001Z"}


def test_a_changed_document_leaves_the_fact_as_it_was() -> None:
    fact = a_fact(provenance={"runs": [1]}, valid_until={"event": {"name": "release"}, "asserted_at": 1})
    before = copy.deepcopy(fact)
    document: dict[str, Any] = fact_document(fact)
    document["provenance"]["runs"].append(2)
    document["valid_until"]["event"].clear()
    document["evidence"].append({})
    assert fact == before


@given(st.integers(FIRST_MOMENT, LAST_MOMENT))
@example(FIRST_MOMENT)
@example(LAST_MOMENT)
@example(-1)
def test_a_moment_is_written_as_the_calendar_has_it(moment: int) -> None:
    expected = (EPOCH + timedelta(milliseconds=moment)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert fact_document(a_fact(asserted_at=moment))["asserted_at"] == expected


def test_the_first_and_last_moments_of_a_year_are_in_it() -> None:
    # The calendar repeats itself after 400 years; the bounds of what can be written are examples above.
    for year in range(1700, 2101):
        first = calendar.timegm((year, 1, 1, 0, 0, 0)) * 1_000
        last = calendar.timegm((year, 12, 31, 23, 59, 59)) * 1_000 + 999
        assert fact_document(a_fact(asserted_at=first))["asserted_at"] == f"{year}-01-01T00:00:00.000Z"
        assert fact_document(a_fact(asserted_at=last))["asserted_at"] == f"{year}-12-31T23:59:59.999Z"


def test_a_fact_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        a_fact().claim = "Ship never."  # type: ignore[misc]  # that is what must fail


def test_every_code_has_a_title_of_its_own() -> None:
    assert list(FACT_CODES) == list(FactCode) == [f"HARN-FACT-00{number}" for number in range(1, 10)]
    assert len(set(FACT_CODES.values())) == len(FACT_CODES)


def test_an_error_names_code_field_and_value() -> None:
    error = FactError(FactCode.CONFIDENCE, "confidence", 7, "must be a number from 0 to 1")
    assert (error.code, error.field, error.value) == ("HARN-FACT-004", "confidence", 7)
    assert str(error) == "HARN-FACT-004: confidence must be a number from 0 to 1, got 7"


def test_an_error_survives_copying() -> None:
    error = FactError(FactCode.KIND, "kind", "gossip", "must be known")
    again = copy.copy(error)
    assert str(again) == str(error)
    assert (again.code, again.field, again.value) == (error.code, error.field, error.value)
