"""One fact: validation, id, key and JSON form."""

import calendar
import copy
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sideband.core.parse import HOSTILE
from sideband.recall.record import (
    FACT_CODES,
    FIRST_MOMENT,
    LAST_MOMENT,
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_VALUES,
    Evidence,
    EvidenceKind,
    Fact,
    FactCode,
    FactError,
    FactKind,
    FieldPath,
    ValidUntil,
    fact_document,
    parse_fact,
    parse_moment,
)

DAY = 86_400_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fact_fields(**changes: object) -> dict[str, object]:
    return {"kind": "decision", "claim": "Ship on Fridays.", "confidence": 0.9, "asserted_at": 0, **changes}


def a_fact(**changes: object) -> Fact:
    return parse_fact(fact_fields(**changes))


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


# Validation.


def nested(levels: int) -> dict[str, object]:
    """A mapping in which mappings nest so many levels deep."""
    inner: dict[str, object] = {}
    for _ in range(levels - 1):
        inner = {"in": inner}
    return inner


def a_mapping_of_itself() -> dict[str, object]:
    endless: dict[str, object] = {}
    endless["self"] = endless
    return endless


def a_bomb() -> dict[str, object]:
    """A few lists that share one another, and would unfold into billions of values."""
    shared: list[object] = ["boom"]
    for _ in range(MAX_DEPTH - 4):
        shared = [shared] * 10
    return {"boom": shared}


def test_the_fields_of_a_fact_are_read() -> None:
    fact = parse_fact(
        {
            "schema": "harn.fact.v1",
            "kind": "Decision",
            "claim": "  Build cancels running tool calls first.\n",
            "confidence": 1,
            "evidence": [{"kind": "FileRange", "ref": " cancel.py:1 ", "snippet": "  stop()\n"}],
            "provenance": {"by": "ann", "runs": (1, 2.0, None, True, 0.5)},
            "valid_until": {"event": " release ", "asserted_at": "1970-01-01T00:00:01Z"},
            "asserted_at": "1970-01-01T00:00:02Z",
        }
    )
    assert fact == Fact(
        schema="harn.fact.v1",
        id=fact.id,
        kind=FactKind.DECISION,
        claim="Build cancels running tool calls first.",
        evidence=(Evidence(kind=EvidenceKind.FILE_RANGE, ref="cancel.py:1", snippet="  stop()\n"),),
        confidence=1.0,
        provenance={"by": "ann", "runs": [1, 2, None, True, 0.5]},
        valid_until=ValidUntil(event="release", asserted_at=1_000),
        asserted_at=2_000,
    )
    assert isinstance(fact.confidence, float)


def test_null_reads_as_absent() -> None:
    absent = dict.fromkeys(("schema", "id", "evidence", "provenance", "valid_until"))
    assert a_fact(**absent) == a_fact()
    assert a_fact(evidence=[{"kind": "trace_ref", "ref": "t1", "snippet": None}]).evidence[0].snippet is None


def test_a_blank_snippet_is_none() -> None:
    assert a_fact(evidence=[{"kind": "trace_ref", "ref": "t1", "snippet": " \n"}]).evidence[0].snippet is None


def test_newlines_and_tabs_are_text() -> None:
    assert a_fact(claim="first\r\n\tsecond").claim == "first\r\n\tsecond"


def test_any_mapping_will_do() -> None:
    frozen = MappingProxyType(fact_fields(provenance=MappingProxyType({"by": "ann"})))
    assert parse_fact(frozen) == a_fact(provenance={"by": "ann"})


