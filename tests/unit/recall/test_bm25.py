"""Ranking documents by the words they share with a query."""

import math
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sideband.recall.bm25 import K1, KEY_BOOST, TAG_BOOST, B, SearchDocument, rank, tokenise

WORDS = ("login", "build", "cache", "tests", "sigint", "überall")


def a_document(
    name: str = "d", *, at: int = 0, key: str = "", text: str = "", tags: tuple[str, ...] = (), value: str = ""
) -> SearchDocument:
    return SearchDocument(id=name, recorded_at=at, key=key, text=text, tags=tags, value=value)


def order_of(documents: list[SearchDocument], query: str) -> list[str]:
    return [document.id for document, _ in rank(documents, query)]


def score_of(document: SearchDocument, query: str) -> float:
    return rank([document], query)[0].score


sentences = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
documents = st.builds(
    SearchDocument,
    id=st.text(string.ascii_lowercase, min_size=1, max_size=3),
    recorded_at=st.integers(0, 3),
    key=sentences,
    text=sentences,
    tags=st.lists(sentences, max_size=2).map(tuple),
    value=sentences,
)
collections = st.lists(documents, max_size=6, unique_by=lambda document: document.id)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("Fix the LOGIN bug", ["fix", "the", "login", "bug"], id="words-are-lower-cased"),
        pytest.param("a b cc", ["cc"], id="a-single-character-is-no-word"),
        pytest.param("snake_case kebab-case", ["snake", "case", "kebab", "case"], id="punctuation-separates"),
        pytest.param("src/auth.py:12", ["src", "auth", "py", "12"], id="paths-fall-into-their-parts"),
        pytest.param("again again", ["again", "again"], id="repetitions-are-kept"),
        pytest.param("", [], id="nothing-has-no-words"),
        pytest.param("Größe ÉTÉ", ["größe", "été"], id="letters-of-any-alphabet"),
        pytest.param("ΟΔΟΣ", ["οδος"], id="a-final-sigma-is-lower-cased-as-such"),
        pytest.param("cafe\u0301", ["cafe\u0301"], id="an-accent-stays-with-its-letter"),
        pytest.param("\u0301cafe", ["cafe"], id="an-accent-without-a-letter-starts-no-word"),
        pytest.param("भाषा", ["भाषा"], id="vowel-signs-stay-with-their-letter"),
        pytest.param("❤\ufe0fred", ["red"], id="the-selector-of-an-emoji-is-not-part-of-the-next-word"),
        pytest.param("٣٤ x²", ["٣٤", "x²"], id="digits-of-any-script"),
        pytest.param("日本語", ["日本語"], id="a-script-without-spaces-is-one-run"),
        pytest.param("\ud800ab\x00cd", ["ab", "cd"], id="lone-surrogates-and-controls-separate"),
    ],
)
def test_a_text_falls_into_its_words(text: str, tokens: list[str]) -> None:
    assert tokenise(text) == tokens


@given(st.text(string.printable))
def test_text_is_read_the_same_with_and_without_other_alphabets_around(text: str) -> None:
    assert tokenise(f"{text} éé") == [*tokenise(text), "éé"]


@given(st.text())
def test_words_are_longer_than_one_character_and_start_with_a_letter_or_digit(text: str) -> None:
    assert all(len(token) > 1 and token[0].isalnum() for token in tokenise(text))


def test_the_constants_are_the_agreed_ones() -> None:
    assert (K1, B, KEY_BOOST, TAG_BOOST) == (1.2, 0.75, 0.4, 0.25)


@pytest.mark.parametrize(
    ("document", "boost"),
    [
        pytest.param(a_document(text="login"), 0.0, id="the-text-has-none"),
        pytest.param(a_document(value="login"), 0.0, id="the-value-has-none"),
        pytest.param(a_document(key="login"), 0.4, id="the-key"),
        pytest.param(a_document(tags=("login",)), 0.25, id="a-tag"),
    ],
)
def test_a_word_is_found_in_every_field_and_boosted_in_some(document: SearchDocument, boost: float) -> None:
    plain = math.log(1 + 0.5 / 1.5)
    assert score_of(document, "login") == pytest.approx(plain + boost)


