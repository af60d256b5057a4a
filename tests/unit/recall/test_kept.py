"""Facts as records of a session."""

from sideband.core.apply import fold
from sideband.core.events import Recorded
from sideband.recall import kept
from sideband.recall.facts import FactBook, parse_fact


def test_a_record_that_this_version_cannot_read_is_left_out() -> None:
    fact = parse_fact({"kind": "claim", "claim": "x", "confidence": 1}, asserted_at=0)
    name, value = kept.to_record(fact, "project/facts")
    newer = {"namespace": "project/facts", "fact": {"schema": "harn.fact.v2"}}
    state = fold([Recorded(name=name, value=value), Recorded(name="fact_2@project/facts", value=newer)])
    assert kept.book_of(kept.records_of(state)).facts() == (fact,)
    assert kept.book_of({}) == FactBook()


def test_a_book_shares_nothing_with_the_records() -> None:
    fields = {"kind": "claim", "claim": "x", "confidence": 1, "provenance": {"by": ["me"]}}
    name, value = kept.to_record(parse_fact(fields, asserted_at=0), "project/facts")
    (fact,) = kept.book_of({name: value}).facts()
    fact.provenance["by"].append("you")  # type: ignore[attr-defined]  # it is a list
    assert value["fact"]["provenance"] == {"by": ["me"]}