def test_the_callers_objects_are_neither_changed_nor_kept() -> None:
    fields = fact_fields(
        evidence=[{"kind": "trace_ref", "ref": "t1"}],
        provenance={"runs": [{"nr": 1}]},
        valid_until={"event": {"name": "release"}, "asserted_at": 0},
    )
    before = copy.deepcopy(fields)
    fact = parse_fact(fields)
    assert fields == before
    kept = copy.deepcopy(fact)
    for part in (fields["evidence"], fields["provenance"], fields["valid_until"]):
        assert isinstance(part, list | dict)
        part.clear()
    assert fact == kept


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("trace_ref", EvidenceKind.TRACE_REF),
        ("TraceRef", EvidenceKind.TRACE_REF),
        ("file_range", EvidenceKind.FILE_RANGE),
        ("FileRange", EvidenceKind.FILE_RANGE),
        ("fileRange", EvidenceKind.FILE_RANGE),
        ("file-range", EvidenceKind.FILE_RANGE),
        ("FILE_RANGE", EvidenceKind.FILE_RANGE),
        ("tool-Output", EvidenceKind.TOOL_OUTPUT),
        ("ToolOutput", EvidenceKind.TOOL_OUTPUT),
        ("UserInput", EvidenceKind.USER_INPUT),
        (EvidenceKind.USER_INPUT, EvidenceKind.USER_INPUT),
    ],
)
def test_a_kind_of_evidence_is_read_with_dashes_and_in_camel_case(word: str, kind: EvidenceKind) -> None:
    assert a_fact(evidence=[{"kind": word, "ref": "x"}]).evidence[0].kind is kind


def evidence_with(**changes: object) -> list[object]:
    return [{"kind": "trace_ref", "ref": "t1"}, {"kind": "trace_ref", "ref": "t2", **changes}]


def until(**changes: object) -> dict[str, object]:
    return {"event": "release", "asserted_at": 0, **changes}


