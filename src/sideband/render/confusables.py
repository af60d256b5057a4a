"""What a text looks like: each character reduced to the ASCII that it can be taken for, to find imitations in it."""

import re
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# The characters of other scripts, and signs, that can be taken for a letter of our tags and lead lines or for a sign in
# them. In many fonts the letters i and l, the digit 1 and the vertical bar are the same stroke, so all are i. Everything
# that Unicode itself relates to an ASCII character (compatibility forms, letters with marks, small capitals, enclosed
# letters) is found by its decomposition or its name and is not listed.
_LOOKALIKES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "a": "\u0251\u0391\u03b1\u0410\u0430\u13aa\u15c5\u15e9\u237a\u2c6d\ua4ee\U000102a0",
        "c": "\u03f2\u03f9\u0421\u0441\u13df\u1455\u2ca4\ua4da\U00010302\U00010415",
        "d": "\u0500\u0501\u13a0\u13e7\u146f\u15de\u15ea\ua4d3",
        "e": "\u01dd\u0258\u0259\u04bc\u04bd\u0395\u03b5\u0404\u0415\u0435\u0454\u0510\u0511\u13ac\u15f4\u212e\u22ff\u2d39\ua4f0\U00010286",
        "h": "\u0397\u041d\u043d\u04ba\u04bb\u0570\u13bb\u13c2\u157c\u2c8e\ua4e7\U000102cf",
        "i": "Ll1|\u01c0\u2223\u23d0\u0627\u05c0\u0196\u0269\u0399\u03b9\u0406\u0456\u04c0\u04cf\u05d5\u13a5\u16c1\u2373\u2c92\ua4f2",
        "m": "\u039c\u03fa\u041c\u043c\u13b7\u15f0\u16d6\u2c98\ua4df\U00010311",
        "n": "\u039d\u03b7\u0418\u0438\u043f\u0578\u057c\u144e\u2c9a\ua4e0\U00010513",
        "o": "\u039f\u03bf\u03c3\u041e\u043e\u0555\u0585\u05e1\u0966\u0d20\u101d\u15dd\u2c9e\u2d54\u3007\ua4f3\U00010404",
        "p": "\u03a1\u03c1\u0420\u0440\u13e2\u146d\u2374\u2ca2\ua4d1\U00010295",
        "r": "\u0490\u0491\u042f\u0433\u044f\u13a1\u13d2\u1587\u1d26\u2c85\ua4e3\U000104b4",
        "s": "\u01a7\u01a8\u0405\u0455\u054f\u13d5\u13da\u1515\ua4e2\U00010296\U00010420",
        "t": "\u03a4\u03c4\u0422\u0442\u13a2\u22a4\u27d9\u2ca6\ua4d4\U00010297",
        "u": "\u03bc\u03c5\u054d\u057d\u1200\u144c\u222a\u22c3\ua4f4\U000104ce",
        "v": "\u03bd\u0474\u0475\u05d8\u0667\u13d9\u142f\u2228\u22c1\u2d38\ua4e6",
        "w": "\u026f\u03c9\u0428\u0448\u0460\u0461\u051c\u051d\u0561\u13b3\u13d4\u15ef\ua4ea",
        "y": "\u0263\u03a5\u03b3\u0423\u0443\u04ae\u04af\u10e7\u13a9\u13bd\u15bb\u2ca8\ua4ec",
        "<": "\u2264\u25c1\u25c2\u2991\u2993\u2a7d\u2aa1\u2abb\u2af7\u2b9c\u304f\u3111\xab\u02c2\u1438\u16b2\u2039\u226a\u227a\u22d6\u22d8\u276c\u276e\u2770\u27e8\u27ea\u29fc\u3008\u300a\U0001d236",
        "/": "\\\u29f5\u29f9\u1735\u2044\u2215\u2571\u27cb\u29f8\u2cc6\u30ce\u4e3f",
        "-": "_\xaf\xb7\u02c9\u1173\u2027\u203e\u2053\u23bc\u2501\u25ac\u3161\uffda\u02d7\u06d4\u2043\u2212\u23af\u2500\u2796\u2cba\u30fc\u4e00",
        ":": "\u02d0\u02f8\u0589\u05c3\u0703\u0704\u0903\u0a83\u16ec\u1803\u1809\u205a\u2236\u2982\ua4fd\ua789",
        "\n": "\n\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029",
        " ": "\t",
    }
)
# The categories of symbols and of numbers that are no digits: a line may be decorated with one, whatever it looks like.
_DRAWN: Final = frozenset({"Lm", "Nl", "No", "Sc", "Sk", "Sm", "So"})
# Letters for Unicode, and used as symbols.
_ALSO_DRAWN: Final = frozenset("\xaa\xba\u2139")
# Neither controls nor marks, and drawn as nothing.
_BLANK: Final = frozenset("\u115f\u1160\u2800\ufffc\U0001d159")
# Marks that change nothing, and compatibility forms of blank characters.
_HIDDEN: Final = re.compile("[\u034f\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
# The letter in names like FULLWIDTH LATIN SMALL LETTER S, LATIN LETTER SMALL CAPITAL S, LATIN SMALL LETTER S WITH HOOK
# and NEGATIVE CIRCLED LATIN CAPITAL LETTER S.
_NAMED: Final = re.compile(
    r"\b(?:LATIN|INDICATOR)\b.* LETTER (?:SMALL CAPITAL |INSULAR |DOTLESS |OPEN )?([A-Z])(?: WITH .+)?$"
)
# Characters that are not ASCII, and short pieces of ASCII between them.
_FOREIGN: Final = re.compile(r"([^\x00-\x7f](?:[\x00-\x7f]{0,32}+[^\x00-\x7f]+)*+)")
_DIGITS: Final = re.compile("[0-9]")
# Normal text has far fewer different characters; this bounds the memory that a hostile one can take.
_MAX_KNOWN: Final = 65_536


class _Outlines(dict[int, str | None]):
    """The outline of each code point that has been looked up; None if it is invisible. For `str.translate`."""

    def __missing__(self, code: int) -> str | None:
        if len(self) >= _MAX_KNOWN:
            self.clear()
        outlined = self[code] = _outline(chr(code)) or None
        return outlined


def outline(text: str) -> str:
    """The text as it looks, in ASCII where possible: letters are small, and symbols that look like a letter are capitals.

    Invisible characters are gone, and each line break is one newline. All other characters stay.
    """
    if text.isascii():
        return text.translate(_OUTLINES)
    # Translating ASCII alone is ten times as fast, so the long parts of it are translated on their own.
    return "".join([part.translate(_OUTLINES) for part in _FOREIGN.split(text)])


def fold(text: str) -> str:
    """The outline in small letters."""
    return outline(text).lower()


def is_hidden(letter: str) -> bool:
    """Whether a character is drawn as nothing; most marks are not, since they change the letter before them."""
    return letter in _BLANK or unicodedata.category(letter)[0] == "C" or _HIDDEN.match(letter) is not None


def _outline(letter: str) -> str:
    folded = _fold(letter)
    if folded == letter or (unicodedata.category(letter) not in _DRAWN and letter not in _ALSO_DRAWN):
        return folded
    return _DIGITS.sub("#", folded.upper()) if folded.isascii() else folded


def _fold(letter: str) -> str:
    known = _ALIKE.get(letter)
    if known is not None:
        return known
    category = unicodedata.category(letter)
    if category[0] in "CM" or letter in _BLANK:
        return ""
    if category[0] == "Z":
        return " "
    if category == "Pd":
        return "-"
    named = _NAMED.search(unicodedata.name(letter, ""))
    if named is not None:
        return _ALIKE.get(named[1], named[1].lower())
    parts = unicodedata.normalize("NFKD", letter)
    folded = letter.lower() if parts == letter else "".join(map(_fold, parts))
    # A character without an ASCII look-alike is kept.
    return letter if folded and not any(map(str.isascii, folded)) else folded


_ALIKE: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Capitals and small letters mostly look alike; where they do not, both are listed.
        **{letter.lower(): target for target, letters in _LOOKALIKES.items() for letter in letters},
        **{letter: target for target, letters in _LOOKALIKES.items() for letter in letters},
    }
)
_OUTLINES: Final = _Outlines()
