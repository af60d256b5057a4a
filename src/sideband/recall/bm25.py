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
    """One document that contains a word."""

    position: int
    times: int
    boost: float


class Bm25Index:
    """An immutable index: documents are prepared once and ranked for any number of queries."""

    __slots__ = ("_documents", "_penalties", "_postings")

    def __init__(self, documents: Iterable[SearchDocument]) -> None:
        """Raise `ValueError` for a repeated id: the order of two such documents would depend on the input order."""
        self._documents = tuple(documents)
        ids = Counter(document.id for document in self._documents)
        if repeated := [name for name, count in ids.items() if count > 1]:
            raise ValueError(f"document ids must be unique, {min(repeated)!r} is not")
        self._postings: dict[str, list[_Posting]] = {}
        lengths = [self._post(position, document) for position, document in enumerate(self._documents)]
        # If no document has a word there are no postings, and the average is not used.
        average = (sum(lengths) / len(lengths) if lengths else 0) or 1
        self._penalties = [K1 * (1 - B + B * length / average) for length in lengths]

    def _post(self, position: int, document: SearchDocument) -> int:
        """Add the words of a document to the index; return their number."""
        key = tokenise(document.key)
        tags = [token for tag in document.tags for token in tokenise(tag)]
        counts = Counter((*key, *tokenise(document.text), *tags, *tokenise(document.value)))
        in_key, in_tags = frozenset(key), frozenset(tags)
        for token, times in counts.items():
            boost = KEY_BOOST * (token in in_key) + TAG_BOOST * (token in in_tags)
            self._postings.setdefault(token, []).append(_Posting(position, times, boost))
        return counts.total()

    def rank(self, query: str) -> tuple[Ranked, ...]:
        """Every document, best first; equal scores newest first, then by id.

        A word counts once however often the query repeats it, and the order of the query's words has no effect.
        """
        scores = [0.0] * len(self._documents)
        # Sorted, because a sum of floats depends on the order of its terms.
        for token in sorted(set(tokenise(query))):
            postings = self._postings.get(token, ())
            rarity = self._rarity(len(postings))
            for position, times, boost in postings:
                scores[position] += rarity * times * (K1 + 1) / (times + self._penalties[position]) + boost
        return tuple(sorted(map(Ranked, self._documents, scores), key=_best_first))

    def _rarity(self, holders: int) -> float:
        """Inverse document frequency, smoothed so that a word in every document still counts a little."""
        return math.log1p((len(self._documents) - holders + 0.5) / (holders + 0.5))


def rank(documents: Iterable[SearchDocument], query: str) -> tuple[Ranked, ...]:
    """Every document, best first, for a set that is ranked only once."""
    return Bm25Index(documents).rank(query)


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