@pytest.mark.parametrize(
    ("changes", "code", "field"),
    [
        pytest.param({"schema": "harn.fact.v2"}, 1, "schema", id="another-schema"),
        pytest.param({"schema": 1}, 1, "schema", id="a-schema-that-is-a-number"),
        pytest.param({"clam": "x"}, 1, "clam", id="an-unknown-field"),
        pytest.param({"clam": None}, 1, "clam", id="an-unknown-field-even-if-null"),
        pytest.param({"two words": 1}, 1, "'two words'", id="an-unknown-field-with-an-odd-name"),
        pytest.param({"id": "fact_0"}, 1, "id", id="an-id-that-does-not-follow-from-the-content"),
        pytest.param({"kind": None}, 2, "kind", id="no-kind"),
        pytest.param({"kind": "gossip"}, 2, "kind", id="an-unknown-kind"),
        pytest.param({"kind": "file_range"}, 2, "kind", id="a-kind-of-evidence"),
        pytest.param({"kind": 3}, 2, "kind", id="a-kind-that-is-a-number"),
        pytest.param({"claim": None}, 3, "claim", id="no-claim"),
        pytest.param({"claim": " \n\t"}, 3, "claim", id="a-blank-claim"),
        pytest.param({"claim": ["x"]}, 3, "claim", id="a-claim-that-is-a-list"),
        pytest.param({"claim": "a\x00b"}, 3, "claim", id="a-claim-with-a-null-character"),
        pytest.param({"claim": "\x85Ship"}, 3, "claim", id="a-control-character-that-trimming-would-hide"),
        pytest.param({"claim": "\x1b[31mred"}, 3, "claim", id="a-claim-with-a-terminal-code"),
        pytest.param({"claim": "a\ud800b"}, 3, "claim", id="a-claim-with-a-lone-surrogate"),
        pytest.param({"confidence": None}, 4, "confidence", id="no-confidence"),
        pytest.param({"confidence": True}, 4, "confidence", id="a-confidence-that-is-a-bool"),
        pytest.param({"confidence": "0.9"}, 4, "confidence", id="a-confidence-that-is-text"),
        pytest.param({"confidence": 1.0000001}, 4, "confidence", id="a-confidence-above-one"),
        pytest.param({"confidence": -0.1}, 4, "confidence", id="a-confidence-below-zero"),
        pytest.param({"confidence": math.nan}, 4, "confidence", id="a-confidence-that-is-no-number"),
        pytest.param({"confidence": math.inf}, 4, "confidence", id="an-infinite-confidence"),
        pytest.param({"confidence": 10**5000}, 4, "confidence", id="an-enormous-confidence"),
        pytest.param({"evidence": "a.py:1"}, 5, "evidence", id="evidence-that-is-text"),
        pytest.param({"evidence": {"kind": "trace_ref"}}, 5, "evidence", id="evidence-that-is-no-list"),
        pytest.param({"evidence": ["a.py:1"]}, 5, "evidence[0]", id="an-item-of-evidence-that-is-text"),
        pytest.param({"evidence": [None]}, 5, "evidence[0]", id="an-item-of-evidence-that-is-null"),
        pytest.param({"evidence": evidence_with(kind="rumour")}, 5, "evidence[1].kind", id="evidence-of-no-known-kind"),
        pytest.param({"evidence": evidence_with(kind="claim")}, 5, "evidence[1].kind", id="evidence-of-a-facts-kind"),
        pytest.param({"evidence": evidence_with(ref=None)}, 5, "evidence[1].ref", id="evidence-without-a-place"),
        pytest.param({"evidence": evidence_with(ref=" ")}, 5, "evidence[1].ref", id="evidence-with-a-blank-place"),
        pytest.param({"evidence": evidence_with(ref="\x07")}, 5, "evidence[1].ref", id="a-place-with-a-bell"),
        pytest.param({"evidence": evidence_with(snippet=3)}, 5, "evidence[1].snippet", id="a-snippet-that-is-no-text"),
        pytest.param({"evidence": evidence_with(snippet="\udfff")}, 5, "evidence[1].snippet", id="a-hostile-snippet"),
        pytest.param({"evidence": evidence_with(line=3)}, 5, "evidence[1].line", id="an-unknown-field-of-evidence"),
        pytest.param({"provenance": "ann"}, 6, "provenance", id="provenance-that-is-text"),
        pytest.param({"provenance": [("by", "ann")]}, 6, "provenance", id="provenance-that-is-a-list"),
        pytest.param({"provenance": {1: "x"}}, 6, "provenance.1", id="provenance-with-a-number-for-a-name"),
        pytest.param({"provenance": {"a\x00": 1}}, 6, r"provenance.'a\x00'", id="provenance-with-a-hostile-name"),
        pytest.param({"provenance": {"by": ["\x00"]}}, 6, "provenance.by[0]", id="provenance-with-hostile-text"),
        pytest.param({"provenance": {"by": {"x": math.nan}}}, 6, "provenance.by.x", id="provenance-with-nan"),
        pytest.param({"provenance": {"at": EPOCH}}, 6, "provenance.at", id="provenance-that-json-cannot-write"),
        pytest.param({"provenance": {"raw": b"x"}}, 6, "provenance.raw", id="provenance-with-bytes"),
        pytest.param({"provenance": {"n": MAX_INTEGER + 1}}, 6, "provenance.n", id="provenance-with-a-huge-integer"),
        pytest.param({"valid_until": "release"}, 7, "valid_until", id="validity-that-is-text"),
        pytest.param({"valid_until": until(event=None)}, 7, "valid_until.event", id="validity-without-an-event"),
        pytest.param({"valid_until": until(event=" ")}, 7, "valid_until.event", id="validity-with-a-blank-event"),
        pytest.param({"valid_until": until(event=3)}, 7, "valid_until.event", id="an-event-that-is-a-number"),
        pytest.param({"valid_until": until(event={"x": b""})}, 7, "valid_until.event.x", id="an-event-with-bytes"),
        pytest.param(
            {"valid_until": until(asserted_at=None)}, 7, "valid_until.asserted_at", id="validity-without-time"
        ),
        pytest.param({"valid_until": until(until=3)}, 7, "valid_until.until", id="an-unknown-field-of-validity"),
        pytest.param({"asserted_at": None}, 9, "asserted_at", id="no-time"),
        pytest.param({"asserted_at": "yesterday"}, 9, "asserted_at", id="a-time-that-is-no-time"),
        pytest.param({"asserted_at": 1.5}, 9, "asserted_at", id="a-time-that-is-a-float"),
        pytest.param({"asserted_at": True}, 9, "asserted_at", id="a-time-that-is-a-bool"),
    ],
)
def test_an_invalid_value_is_an_error_with_its_code_and_field(
    changes: Mapping[str, object], code: int, field: str
) -> None:
    with pytest.raises(FactError) as caught:
        parse_fact({**fact_fields(), **changes})
    assert (caught.value.code, caught.value.field) == (f"HARN-FACT-00{code}", field)
    assert str(caught.value).startswith(f"HARN-FACT-00{code}: {field} ")


