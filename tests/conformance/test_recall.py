"""Facts: what one is, which are recalled, and in which order."""

import copy
import math
import re
from hashlib import sha256
from json import dumps
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.recall.bm25 import SearchDocument, rank
from sideband.recall.facts import (
    DEFAULT_NAMESPACE,
    EvidenceKind,
    Fact,
    FactBook,
    FactCode,
    FactError,
    FactKind,
    fact_document,
    fact_key,
    parse_fact,
    recall_facts,
    store_fact,
)

NOON: Final = "2026-10-02T12:00:00.000Z"
NOON_IN_MS: Final = 1_790_942_400_000


def a_fact(claim: str = "Tests need the database.", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - also wrong ones
    """The fields of a fact, as a program hands them in."""
    return {"kind": "decision", "claim": claim, "confidence": 0.9, **fields}


def a_book(*facts: dict[str, Any]) -> FactBook:
    """A book with these facts, each a millisecond newer than the one before."""
    book = FactBook()
    for moment, fields in enumerate(facts):
        book = store_fact(book, fields, asserted_at=moment).book
    return book


def claims(book: FactBook, **options: Any) -> list[str]:  # noqa: ANN401 - options of recall
    return [recalled.fact.claim for recalled in recall_facts(book, **options)]


# Ranking.


@pytest.mark.requirement("recall:bm25:lexical-match-ranks")
def test_what_shares_more_and_rarer_words_with_the_query_comes_first() -> None:
    book = a_book(
        a_fact("The login form posts a token."),
        a_fact("Login tests run before every release."),
        a_fact("The release train leaves on Tuesday."),
        a_fact("Colours come from the design team."),
    )
    recalled = recall_facts(book, query="login release tests")
    assert [hit.fact.claim for hit in recalled[:1]] == ["Login tests run before every release."]
    scores = [hit.score for hit in recalled]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[1] > scores[-1] == 0


def bm25_by_hand(times: int, length: int, average: float, holders: int, documents: int) -> float:
    """What one word of the query is worth for one document."""
    rarity = math.log(1 + (documents - holders + 0.5) / (holders + 0.5))
    return rarity * times * (1.2 + 1) / (times + 1.2 * (1 - 0.75 + 0.75 * length / average))


@pytest.mark.requirement("recall:bm25:parameters")
def test_a_score_is_what_k1_and_b_make_of_it() -> None:
    short = SearchDocument(id="short", recorded_at=0, text="login token")
    long = SearchDocument(id="long", recorded_at=0, text="login form of the login page sends login data")
    other = SearchDocument(id="other", recorded_at=0, text="build notes")
    scores = {document.id: score for document, score in rank([short, long, other], "login")}
    average = (2 + 9 + 2) / 3
    assert scores == {
        "short": pytest.approx(bm25_by_hand(1, 2, average, holders=2, documents=3)),
        "long": pytest.approx(bm25_by_hand(3, 9, average, holders=2, documents=3)),
        "other": 0,
    }


WORDS: Final = ("login", "cache", "build", "release")
BOOKS: Final = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(lambda words: a_fact(" ".join(words))),
    min_size=1,
    max_size=5,
).map(lambda facts: a_book(*facts))


@pytest.mark.requirement("recall:bm25:smoothed-idf")
def test_a_word_that_every_fact_has_still_adds_to_each_score() -> None:
    book = a_book(a_fact("login works"), a_fact("login fails"), a_fact("login waits"))
    assert all(hit.score > 0 for hit in recall_facts(book, query="login"))


@pytest.mark.requirement("recall:bm25:smoothed-idf")
@given(book=BOOKS, query=st.lists(st.sampled_from(WORDS)).map(" ".join), word=st.sampled_from(WORDS))
def test_one_more_word_in_the_query_never_lowers_a_score(book: FactBook, query: str, word: str) -> None:
    before = {hit.fact.id: hit.score for hit in recall_facts(book, query=query, max_facts=25)}
    after = {hit.fact.id: hit.score for hit in recall_facts(book, query=f"{query} {word}", max_facts=25)}
    assert before.keys() == after.keys()
    assert all(after[name] >= score for name, score in before.items())