def test_a_word_in_key_and_tags_gets_both_boosts_once() -> None:
    document = a_document(key="login login", tags=("login", "login-form"), text="cache")
    bare = a_document(text="login login login login form cache")
    assert score_of(document, "login login") == pytest.approx(score_of(bare, "login") + 0.4 + 0.25)


def test_each_word_of_the_query_earns_its_own_boost() -> None:
    document = a_document(key="login cache")
    bare = a_document(text="login cache")
    assert score_of(document, "login cache") == pytest.approx(score_of(bare, "login cache") + 0.8)


def test_a_rare_word_outweighs_a_common_one() -> None:
    common = [a_document(f"common-{index}", text="build notes") for index in range(3)]
    assert order_of([*common, a_document("rare", text="sigint notes")], "build sigint")[0] == "rare"


def test_a_short_document_outranks_a_long_one_with_the_same_word() -> None:
    long = a_document("long", text="login form posts its token to the server", at=9)
    assert order_of([long, a_document("short", text="login form")], "login") == ["short", "long"]


@pytest.mark.parametrize(
    ("rows", "order"),
    [
        pytest.param([("a", 1), ("b", 3), ("c", 2)], ["b", "c", "a"], id="newest-first"),
        pytest.param([("c", 1), ("a", 1), ("b", 1)], ["a", "b", "c"], id="of-one-moment-by-id"),
        pytest.param([("a", -5), ("b", 0)], ["b", "a"], id="before-the-epoch-is-older"),
    ],
)
@pytest.mark.parametrize("query", ["login", "nothing shared", "", "?!"])
def test_equal_scores_rank_by_recency_then_by_id(rows: list[tuple[str, int]], order: list[str], query: str) -> None:
    assert order_of([a_document(name, at=at, text="login") for name, at in rows], query) == order


def test_what_shares_no_word_follows_with_score_zero() -> None:
    ranked = rank([a_document("new", at=9, text="cache"), a_document("old", text="login")], "login")
    assert [(document.id, score > 0) for document, score in ranked] == [("old", True), ("new", False)]
    assert ranked[1].score == 0


def test_an_empty_collection_ranks_nothing() -> None:
    assert rank([], "login") == ()


def test_documents_without_a_word_are_ranked_by_recency() -> None:
    assert order_of([a_document("a"), a_document("b", at=1, text="? !")], "login") == ["b", "a"]


def test_a_repeated_id_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'twice'"):
        rank([a_document("twice"), a_document("once"), a_document("twice", at=1)], "login")


@given(collections, sentences)
def test_every_document_is_ranked_once_and_no_score_is_negative(found: list[SearchDocument], query: str) -> None:
    ranked = rank(found, query)
    assert sorted(document.id for document, _ in ranked) == sorted(document.id for document in found)
    assert all(score >= 0 for _, score in ranked)


@given(collections, sentences)
def test_a_score_is_zero_exactly_when_no_word_is_shared(found: list[SearchDocument], query: str) -> None:
    asked = set(tokenise(query))
    for document, score in rank(found, query):
        words = tokenise(" ".join((document.key, document.text, *document.tags, document.value)))
        assert (score > 0) == bool(asked & set(words))


@given(collections.flatmap(lambda found: st.tuples(st.just(found), st.permutations(found))), sentences)
def test_the_order_of_the_documents_has_no_effect(
    both: tuple[list[SearchDocument], list[SearchDocument]], query: str
) -> None:
    found, shuffled = both
    assert rank(found, query) == rank(shuffled, query)


@given(collections, st.lists(st.sampled_from(WORDS)).flatmap(lambda q: st.tuples(st.just(q), st.permutations(q))))
def test_order_and_repetition_of_the_query_have_no_effect(
    found: list[SearchDocument], queries: tuple[list[str], list[str]]
) -> None:
    query, shuffled = queries
    assert rank(found, " ".join(query)) == rank(found, " ".join(shuffled * 2).upper())


@given(documents, documents, sentences, st.integers(0, 3))
def test_a_third_document_never_reorders_two_that_tie(
    twin: SearchDocument, third: SearchDocument, query: str, at: int
) -> None:
    other = SearchDocument(
        id=f"{twin.id}-other", recorded_at=at, key=twin.key, text=twin.text, tags=twin.tags, value=twin.value
    )
    assume(third.id != twin.id)
    apart = [name for name in order_of([twin, other, third], query) if name != third.id]
    assert apart == order_of([twin, other], query)
