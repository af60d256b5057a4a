"""The book of facts: storing, recalling, and the options of recall."""

import copy
import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.recall.facts import (
    FactBook,
    FactError,
    FactKind,
    Recalled,
    RecallOptions,
    fact_document,
    fact_key,
    fact_namespace,
    recall_facts,
    recall_for_task,
    store_fact,
)

WORDS = ("login", "build", "cache", "tests", "sigint")


def fact_fields(claim: str = "Ship on Fridays.", **changes: object) -> dict[str, object]:
    return {"kind": "decision", "claim": claim, "confidence": 0.9, **changes}


def a_book(*entries: Mapping[str, object], namespace: str = "project/facts") -> FactBook:
    """A book with these facts, each a millisecond newer than the one before."""
    book = FactBook()
    for moment, fields in enumerate(entries):
        book = store_fact(book, fields, namespace=namespace, asserted_at=moment).book
    return book


def claims(recalled: tuple[Recalled, ...]) -> list[str]:
    return [fact.claim for fact, _ in recalled]


def many(count: int) -> list[dict[str, object]]:
    return [fact_fields(f"fact number {number:03}") for number in range(count)]


fields_of_facts = st.builds(
    fact_fields,
    claim=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    kind=st.sampled_from(FactKind),
    confidence=st.floats(0, 1),
    provenance=st.dictionaries(st.sampled_from(WORDS), st.integers(0, 2), max_size=2),
)
books = st.lists(fields_of_facts, max_size=6).map(lambda entries: a_book(*entries))
queries = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)


class TestStoring:
    def test_a_stored_fact_is_in_its_namespace_under_its_key(self) -> None:
        book, fact = store_fact(FactBook(), fact_fields(), namespace="team/facts", asserted_at=7)
        assert book == FactBook(namespaces={"team/facts": {fact_key(fact): fact}})
        assert book.facts("team/facts") == (fact,)
        assert fact.asserted_at == 7

    def test_the_namespace_is_that_of_the_project_unless_another_is_given(self) -> None:
        book, fact = store_fact(FactBook(), fact_fields(), asserted_at=0)
        assert book.facts() == book.facts("project/facts") == (fact,)

    def test_a_namespace_without_facts_is_empty(self) -> None:
        assert FactBook().facts("nowhere") == ()

    def test_the_time_may_be_text(self) -> None:
        assert store_fact(FactBook(), fact_fields(), asserted_at="1970-01-01T00:00:01Z").fact.asserted_at == 1_000

    def test_the_same_content_again_refreshes_the_record(self) -> None:
        book = a_book(fact_fields(confidence=0.5), fact_fields("Another."))
        again, fact = store_fact(book, fact_fields(confidence=0.8), asserted_at=9)
        assert len(again.facts()) == 2
        assert fact in again.facts()
        assert (fact.confidence, fact.asserted_at) == (0.8, 9)

    def test_one_fact_may_stand_in_two_namespaces(self) -> None:
        book = store_fact(a_book(fact_fields()), fact_fields(), namespace="user/facts", asserted_at=0).book
        assert book.facts("project/facts") == book.facts("user/facts")

    def test_what_cannot_be_stored_changes_nothing(self) -> None:
        book = a_book(fact_fields())
        before = copy.deepcopy(book)
        with pytest.raises(FactError, match="HARN-FACT-004"):
            store_fact(book, fact_fields(confidence=2), asserted_at=1)
        with pytest.raises(FactError, match="HARN-FACT-008: namespace"):
            store_fact(book, fact_fields(), namespace="a\x00b", asserted_at=1)
        assert book == before

    def test_a_document_of_a_stored_fact_can_be_stored(self) -> None:
        _, fact = store_fact(FactBook(), fact_fields(), asserted_at=5)
        assert store_fact(FactBook(), fact_document(fact), asserted_at=9).fact == fact

    @given(books, fields_of_facts)
    def test_storing_twice_is_storing_once(self, book: FactBook, fields: dict[str, object]) -> None:
        once = store_fact(book, fields, asserted_at=99).book
        assert store_fact(once, fields, asserted_at=99).book == once

    @given(books, fields_of_facts)
    def test_the_book_given_is_not_changed(self, book: FactBook, fields: dict[str, object]) -> None:
        before = copy.deepcopy((book, fields))
        store_fact(book, fields, asserted_at=99)
        assert (book, fields) == before


