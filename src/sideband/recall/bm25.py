"""BM25 ranking of small sets of documents, with a bonus for words in keys and tags."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple
from unicodedata import category

import msgspec

# The BM25 parameters: term saturation, and length normalisation.
K1: Final = 1.2
B: Final = 0.75
# Added per query word that occurs in the key or the tags, on top of its BM25 score.
KEY_BOOST: Final = 0.4
TAG_BOOST: Final = 0.25

_ASCII_RUN: Final = re.compile(r"[a-z0-9]{2,}")
# Matched against the outline of a text, in which every character is replaced by its class.
_RUN: Final = re.compile("a[am]+")
# Vowel signs and accents follow their letter; as separators they would split the words of whole scripts.
_MARKS: Final = frozenset({"Mn", "Mc"})


class SearchDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document to rank; `recorded_at` is in milliseconds since the Unix epoch, `value` is the stored value as text."""

    id: str
    recorded_at: int
    key: str = ""
    text: str = ""
    tags: tuple[str, ...] = ()
    value: str = ""


class Ranked(NamedTuple):
    """A document and its score; 0 means that it shares no word with the query."""

    document: SearchDocument
    score: float


class _Posting(NamedTuple):
    """One document that contains a word of the query."""

    position: int
    times: int
    boost: float


def rank(documents: Iterable[SearchDocument], query: str) -> tuple[Ranked, ...]:
    """Every document, best first; equal scores newest first, then by id.

    A word counts once however often the query repeats it, and the order of the query's words has no effect. Raise
    `ValueError` for a repeated id: the order of two such documents would depend on the input order.
    """
    found = tuple(documents)
    ids = Counter(document.id for document in found)
    if repeated := [name for name, count in ids.items() if count > 1]:
        raise ValueError(f"document ids must be unique, {min(repeated)!r} is not")
    # Sorted, because a sum of floats depends on the order of its terms.
    postings: dict[str, list[_Posting]] = {word: [] for word in sorted(set(tokenise(query)))}
    lengths = [_post(position, document, postings) for position, document in enumerate(found)]
    # If no document has a word there are no postings, and the average is not used.
    average = (sum(lengths) / len(lengths) if lengths else 0) or 1
    scores = [0.0] * len(found)
    for holders in postings.values():
        # Inverse document frequency, smoothed so that a word in every document still counts a little.
        rarity = math.log1p((len(found) - len(holders) + 0.5) / (len(holders) + 0.5))
        for position, times, boost in holders:
            penalty = K1 * (1 - B + B * lengths[position] / average)
            scores[position] += rarity * times * (K1 + 1) / (times + penalty) + boost
    return tuple(sorted(map(Ranked, found, scores), key=_best_first))


def _post(position: int, document: SearchDocument, postings: dict[str, list[_Posting]]) -> int:
    """Add a document to the postings of the words that it contains; return the number of its words."""
    key, tags = tokenise(document.key), tokenise(" ".join(document.tags))
    words = [*key, *tokenise(document.text), *tags, *tokenise(document.value)]
    for word in postings.keys() & words:
        boost = KEY_BOOST * (word in key) + TAG_BOOST * (word in tags)
        postings[word].append(_Posting(position, words.count(word), boost))
    return len(words)


def tokenise(text: str) -> list[str]:
    """The words of a text in lower case, in order: runs of at least two letters or digits.

    Combining marks belong to the letter they follow. Text of a script without spaces is one long word.
    """
    if text.isascii():
        return _ASCII_RUN.findall(text.lower())
    outline = "".join(map(_class_of, text))
    return [text[run.start() : run.end()].lower() for run in _RUN.finditer(outline)]


def _class_of(char: str) -> str:
    """`a` for letters and digits, `m` for marks, a space for everything else."""
    if char.isalnum():
        return "a"
    return "m" if category(char) in _MARKS else " "


def _best_first(ranked: Ranked) -> tuple[float, int, str]:
    return -ranked.score, -ranked.document.recorded_at, ranked.document.id
