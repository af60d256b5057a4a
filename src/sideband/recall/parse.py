"""Reading facts from outside: everything is checked, nothing is repaired, the first mistake is an error.

Null reads as absent. A time may be RFC 3339 text or an integer, milliseconds since the Unix epoch; finer fractions are
cut off.
"""

import calendar
import math
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Self, TypeVar

from sideband.core.errors import shown
from sideband.core.fields import HOSTILE
from sideband.recall.record import (
    FACT_SCHEMA,
    Evidence,
    EvidenceKind,
    Fact,
    FactCode,
    FactError,
    FactKind,
    ValidUntil,
    fact_id,
)

# Bounds of a JSON object inside a fact; a cycle, or lists that share lists, would otherwise never end.
MAX_DEPTH: Final = 16
MAX_VALUES: Final = 1_000
MAX_INTEGER: Final = 2**63 - 1
# From here on neighbouring integers share one float.
_EXACT_FLOATS: Final = 2**53

# First moment of the year 1, last of the year 9999: what RFC 3339 can write and the calendar knows.
FIRST_MOMENT: Final = -62_135_596_800_000
LAST_MOMENT: Final = 253_402_300_799_999

_RFC3339: Final = (
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
# Year, month, day, hour, minute, second (60 is a leap second), then hour and minute of the offset.
_PART_BOUNDS: Final = ((1, 9999), (1, 12), (1, 31), (0, 23), (0, 59), (0, 60), (0, 23), (0, 59))
# A longer name is cut when it is part of a field's.
_MAX_NAME: Final = 60

_FACT_FIELDS: Final = frozenset(Fact.__struct_fields__)
_EVIDENCE_FIELDS: Final = frozenset(Evidence.__struct_fields__)
_VALID_UNTIL_FIELDS: Final = frozenset(ValidUntil.__struct_fields__)

_Kind = TypeVar("_Kind", FactKind, EvidenceKind)


class Place(NamedTuple):
    """Where a value stands, and the code of a mistake there; the whole record has no field name."""

    code: FactCode
    field: str = ""

    def member(self, name: object) -> Self:
        known = isinstance(name, str) and name.isidentifier() and len(name) <= _MAX_NAME
        label = name if known else shown(name)
        return self._replace(field=f"{self.field}.{label}" if self.field else f"{label}")

    def item(self, index: int) -> Self:
        return self._replace(field=f"{self.field}[{index}]")

    def error(self, value: object, problem: str) -> FactError:
        return FactError(self.code, self.field or "fact", value, problem)


def _spellings(kinds: type[_Kind]) -> Mapping[str, _Kind]:
    """Each word, and the same without underscores: what CamelCase is in lower case."""
    return MappingProxyType({word: kind for kind in kinds for word in (kind.value, kind.value.replace("_", ""))})


_FACT_KINDS: Final = _spellings(FactKind)
_EVIDENCE_KINDS: Final = _spellings(EvidenceKind)


def parse_fact(fields: object, *, asserted_at: str | int | None = None) -> Fact:
    """The fact that the fields describe; `asserted_at` holds where they do not say when it was asserted.

    An id may be given only if it is the one that follows from the content.
    """
    record = Place(FactCode.RECORD)
    given = _members(fields, record, _FACT_FIELDS)
    if given.get("schema", FACT_SCHEMA) != FACT_SCHEMA:
        raise record.member("schema").error(given["schema"], f"must be {FACT_SCHEMA}")
    kind = parse_kind(given.get("kind"))
    claim = _text(given.get("claim"), Place(FactCode.CLAIM, "claim"))
    confidence = _confidence(given.get("confidence"))
    evidence = _evidence(given.get("evidence", ()))
    provenance = _json_object(given.get("provenance", {}), Place(FactCode.PROVENANCE, "provenance"))
    valid_until = _valid_until(given["valid_until"]) if "valid_until" in given else None
    moment = parse_moment(given.get("asserted_at", asserted_at), Place(FactCode.ASSERTED_AT, "asserted_at"))
    identity = fact_id(kind=kind, claim=claim, evidence=evidence, provenance=provenance)
    if given.get("id", identity) != identity:
        raise record.member("id").error(given["id"], f"must be left out, or be {identity} as the content demands")
    return Fact(
        schema=FACT_SCHEMA,
        id=identity,
        kind=kind,
        claim=claim,
        evidence=evidence,
        confidence=confidence,
        provenance=provenance,
        valid_until=valid_until,
        asserted_at=moment,
    )


def parse_kind(value: object, *, field: str = "kind") -> FactKind:
    """The kind that a word means, in any case."""
    return _word(value, Place(FactCode.KIND, field), _FACT_KINDS)


def parse_moment(value: object, place: Place) -> int:
    """Milliseconds since the Unix epoch."""
    moment = _from_rfc3339(value) if isinstance(value, str) else value
    if isinstance(moment, bool) or not isinstance(moment, int) or not FIRST_MOMENT <= moment <= LAST_MOMENT:
        raise place.error(value, "must be RFC 3339 text or milliseconds since 1970, within the years 1 to 9999")
    return moment


def parse_text(value: object, place: Place) -> str:
    """Text that a reminder could carry: what its body refuses is refused here, where it can still be mended."""
    if not isinstance(value, str):
        raise place.error(value, "must be text")
    if hostile := HOSTILE.search(value):
        raise place.error(value, f"must not contain the character U+{ord(hostile.group()):04X}")
    return value


def _confidence(value: object) -> float:
    # A bool is an int to Python, NaN fails both comparisons, and -0.0 passes them.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Place(FactCode.CONFIDENCE, "confidence").error(value, "must be a number from 0 to 1")
    return abs(float(value))


def _evidence(value: object) -> tuple[Evidence, ...]:
    place = Place(FactCode.EVIDENCE, "evidence")
    if not isinstance(value, list | tuple):
        raise place.error(value, "must be a list")
    return tuple(_evidence_item(item, place.item(index)) for index, item in enumerate(value))


def _evidence_item(value: object, place: Place) -> Evidence:
    given = _members(value, place, _EVIDENCE_FIELDS)
    snippet = parse_text(given.get("snippet", ""), place.member("snippet"))
    return Evidence(
        kind=_word(given.get("kind"), place.member("kind"), _EVIDENCE_KINDS),
        ref=_text(given.get("ref"), place.member("ref")),
        # Not trimmed: the indentation of an excerpt is part of it.
        snippet=snippet if snippet.strip() else None,
    )


def _valid_until(value: object) -> ValidUntil:
    place = Place(FactCode.VALID_UNTIL, "valid_until")
    given = _members(value, place, _VALID_UNTIL_FIELDS)
    event, where = given.get("event"), place.member("event")
    return ValidUntil(
        event=_json_object(event, where) if isinstance(event, Mapping) else _text(event, where),
        asserted_at=parse_moment(given.get("asserted_at"), place.member("asserted_at")),
    )


def _members(value: object, place: Place, known: frozenset[str]) -> dict[str, object]:
    """What is present of a record; a member it does not have is an error."""
    if not isinstance(value, Mapping):
        raise place.error(value, "must be a mapping")
    for name, entry in value.items():
        if name not in known:
            raise place.member(name).error(entry, f"is none of the fields {', '.join(sorted(known))}")
    return {name: entry for name, entry in value.items() if entry is not None}


def _text(value: object, place: Place) -> str:
    text = parse_text(value, place).strip()
    if not text:
        raise place.error(value, "must not be blank")
    return text


def _word(value: object, place: Place, words: Mapping[str, _Kind]) -> _Kind:
    kind = words.get(value.strip().lower().replace("-", "_")) if isinstance(value, str) else None
    if kind is None:
        raise place.error(value, f"must be one of {', '.join(dict.fromkeys(words.values()))}")
    return kind


def _json_object(value: object, place: Place) -> dict[str, object]:
    """A copy that shares nothing with the caller's mapping."""
    if not isinstance(value, Mapping):
        raise place.error(value, "must be a mapping")
    return _copied_members(value, place, 1, iter(range(MAX_VALUES)))


def _copied_members(value: Mapping[object, object], place: Place, depth: int, room: Iterator[int]) -> dict[str, object]:
    return {
        parse_text(name, place.member(name)): _copied(entry, place.member(name), depth + 1, room)
        for name, entry in value.items()
    }


def _copied(value: object, place: Place, depth: int, room: Iterator[int]) -> object:
    if depth > MAX_DEPTH or next(room, None) is None:
        raise place.error(value, f"goes beyond {MAX_VALUES} values or {MAX_DEPTH} levels")
    match value:
        case None | bool():
            return value
        case str():
            return parse_text(value, place)
        case int() if abs(value) <= MAX_INTEGER:
            return value
        case float() if math.isfinite(value):
            # 1 and 1.0 are one number in JSON, and must not make two facts.
            return int(value) if value.is_integer() and abs(value) < _EXACT_FLOATS else value
        case Mapping():
            return _copied_members(value, place, depth, room)
        case list() | tuple():
            return [_copied(entry, place.item(index), depth + 1, room) for index, entry in enumerate(value)]
        case _:
            raise place.error(value, "must be a JSON value, its numbers finite and its integers of 64 bits")


def _from_rfc3339(text: str) -> int | None:
    found = re.fullmatch(_RFC3339, text)
    if found is None:
        return None
    *digits, fraction, sign, offset_hour, offset_minute = found.groups(default="0")
    parts = [int(part) for part in (*digits, offset_hour, offset_minute)]
    if not all(low <= part <= high for part, (low, high) in zip(parts, _PART_BOUNDS, strict=True)):
        return None
    year, month, day, *_ = parts
    if day > calendar.monthrange(year, month)[1]:
        return None
    offset = parts[6] * 3600 + parts[7] * 60
    seconds = calendar.timegm(tuple(parts[:6])) - (-offset if sign == "-" else offset)
    return seconds * 1_000 + int(f"{fraction:0<3}"[:3])