@pytest.mark.requirement("recall:bm25:tokens")
@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param("LOGIN", True, id="without-case"),
        pytest.param("login-form", True, id="either-side-of-a-dash"),
        pytest.param("login_42", True, id="either-side-of-an-underscore"),
        pytest.param("42", True, id="digits"),
        pytest.param("GRÖSSE", False, id="another-word"),
        pytest.param("größe", True, id="letters-of-any-alphabet"),
        pytest.param("x", False, id="a-single-letter-is-no-word"),
        pytest.param("log", False, id="a-part-of-a-word-is-another-word"),
        pytest.param("-- !?", False, id="signs-are-no-words"),
    ],
)
def test_words_are_runs_of_letters_and_digits_longer_than_one(query: str, *, found: bool) -> None:
    book = a_book(a_fact("Login form x has 42 fields of Größe."))
    (hit,) = recall_facts(book, query=query)
    assert (hit.score > 0) is found


@pytest.mark.requirement("recall:rank:unscored-by-recency")
def test_what_cannot_be_scored_comes_last_and_newest_first() -> None:
    book = a_book(a_fact("login works"), a_fact("older remark"), a_fact("newer remark"))
    assert claims(book, query="login") == ["login works", "newer remark", "older remark"]
    assert claims(book) == ["newer remark", "older remark", "login works"]


@pytest.mark.requirement("recall:rank:ties-newest-first")
def test_of_equal_scores_the_newest_comes_first() -> None:
    # The order of the words makes three facts of the same words, and so of the same score.
    book = a_book(a_fact("login form works"), a_fact("form login works"), a_fact("works login form"))
    assert claims(book, query="login") == ["works login form", "form login works", "login form works"]
    assert len({hit.score for hit in recall_facts(book, query="login")}) == 1


@pytest.mark.requirement("recall:rank:top-k")
@pytest.mark.parametrize(
    ("asked", "got"),
    [
        pytest.param(0, 0, id="none"),
        pytest.param(2, 2, id="two"),
        pytest.param(None, 5, id="five-unless-asked"),
        pytest.param(12, 12, id="all-there-are"),
        pytest.param(30, 12, id="no-more-than-there-are"),
    ],
)
def test_no_more_facts_are_returned_than_were_asked_for(asked: int | None, got: int) -> None:
    book = a_book(*(a_fact(f"login fact {number}") for number in range(12)))
    recalled = recall_facts(book, query="login", max_facts=asked)
    assert len(recalled) == got
    assert recalled == recall_facts(book, query="login", max_facts=25)[:got]


# Filters.


@pytest.mark.requirement("recall:filter:schema")
def test_a_record_of_another_schema_is_never_recalled() -> None:
    ours = parse_fact(a_fact("login works"), asserted_at=0)
    theirs = msgspec.structs.replace(ours, schema="harn.fact.v2", id="fact_2", claim="login fails")
    book = FactBook(namespaces={DEFAULT_NAMESPACE: {fact_key(fact): fact for fact in (ours, theirs)}})
    assert claims(book, query="login") == ["login works"]
    assert claims(book, min_confidence=0) == ["login works"]


@pytest.mark.requirement("recall:filter:schema")
def test_a_record_of_another_schema_is_not_stored_either() -> None:
    with pytest.raises(FactError, match=r"schema must be harn\.fact\.v1"):
        store_fact(FactBook(), a_fact(schema="harn.fact.v2"), asserted_at=0)


@pytest.mark.requirement("recall:filter:min-confidence")
@pytest.mark.parametrize(
    ("least", "recalled"),
    [
        pytest.param(0.0, ["sure", "even", "doubtful"], id="none-is-left-out"),
        pytest.param(None, ["sure", "even"], id="one-half-unless-asked"),
        pytest.param(0.5, ["sure", "even"], id="exactly-at-the-bound"),
        pytest.param(0.51, ["sure"], id="below-the-bound"),
        pytest.param(1.0, [], id="all-below"),
    ],
)
def test_facts_below_the_confidence_are_left_out(least: float | None, recalled: list[str]) -> None:
    book = a_book(a_fact("doubtful", confidence=0.49), a_fact("even", confidence=0.5), a_fact("sure", confidence=0.99))
    assert claims(book, min_confidence=least) == recalled