def test_a_long_name_is_cut_where_it_is_part_of_a_fields_name() -> None:
    with pytest.raises(FactError) as caught:
        a_fact(provenance={"k" * 10_000: b""})
    assert caught.value.field.startswith("provenance.'kkk")
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("fields", [None, "claim", ["claim"], 3, object()])
def test_a_fact_must_be_a_mapping(fields: object) -> None:
    with pytest.raises(FactError, match=r"^HARN-FACT-001: fact must be a mapping, got ") as caught:
        parse_fact(fields)
    assert caught.value.value is fields


def test_an_error_carries_the_value_that_was_given() -> None:
    with pytest.raises(FactError, match="got 'gossip'") as caught:
        a_fact(kind="gossip")
    assert caught.value.value == "gossip"


def test_the_id_that_follows_from_the_content_may_be_given() -> None:
    assert a_fact(id=a_fact().id) == a_fact()


def test_the_time_among_the_fields_goes_before_the_other() -> None:
    assert parse_fact(fact_fields(asserted_at=5), asserted_at=9).asserted_at == 5
    assert parse_fact(fact_fields(asserted_at=None), asserted_at=9).asserted_at == 9


@pytest.mark.parametrize(
    ("confidence", "read"), [(0, 0.0), (1, 1.0), (0.5, 0.5), (-0.0, 0.0)], ids=["0", "1", "half", "negative-zero"]
)
def test_a_confidence_from_0_to_1_is_read(confidence: float, read: float) -> None:
    assert str(a_fact(confidence=confidence).confidence) == str(read)


@pytest.mark.parametrize(
    ("given_number", "kept"),
    [(1.0, 1), (-0.0, 0), (1.5, 1.5), (1e300, 1e300), (2.0**53, 2.0**53), (-MAX_INTEGER, -MAX_INTEGER)],
)
def test_a_number_is_kept_and_a_whole_one_is_an_integer(given_number: float, kept: float) -> None:
    (number,) = a_fact(provenance={"n": given_number}).provenance.values()
    assert repr(number) == repr(kept)


def test_provenance_may_nest_as_deep_as_allowed_and_no_deeper() -> None:
    assert a_fact(provenance=nested(MAX_DEPTH)).provenance == nested(MAX_DEPTH)
    with pytest.raises(FactError, match="levels"):
        a_fact(provenance=nested(MAX_DEPTH + 1))


def test_provenance_may_hold_as_many_values_as_allowed_and_no_more() -> None:
    full: dict[str, object] = {"values": [0] * (MAX_VALUES - 1)}
    assert a_fact(provenance=full).provenance == full
    with pytest.raises(FactError, match="values"):
        a_fact(provenance={**full, "more": 0})


@pytest.mark.parametrize("hostile", [a_mapping_of_itself(), a_bomb()], ids=["a-cycle", "a-bomb"])
def test_a_cyclic_or_exploding_object_is_refused(hostile: dict[str, object]) -> None:
    with pytest.raises(FactError, match="HARN-FACT-006"):
        a_fact(provenance=hostile)
    with pytest.raises(FactError, match="HARN-FACT-007"):
        a_fact(valid_until={"event": hostile, "asserted_at": 0})


@given(st.text())
def test_a_text_is_a_claim_unless_it_is_blank_or_hostile(text: str) -> None:
    if HOSTILE.search(text) or not text.strip():
        with pytest.raises(FactError, match="HARN-FACT-003"):
            a_fact(claim=text)
    else:
        assert a_fact(claim=text).claim == text.strip()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*Fact.__struct_fields__, "other"]), anything))