class TestRecalling:
    def test_the_best_answer_comes_first_and_the_rest_by_recency(self) -> None:
        book = a_book(
            fact_fields("The login form posts to the session endpoint."),
            fact_fields("Ship on Fridays."),
            fact_fields("Tests need a database."),
        )
        recalled = recall_facts(book, query="Fix the login bug")
        assert claims(recalled) == [
            "The login form posts to the session endpoint.",
            "Tests need a database.",
            "Ship on Fridays.",
        ]
        assert recalled[0].score > recalled[1].score == recalled[2].score == 0

    @pytest.mark.parametrize("query", [None, "", " ", "?", "nothing shared"])
    def test_without_a_word_in_common_the_newest_come_first(self, query: str | None) -> None:
        book = a_book(fact_fields("old"), fact_fields("new"), fact_fields("oldest", asserted_at=-1))
        assert claims(recall_facts(book, query=query)) == ["new", "old", "oldest"]

    def test_of_facts_of_one_moment_the_smaller_id_comes_first(self) -> None:
        book = a_book(*(fact_fields(word, asserted_at=0) for word in WORDS))
        ids = [fact.id for fact, _ in recall_facts(book)]
        assert ids == sorted(ids)

    @pytest.mark.parametrize(
        "fields",
        [
            pytest.param({"claim": "about sigint"}, id="the-claim"),
            pytest.param({"evidence": [{"kind": "file_range", "ref": "src/sigint.py:1"}]}, id="the-place-of-evidence"),
            pytest.param(
                {"evidence": [{"kind": "trace_ref", "ref": "t", "snippet": "on SIGINT"}]}, id="a-snippet-of-evidence"
            ),
            pytest.param({"provenance": {"task": ["sigint", 3]}}, id="a-text-of-the-provenance"),
            pytest.param({"provenance": {"sigint": None}}, id="a-name-of-the-provenance"),
        ],
    )
    def test_a_word_is_found_in(self, fields: dict[str, object]) -> None:
        book = a_book({**fact_fields("wanted"), **fields}, fact_fields("newer"))
        recalled = recall_facts(book, query="sigint")
        assert recalled[0].score > recalled[1].score == 0

    def test_a_number_of_the_provenance_is_found_and_a_truth_value_is_not(self) -> None:
        book = a_book(fact_fields(provenance={"run": 4711, "green": True}))
        assert recall_facts(book, query="4711")[0].score > 0
        assert recall_facts(book, query="true")[0].score == 0

    def test_a_word_for_the_kind_favours_facts_of_that_kind(self) -> None:
        book = a_book(fact_fields("Use tabs.", kind="constraint"), fact_fields("Use spaces.", kind="observation"))
        assert claims(recall_facts(book, query="every constraint"))[0] == "Use tabs."

    def test_a_fact_with_an_end_is_recalled_like_any_other(self) -> None:
        book = a_book(fact_fields(valid_until={"event": "release", "asserted_at": 0}))
        assert len(recall_facts(book)) == 1

    @pytest.mark.parametrize(
        ("max_facts", "count"),
        [
            pytest.param(None, 5, id="five-by-default"),
            pytest.param(0, 0, id="zero-is-none"),
            pytest.param(-3, 0, id="less-than-zero-is-zero"),
            pytest.param(1, 1, id="one"),
            pytest.param(25, 25, id="the-most"),
            pytest.param(26, 25, id="more-than-the-most-is-the-most"),
            pytest.param(10**5000, 25, id="however-much-more"),
        ],
    )
    def test_the_number_of_facts_is_limited(self, max_facts: int | None, count: int) -> None:
        assert len(recall_facts(a_book(*many(30)), max_facts=max_facts)) == count

    @pytest.mark.parametrize(
        ("min_confidence", "passing"),
        [
            pytest.param(None, ["0.5", "1.0"], id="half-by-default-and-inclusive"),
            pytest.param(0, ["0.0", "0.499", "0.5", "1.0"], id="zero-lets-all-pass"),
            pytest.param(-7, ["0.0", "0.499", "0.5", "1.0"], id="less-than-zero-is-zero"),
            pytest.param(0.499, ["0.499", "0.5", "1.0"], id="inclusive"),
            pytest.param(1, ["1.0"], id="certainty"),
            pytest.param(7.5, ["1.0"], id="more-than-one-is-one"),
            pytest.param(10**400, ["1.0"], id="however-much-more"),
        ],
    )
    def test_facts_of_less_confidence_stay_out(self, min_confidence: float | None, passing: list[str]) -> None:
        book = a_book(*(fact_fields(str(confidence), confidence=confidence) for confidence in (0.0, 0.499, 0.5, 1.0)))
        assert sorted(claims(recall_facts(book, min_confidence=min_confidence))) == passing

    @pytest.mark.parametrize(
        ("kind_filter", "passing"),
        [
            pytest.param(None, sorted(FactKind), id="all-by-default"),
            pytest.param([], sorted(FactKind), id="an-empty-list-lets-all-pass"),
            pytest.param("decision", ["decision"], id="one-word"),
            pytest.param("DECISION", ["decision"], id="in-any-case"),
            pytest.param(["decision", "Constraint"], ["constraint", "decision"], id="a-list"),
            pytest.param(("claim",), ["claim"], id="a-tuple"),
            pytest.param({FactKind.CLAIM}, ["claim"], id="a-set-of-kinds"),
        ],
    )
    def test_facts_of_other_kinds_stay_out(self, kind_filter: str | list[str] | None, passing: list[str]) -> None:
        book = a_book(*(fact_fields(kind.value, kind=kind) for kind in FactKind))
        assert sorted(claims(recall_facts(book, kind_filter=kind_filter))) == passing

    def test_a_fact_that_passes_is_found_after_any_number_that_do_not(self) -> None:
        book = a_book(fact_fields("passes", kind="constraint"), *many(100))
        assert claims(recall_facts(book, max_facts=2, kind_filter="constraint")) == ["passes"]

    @pytest.mark.parametrize(
        ("namespace", "scope", "found"),
        [
            pytest.param(None, None, "project/facts", id="the-projects-by-default"),
            pytest.param(None, "project", "project/facts", id="the-project-by-name"),
            pytest.param(None, "workspace", "workspace/facts", id="the-workspace"),
            pytest.param(None, " User ", "user/facts", id="the-user-in-any-case"),
            pytest.param("user/facts", None, "user/facts", id="a-namespace"),
            pytest.param(" team/facts ", "user", "team/facts", id="a-namespace-goes-before-a-scope"),
            pytest.param("team/facts", "galaxy", "team/facts", id="even-before-an-unknown-scope"),
            pytest.param(" ", "user", "user/facts", id="a-blank-namespace-is-none"),
            pytest.param(None, "", "project/facts", id="a-blank-scope-is-none"),
        ],
    )
    def test_facts_come_from_one_namespace(self, namespace: str | None, scope: str | None, found: str) -> None:
        book = FactBook()
        for name in ("project/facts", "workspace/facts", "user/facts", "team/facts"):
            book = store_fact(book, fact_fields(name), namespace=name, asserted_at=0).book
        assert fact_namespace(namespace=namespace, scope=scope) == found
        assert claims(recall_facts(book, namespace=namespace, scope=scope)) == [found]

    def test_an_empty_namespace_recalls_nothing(self) -> None:
        assert recall_facts(FactBook(), query="login") == ()

    @given(st.lists(fields_of_facts, max_size=5).flatmap(lambda e: st.tuples(st.just(e), st.permutations(e))), queries)
    def test_the_order_of_storing_has_no_effect_on_facts_of_known_times(
        self, both: tuple[list[dict[str, object]], list[dict[str, object]]], query: str
    ) -> None:
        # The time follows from the fields, so that a fact stored twice ends as the same record in either order.
        one, other = (
            a_book(*({**fields, "confidence": 0.9, "asserted_at": len(str(fields["claim"]))} for fields in order))
            for order in both
        )
        assert recall_facts(one, query=query) == recall_facts(other, query=query)

    @given(books, queries, st.integers(0, 25), st.floats(0, 1), st.sets(st.sampled_from(FactKind)))
    def test_what_is_recalled_passes_every_filter_and_is_in_order(
        self, book: FactBook, query: str, max_facts: int, min_confidence: float, kinds: set[FactKind]
    ) -> None:
        recalled = recall_facts(
            book, query=query, max_facts=max_facts, min_confidence=min_confidence, kind_filter=kinds
        )
        assert len(recalled) <= max_facts
        assert all(fact.confidence >= min_confidence for fact, _ in recalled)
        assert all(not kinds or fact.kind in kinds for fact, _ in recalled)
        places = [(-score, -fact.asserted_at, fact.id) for fact, score in recalled]
        assert places == sorted(places)
        assert all(score >= 0 for _, score in recalled)