@pytest.mark.requirement("recall:filter:kinds")
@pytest.mark.parametrize(
    ("kinds", "recalled"),
    [
        pytest.param(None, ["a constraint", "a decision", "an observation"], id="every-kind-unless-asked"),
        pytest.param(["decision"], ["a decision"], id="one"),
        pytest.param("DECISION", ["a decision"], id="one-as-text-in-capitals"),
        pytest.param(["Constraint", "observation"], ["a constraint", "an observation"], id="several"),
        pytest.param(["hypothesis"], [], id="one-that-no-fact-has"),
    ],
)
def test_only_facts_of_the_asked_for_kinds_are_recalled(kinds: str | list[str] | None, recalled: list[str]) -> None:
    book = a_book(
        a_fact("an observation", kind="observation"),
        a_fact("a decision", kind="decision"),
        a_fact("a constraint", kind="constraint"),
    )
    assert claims(book, kind_filter=kinds) == recalled


# The record.


@pytest.mark.requirement("recall:fact:fields")
def test_a_fact_is_written_with_these_fields() -> None:
    evidence = {"kind": "file_range", "ref": "src/cancel.py:1", "snippet": "def cancel() -> None:"}
    ends = {"event": "release 2", "asserted_at": NOON}
    fact = parse_fact(
        a_fact(evidence=[evidence], provenance={"session": "fix-login"}, valid_until=ends), asserted_at=NOON
    )
    assert fact_document(fact) == {
        "schema": "harn.fact.v1",
        "id": fact.id,
        "kind": "decision",
        "claim": "Tests need the database.",
        "evidence": [evidence],
        "confidence": 0.9,
        "provenance": {"session": "fix-login"},
        "asserted_at": NOON,
        "valid_until": ends,
    }
    assert fact.asserted_at == NOON_IN_MS
    assert parse_fact(fact_document(fact)) == fact


@pytest.mark.requirement("recall:fact:fields")
def test_only_the_end_of_validity_may_be_missing() -> None:
    document = fact_document(parse_fact(a_fact(), asserted_at=NOON))
    assert set(Fact.__struct_fields__) - document.keys() == {"valid_until"}


@pytest.mark.requirement("recall:fact:kinds")
def test_a_fact_is_of_one_of_five_kinds_in_any_case() -> None:
    words = ["observation", "claim", "hypothesis", "decision", "constraint"]
    assert [kind.value for kind in FactKind] == words
    for word in words:
        for spelling in (word, word.upper(), word.title(), f" {word} "):
            assert parse_fact(a_fact(kind=spelling), asserted_at=0).kind == word


@pytest.mark.requirement("recall:fact:kinds")
@pytest.mark.parametrize("kind", [None, "", "opinion", "decisions", 1])
def test_a_fact_of_no_known_kind_is_refused(kind: object) -> None:
    with pytest.raises(FactError) as refused:
        parse_fact(a_fact(kind=kind), asserted_at=0)
    assert refused.value.code is FactCode.KIND


@pytest.mark.requirement("recall:fact:evidence-kinds")
@pytest.mark.parametrize(
    ("word", "spellings"),
    [
        ("trace_ref", ("trace-ref", "TraceRef")),
        ("file_range", ("file-range", "FileRange")),
        ("tool_output", ("tool-output", "ToolOutput")),
        ("user_input", ("user-input", "UserInput")),
    ],
)
def test_evidence_is_of_one_of_four_kinds_in_several_spellings(word: str, spellings: tuple[str, ...]) -> None:
    assert [kind.value for kind in EvidenceKind] == ["trace_ref", "file_range", "tool_output", "user_input"]
    for spelling in (word, *spellings):
        fact = parse_fact(a_fact(evidence=[{"kind": spelling, "ref": "a"}]), asserted_at=0)
        assert [item.kind for item in fact.evidence] == [word]


@pytest.mark.requirement("recall:fact:evidence-kinds")
def test_evidence_of_no_known_kind_is_refused() -> None:
    with pytest.raises(FactError, match=r"evidence\[0\].kind must be one of"):
        parse_fact(a_fact(evidence=[{"kind": "hearsay", "ref": "a"}]), asserted_at=0)


@pytest.mark.requirement("recall:fact:confidence-is-required")
@pytest.mark.parametrize("confidence", [None, -0.01, 1.01, math.nan, math.inf, "0.5", True])
def test_a_fact_without_a_confidence_from_0_to_1_is_refused(confidence: object) -> None:
    with pytest.raises(FactError) as refused:
        parse_fact(a_fact(confidence=confidence), asserted_at=0)
    assert (refused.value.code, refused.value.field) == (FactCode.CONFIDENCE, "confidence")


