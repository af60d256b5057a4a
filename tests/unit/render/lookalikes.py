"""Spellings of our own framing, generated from the Unicode data: what a forger can write for each letter and sign."""

import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from sys import maxunicode
from typing import Final

from sideband.render.confusables import _LOOKALIKES
from sideband.render.escape import Frame, Lead

OURS: Final = frozenset("".join((*Frame, *Lead)).lower()) - {" ", "-"}
"""The letters of our tags and lead lines."""
# The property Default_Ignorable_Code_Point of Unicode, which Python's data lacks.
DEFAULT_IGNORABLE: Final = (
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0),
    *range(0x180B, 0x1810),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0xFFF0, 0xFFF9),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
)
# Drawn as nothing, though Unicode does not say so.
BLANK: Final = (0x2800, 0x1D159, 0xFFFC)
LINE_BREAKS: Final = "\n\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029"


@cache
def spellings() -> Mapping[str, frozenset[str]]:
    """For each ASCII character, all characters that Unicode or our own table relates to it."""
    found: dict[str, set[str]] = defaultdict(set)
    for letter in map(chr, range(0x80, maxunicode + 1)):
        composed = unicodedata.normalize("NFKC", letter).lower()
        if len(composed) == 1 and composed.isascii():
            found[composed].add(letter)
        # Letters with marks: what is left of their decomposition is one ASCII letter.
        base = [part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part)]
        if len(base) == 1 and base[0].isascii():
            found[base[0].lower()].add(letter)
    for target, letters in _LOOKALIKES.items():
        # Unicode relates an overline to a blank, for example, and it looks like a hyphen.
        for alike in found.values():
            alike.difference_update(letters)
        found[target].update(letters)
    return {target: frozenset(letters) for target, letters in found.items()}


@cache
def invisible() -> tuple[str, ...]:
    """All characters that are drawn as nothing."""
    controls = (letter for letter in map(chr, range(maxunicode + 1)) if unicodedata.category(letter) in ("Cc", "Cf"))
    listed = map(chr, (*DEFAULT_IGNORABLE, *BLANK))
    return tuple(dict.fromkeys(letter for letter in (*controls, *listed) if letter not in f"\t{LINE_BREAKS}"))