class TestOptions:
    def test_the_defaults(self) -> None:
        assert RecallOptions.from_config(None) == RecallOptions.from_config({}) == RecallOptions()
        assert RecallOptions() == RecallOptions(
            namespace="project/facts", max_facts=5, min_confidence=0.5, kind_filter=frozenset(), query=None
        )

    def test_a_full_configuration(self) -> None:
        options = RecallOptions.from_config(
            {
                "scope": "workspace",
                "max_facts": 8,
                "min_confidence": 0.6,
                "kind_filter": ["decision", "constraint"],
                "relevance_query": "signals",
                "root": "/srv/project",
                "refresh_ratio": 0.9,
            }
        )
        assert options == RecallOptions(
            namespace="workspace/facts",
            max_facts=8,
            min_confidence=0.6,
            kind_filter=frozenset({FactKind.DECISION, FactKind.CONSTRAINT}),
            query="signals",
        )

    @pytest.mark.parametrize(
        ("config", "expected"),
        [
            pytest.param({"limit": 3}, RecallOptions(max_facts=3), id="limit"),
            pytest.param({"max_facts": 2, "limit": 3}, RecallOptions(max_facts=2), id="max_facts-before-limit"),
            pytest.param({"max_facts": 0, "limit": 3}, RecallOptions(max_facts=0), id="even-when-it-is-0"),
            pytest.param({"max_facts": None, "limit": 3}, RecallOptions(max_facts=3), id="null-is-absent"),
            pytest.param({"kinds": "claim"}, RecallOptions(kind_filter=frozenset({FactKind.CLAIM})), id="kinds"),
            pytest.param(
                {"kind_filter": "decision", "kinds": "claim"},
                RecallOptions(kind_filter=frozenset({FactKind.DECISION})),
                id="kind_filter-before-kinds",
            ),
            pytest.param({"query": "cache"}, RecallOptions(query="cache"), id="query"),
            pytest.param(
                {"relevance_query": "build", "query": "cache"},
                RecallOptions(query="build"),
                id="relevance_query-before-query",
            ),
            pytest.param({"relevance_query": " \n"}, RecallOptions(), id="a-blank-query-is-none"),
            pytest.param(
                {"query": "a\x00\ud800"}, RecallOptions(query="a\x00\ud800"), id="any-characters-may-be-asked"
            ),
            pytest.param(dict.fromkeys(("namespace", "scope", "min_confidence")), RecallOptions(), id="all-null"),
        ],
    )
    def test_aliases_and_absence(self, config: dict[str, object], expected: RecallOptions) -> None:
        assert RecallOptions.from_config(config) == expected

    @pytest.mark.parametrize(
        ("config", "code", "field"),
        [
            pytest.param({"max_facts": "8"}, 8, "max_facts", id="a-count-that-is-text"),
            pytest.param({"max_facts": True}, 8, "max_facts", id="a-count-that-is-a-bool"),
            pytest.param({"limit": 2.5}, 8, "limit", id="the-alias-is-named-where-it-was-used"),
            pytest.param({"min_confidence": "high"}, 4, "min_confidence", id="a-confidence-that-is-text"),
            pytest.param({"min_confidence": False}, 4, "min_confidence", id="a-confidence-that-is-a-bool"),
            pytest.param({"min_confidence": math.nan}, 4, "min_confidence", id="a-confidence-that-is-no-number"),
            pytest.param({"min_confidence": math.inf}, 4, "min_confidence", id="an-infinite-confidence"),
            pytest.param({"kind_filter": 3}, 8, "kind_filter", id="a-filter-that-is-a-number"),
            pytest.param({"kind_filter": {"decision": 1}}, 8, "kind_filter", id="a-filter-that-is-a-mapping"),
            pytest.param({"kind_filter": "gossip"}, 2, "kind_filter", id="an-unknown-kind"),
            pytest.param({"kinds": ["claim", "gossip"]}, 2, "kinds[1]", id="an-unknown-kind-in-a-list"),
            pytest.param({"kinds": [None]}, 2, "kinds[0]", id="a-kind-that-is-null"),
            pytest.param({"relevance_query": ["x"]}, 8, "relevance_query", id="a-query-that-is-a-list"),
            pytest.param({"namespace": 7}, 8, "namespace", id="a-namespace-that-is-a-number"),
            pytest.param({"namespace": "a\x1bb"}, 8, "namespace", id="a-namespace-with-a-control-character"),
            pytest.param({"scope": "galaxy"}, 8, "scope", id="an-unknown-scope"),
            pytest.param({"scope": ["user"]}, 8, "scope", id="a-scope-that-is-a-list"),
        ],
    )
    def test_an_unusable_value_is_named(self, config: dict[str, object], code: int, field: str) -> None:
        with pytest.raises(FactError) as caught:
            RecallOptions.from_config(config)
        assert (caught.value.code, caught.value.field) == (f"HARN-FACT-00{code}", field)

    def test_options_are_a_mapping(self) -> None:
        with pytest.raises(FactError, match="HARN-FACT-001: options must be a mapping"):
            RecallOptions.from_config(["max_facts"])  # type: ignore[arg-type]  # what a configuration file may hold

    def test_the_task_is_the_query_where_the_options_have_none(self) -> None:
        book = a_book(fact_fields("about the cache"), fact_fields("about the build"), fact_fields("about nothing"))
        asked = RecallOptions(query="cache", max_facts=1)
        assert claims(recall_for_task(book, asked, task="build")) == ["about the cache"]
        assert claims(recall_for_task(book, RecallOptions(max_facts=1), task="build")) == ["about the build"]
        assert claims(recall_for_task(book, RecallOptions(max_facts=1))) == ["about nothing"]