@pytest.mark.requirement("recall:fact:confidence-is-required")
@pytest.mark.parametrize("confidence", [0, 0.5, 1])
def test_a_fact_may_be_as_sure_as_0_and_as_1(confidence: float) -> None:
    assert parse_fact(a_fact(confidence=confidence), asserted_at=0).confidence == confidence


@pytest.mark.requirement("recall:fact:id-follows-from-its-content")
def test_the_id_is_a_digest_of_what_is_said_and_what_it_rests_on() -> None:
    evidence = {"kind": "file_range", "ref": "src/cancel.py:1"}
    fact = parse_fact(a_fact(evidence=[evidence], provenance={"by": "me"}), asserted_at=0)
    content = {"kind": "decision", "claim": fact.claim, "evidence": [evidence], "provenance": {"by": "me"}}
    canonical = dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert fact.id == "fact_" + sha256(canonical.encode()).hexdigest()[:32]
    assert re.fullmatch("fact_[0-9a-f]{32}", fact.id)


@pytest.mark.requirement("recall:fact:id-follows-from-its-content")
@pytest.mark.parametrize(
    ("change", "same"),
    [
        pytest.param({"confidence": 0.2}, True, id="confidence"),
        pytest.param({"asserted_at": NOON}, True, id="time"),
        pytest.param({"valid_until": {"event": "release", "asserted_at": NOON}}, True, id="validity"),
        pytest.param({"kind": "claim"}, False, id="kind"),
        pytest.param({"claim": "Tests need no database."}, False, id="claim"),
        pytest.param({"evidence": [{"kind": "user_input", "ref": "chat"}]}, False, id="evidence"),
        pytest.param({"provenance": {"by": "me"}}, False, id="provenance"),
    ],
)
def test_facts_that_say_the_same_have_the_same_id(change: dict[str, Any], *, same: bool) -> None:
    plain, changed = (parse_fact(fields, asserted_at=0) for fields in (a_fact(), {**a_fact(), **change}))
    assert (plain.id == changed.id) is same


@pytest.mark.requirement("recall:fact:key")
@pytest.mark.parametrize("kind", FactKind)
def test_the_key_of_a_fact_names_its_kind_and_its_id(kind: FactKind) -> None:
    book, fact = store_fact(FactBook(), a_fact(kind=kind.value), asserted_at=0)
    assert fact_key(fact) == f"fact:{kind.value}:{fact.id}"
    assert [*book.namespaces[DEFAULT_NAMESPACE]] == [fact_key(fact)]


@pytest.mark.requirement("recall:fact:errors-have-codes")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        pytest.param(a_fact(mood="good"), "HARN-FACT-001", id="an-unknown-field"),
        pytest.param(a_fact(id="fact_0"), "HARN-FACT-001", id="an-id-of-something-else"),
        pytest.param(a_fact(kind="rumour"), "HARN-FACT-002", id="an-unknown-kind"),
        pytest.param(a_fact(claim=" "), "HARN-FACT-003", id="a-blank-claim"),
        pytest.param(a_fact(confidence=2), "HARN-FACT-004", id="too-much-confidence"),
        pytest.param(a_fact(evidence="see above"), "HARN-FACT-005", id="evidence-that-is-no-list"),
        pytest.param(a_fact(provenance=[]), "HARN-FACT-006", id="provenance-that-is-no-object"),
        pytest.param(a_fact(valid_until="tomorrow"), "HARN-FACT-007", id="an-end-without-an-event"),
        pytest.param(a_fact(asserted_at="yesterday"), "HARN-FACT-009", id="an-unreadable-time"),
    ],
)
def test_a_fact_that_is_refused_says_so_with_a_code_and_changes_nothing(fields: dict[str, Any], code: str) -> None:
    book = a_book(a_fact("login works"))
    before = copy.deepcopy(book)
    with pytest.raises(FactError, match=rf"^{code}: ") as refused:
        store_fact(book, fields, asserted_at=0)
    assert refused.value.code == code
    assert book == before


@pytest.mark.requirement("recall:fact:errors-have-codes")
def test_an_unusable_choice_of_facts_has_a_code_too() -> None:
    with pytest.raises(FactError, match=r"^HARN-FACT-008: "):
        recall_facts(a_book(a_fact()), scope="galaxy")