def test_every_input_is_a_fact_or_a_fact_error(fields: dict[str, object]) -> None:
    with pytest.raises(FactError) as caught:
        parse_fact(fields)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        pytest.param("1970-01-01T00:00:00Z", 0, id="the-epoch"),
        pytest.param("1969-12-31T23:59:59.999Z", -1, id="before-the-epoch"),
        pytest.param("2026-01-01t00:00:00z", 1_767_225_600_000, id="small-letters"),
        pytest.param("2026-01-01 00:00:00Z", 1_767_225_600_000, id="a-space-for-the-t"),
        pytest.param("2026-01-01T02:30:00+02:30", 1_767_225_600_000, id="east-of-greenwich"),
        pytest.param("2025-12-31T23:30:00-00:30", 1_767_225_600_000, id="west-of-greenwich"),
        pytest.param("1970-01-01T00:00:00.5Z", 500, id="tenths"),
        pytest.param("1970-01-01T00:00:00.0019999Z", 1, id="what-is-finer-than-milliseconds-is-cut-off"),
        pytest.param("2024-02-29T00:00:00Z", 1_709_164_800_000, id="a-leap-day"),
        pytest.param("2016-12-31T23:59:60Z", 1_483_228_800_000, id="a-leap-second-is-the-first-of-the-next-day"),
        pytest.param("0001-01-01T00:00:00Z", FIRST_MOMENT, id="the-first-moment"),
        pytest.param("9999-12-31T23:59:59.999Z", LAST_MOMENT, id="the-last-moment"),
    ],
)
def test_a_time_may_be_rfc_3339_text(text: str, moment: int) -> None:
    assert parse_moment(text, FieldPath(FactCode.ASSERTED_AT, "at")) == moment


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="nothing"),
        pytest.param("2026-01-01", id="a-date-alone"),
        pytest.param("2026-01-01T00:00:00", id="no-offset"),
        pytest.param("2026-01-01T00:00:00Z\n", id="a-newline-behind"),
        pytest.param("2026-01-01T00:00:00.Z", id="a-point-without-digits"),
        pytest.param("٢٠٢٦-01-01T00:00:00Z", id="digits-of-another-script"),
        pytest.param("2026-13-01T00:00:00Z", id="month-13"),
        pytest.param("2026-00-01T00:00:00Z", id="month-0"),
        pytest.param("2026-02-29T00:00:00Z", id="a-leap-day-in-a-common-year"),
        pytest.param("2026-04-31T00:00:00Z", id="april-31"),
        pytest.param("2026-01-00T00:00:00Z", id="day-0"),
        pytest.param("2026-01-01T24:00:00Z", id="hour-24"),
        pytest.param("2026-01-01T00:60:00Z", id="minute-60"),
        pytest.param("2026-01-01T00:00:61Z", id="second-61"),
        pytest.param("2026-01-01T00:00:00+24:00", id="an-offset-of-24-hours"),
        pytest.param("2026-01-01T00:00:00+00:60", id="an-offset-of-60-minutes"),
        pytest.param("0000-01-01T00:00:00Z", id="the-year-0"),
        pytest.param("0001-01-01T00:00:00+00:01", id="before-the-first-moment"),
        pytest.param("9999-12-31T23:59:59-00:01", id="after-the-last-moment"),
        pytest.param(FIRST_MOMENT - 1, id="milliseconds-before-the-first-moment"),
        pytest.param(LAST_MOMENT + 1, id="milliseconds-after-the-last-moment"),
        pytest.param(10**5000, id="an-enormous-number"),
        pytest.param(0.0, id="a-float"),
        pytest.param(False, id="a-bool"),
        pytest.param(None, id="null"),
    ],
)
def test_an_invalid_time_is_refused(value: object) -> None:
    with pytest.raises(FactError, match=r"^HARN-FACT-009: at must be RFC 3339 text or milliseconds") as caught:
        parse_moment(value, FieldPath(FactCode.ASSERTED_AT, "at"))
    assert caught.value.value is value


@given(st.integers(FIRST_MOMENT + DAY, LAST_MOMENT - DAY), st.integers(-1439, 1439))
def test_a_time_in_any_offset_is_the_moment_it_names(moment: int, minutes: int) -> None:
    local = (EPOCH + timedelta(milliseconds=moment)).astimezone(timezone(timedelta(minutes=minutes)))
    assert parse_moment(local.isoformat(), FieldPath(FactCode.ASSERTED_AT, "at")) == moment


@given(st.integers(FIRST_MOMENT, LAST_MOMENT))
def test_milliseconds_are_taken_as_they_are(moment: int) -> None:
    assert parse_moment(moment, FieldPath(FactCode.ASSERTED_AT, "at")) == moment
