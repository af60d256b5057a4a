"""One fact, schema `harn.fact.v1`: the record, its validation, its id and its JSON form.

Times in a record are integers in milliseconds since the Unix epoch; in JSON they are RFC 3339 text.
"""

import calendar
import math
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple, NewType, Self, TypeVar

import msgspec

from sideband.core.errors import shown
from sideband.core.parse import HOSTILE

FactId = NewType("FactId", str)

FACT_SCHEMA: Final = "harn.fact.v1"

_ID_DIGITS: Final = 32
_MS_PER_SECOND: Final = 1_000
_SECONDS_PER_DAY: Final = 86_400
# The Gregorian calendar repeats after 400 years.
_ERA_YEARS: Final = 400
_ERA_DAYS: Final = 146_097


class FactCode(StrEnum):
    """One code for each kind of mistake."""

    RECORD = "HARN-FACT-001"
    KIND = "HARN-FACT-002"
    CLAIM = "HARN-FACT-003"
    CONFIDENCE = "HARN-FACT-004"
    EVIDENCE = "HARN-FACT-005"
    PROVENANCE = "HARN-FACT-006"
    VALID_UNTIL = "HARN-FACT-007"
    SELECTION = "HARN-FACT-008"
    ASSERTED_AT = "HARN-FACT-009"


FACT_CODES: Final[Mapping[FactCode, str]] = MappingProxyType(
    {
        FactCode.RECORD: "Not a record of schema harn.fact.v1, or options that are not a mapping",
        FactCode.KIND: "Unknown kind of fact",
        FactCode.CLAIM: "A claim that is missing, blank or not text",
        FactCode.CONFIDENCE: "A confidence that is not a number from 0 to 1",
        FactCode.EVIDENCE: "Malformed evidence",
        FactCode.PROVENANCE: "A provenance that is not a plain JSON object",
        FactCode.VALID_UNTIL: "Malformed end of validity",
        FactCode.SELECTION: "An invalid option for the selection of facts",
        FactCode.ASSERTED_AT: "A time of assertion that is missing or invalid",
    }
)


class FactError(ValueError):
    """An invalid fact, or an invalid option of recall; nothing was stored."""

    def __init__(self, code: FactCode, field: str, value: object, problem: str) -> None:
        # Pass all four to the base class, so that the exception can be copied and pickled.
        super().__init__(code, field, value, problem)
        self.code = code
        self.field = field
        self.value = value
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.code}: {self.field} {self.problem}, got {shown(self.value)}"


class FactKind(StrEnum):
    """The kind of statement a fact makes."""

    OBSERVATION = "observation"
    CLAIM = "claim"
    HYPOTHESIS = "hypothesis"
    DECISION = "decision"
    CONSTRAINT = "constraint"


class EvidenceKind(StrEnum):
    """Where a piece of evidence comes from."""

    TRACE_REF = "trace_ref"
    FILE_RANGE = "file_range"
    TOOL_OUTPUT = "tool_output"
    USER_INPUT = "user_input"


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Evidence for a fact; `snippet=None` if only the reference is known."""

    kind: EvidenceKind
    ref: str
    snippet: str | None = None


class ValidUntil(msgspec.Struct, frozen=True, kw_only=True):
    """The event that ends the validity of a fact, and when that was stated. The caller tracks whether it happened."""

    event: str | Mapping[str, object]
    asserted_at: int


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stored statement with its evidence; `valid_until=None` means that no event ends its validity."""

    schema: str
    id: FactId
    kind: FactKind
    claim: str
    evidence: tuple[Evidence, ...]
    confidence: float
    provenance: Mapping[str, object]
    valid_until: ValidUntil | None = None
    asserted_at: int


def fact_id(*, kind: FactKind, claim: str, evidence: tuple[Evidence, ...], provenance: Mapping[str, object]) -> FactId:
    """The id of a fact, a digest of its content without confidence, validity and time."""
    content = {
        "kind": kind.value,
        "claim": claim,
        "evidence": msgspec.to_builtins(evidence),
        "provenance": provenance,
    }
    import json  # noqa: PLC0415 - needed only when a fact is stored

    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return FactId("fact_" + sha256(canonical.encode("utf-8")).hexdigest()[:_ID_DIGITS])


def fact_key(fact: Fact) -> str:
    """The key under which a fact is stored."""
    return f"fact:{fact.kind.value}:{fact.id}"


def fact_document(fact: Fact) -> dict[str, object]:
    """The fact as a JSON object, from which `parse_fact` makes an equal fact."""
    document: dict[str, object] = msgspec.to_builtins(fact)
    document["evidence"] = [msgspec.to_builtins(item) for item in fact.evidence]
    document["asserted_at"] = _rfc3339(fact.asserted_at)
    if fact.valid_until is not None:
        document["valid_until"] = {
            "event": msgspec.to_builtins(fact.valid_until.event),
            "asserted_at": _rfc3339(fact.valid_until.asserted_at),
        }
    return document


def _rfc3339(moment: int) -> str:
    """A time of the years 1 to 9999 as text, in UTC."""
    seconds, milliseconds = divmod(moment, _MS_PER_SECOND)
    days, second = divmod(seconds, _SECONDS_PER_DAY)
    year = 1970 + days * _ERA_YEARS // _ERA_DAYS
    year += (days >= _days_until(year + 1)) - (days < _days_until(year))
    month = max(month for month in range(1, 13) if _days_until(year, month) <= days)
    day = days - _days_until(year, month) + 1
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{milliseconds:03}"
    return f"{year:04}-{month:02}-{day:02}T{clock}Z"


def _days_until(year: int, month: int = 1) -> int:
    """Days from the epoch to the first of a month; negative before it."""
    months = sum(calendar.monthrange(year, earlier)[1] for earlier in range(1, month))
    return (year - 1970) * 365 + calendar.leapdays(1970, year) + months


# Bounds of a JSON object inside a fact; without them a cyclic object would never end.
MAX_DEPTH: Final = 16
MAX_VALUES: Final = 1_000
MAX_INTEGER: Final = 2**63 - 1
# From here on floats do not represent every integer.
_EXACT_FLOATS: Final = 2**53

# The first moment of the year 1 and the last of the year 9999: the range of RFC 3339.
FIRST_MOMENT: Final = -62_135_596_800_000
LAST_MOMENT: Final = 253_402_300_799_999

_RFC3339: Final = (
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
# Year, month, day, hour, minute, second (60 is a leap second), then hour and minute of the offset.
_PART_BOUNDS: Final = ((1, 9999), (1, 12), (1, 31), (0, 23), (0, 59), (0, 60), (0, 23), (0, 59))
# A longer name is shortened in the name of a field.
_MAX_NAME: Final = 60

_FACT_FIELDS: Final = frozenset(Fact.__struct_fields__)
_EVIDENCE_FIELDS: Final = frozenset(Evidence.__struct_fields__)
_VALID_UNTIL_FIELDS: Final = frozenset(ValidUntil.__struct_fields__)

_Kind = TypeVar("_Kind", FactKind, EvidenceKind)


class FieldPath(NamedTuple):
    """The path of a value, and the code of an error there; the path of the whole record is empty."""

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
    """Each word with and without underscores, so that CamelCase in lower case is found as well."""
    return MappingProxyType({word: kind for kind in kinds for word in (kind.value, kind.value.replace("_", ""))})


_FACT_KINDS: Final = _spellings(FactKind)
_EVIDENCE_KINDS: Final = _spellings(EvidenceKind)


def parse_fact(fields: object, *, asserted_at: str | int | None = None) -> Fact:
    """The fact that the fields describe; `asserted_at` is used if the fields contain no time of assertion.

    Every field is validated and none is repaired: the first invalid one raises `FactError`. Null counts as absent. A
    time is RFC 3339 text or an integer in milliseconds since the Unix epoch; finer fractions are cut off. If an id is
    given it must be the one that follows from the content.
    """
    record = FieldPath(FactCode.RECORD)
    given = _members(fields, record, _FACT_FIELDS)
    if given.get("schema", FACT_SCHEMA) != FACT_SCHEMA:
        raise record.member("schema").error(given["schema"], f"must be {FACT_SCHEMA}")
    kind = parse_kind(given.get("kind"))
    claim = _text(given.get("claim"), FieldPath(FactCode.CLAIM, "claim"))
    confidence = _confidence(given.get("confidence"))
    evidence = _evidence(given.get("evidence", ()))
    provenance = _json_object(given.get("provenance", {}), FieldPath(FactCode.PROVENANCE, "provenance"))
    valid_until = _valid_until(given["valid_until"]) if "valid_until" in given else None
    moment = parse_moment(given.get("asserted_at", asserted_at), FieldPath(FactCode.ASSERTED_AT, "asserted_at"))
    identity = fact_id(kind=kind, claim=claim, evidence=evidence, provenance=provenance)
    if given.get("id", identity) != identity:
        raise record.member("id").error(
            given["id"], f"must be omitted, or be {identity}, which follows from the content"
        )
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
    """The kind that a word names, in upper or lower case."""
    return _word(value, FieldPath(FactCode.KIND, field), _FACT_KINDS)


def parse_moment(value: object, place: FieldPath) -> int:
    """A time as milliseconds since the Unix epoch."""
    moment = _from_rfc3339(value) if isinstance(value, str) else value
    if isinstance(moment, bool) or not isinstance(moment, int) or not FIRST_MOMENT <= moment <= LAST_MOMENT:
        raise place.error(value, "must be RFC 3339 text or milliseconds since 1970, within the years 1 to 9999")
    return moment


def parse_text(value: object, place: FieldPath) -> str:
    """Text without the characters that a reminder body refuses, so that the author of the fact gets the error."""
    if not isinstance(value, str):
        raise place.error(value, "must be text")
    if hostile := HOSTILE.search(value):
        raise place.error(value, f"must not contain the character U+{ord(hostile.group()):04X}")
    return value


def _confidence(value: object) -> float:
    # A bool is an int in Python, NaN fails both comparisons, and -0.0 passes them.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise FieldPath(FactCode.CONFIDENCE, "confidence").error(value, "must be a number from 0 to 1")
    return abs(float(value))


def _evidence(value: object) -> tuple[Evidence, ...]:
    place = FieldPath(FactCode.EVIDENCE, "evidence")
    if not isinstance(value, list | tuple):
        raise place.error(value, "must be a list")
    return tuple(_evidence_item(item, place.item(index)) for index, item in enumerate(value))


def _evidence_item(value: object, place: FieldPath) -> Evidence:
    given = _members(value, place, _EVIDENCE_FIELDS)
    snippet = parse_text(given.get("snippet", ""), place.member("snippet"))
    return Evidence(
        kind=_word(given.get("kind"), place.member("kind"), _EVIDENCE_KINDS),
        ref=_text(given.get("ref"), place.member("ref")),
        # Not stripped: the indentation of an excerpt matters.
        snippet=snippet if snippet.strip() else None,
    )


def _valid_until(value: object) -> ValidUntil:
    place = FieldPath(FactCode.VALID_UNTIL, "valid_until")
    given = _members(value, place, _VALID_UNTIL_FIELDS)
    event, where = given.get("event"), place.member("event")
    return ValidUntil(
        event=_json_object(event, where) if isinstance(event, Mapping) else _text(event, where),
        asserted_at=parse_moment(given.get("asserted_at"), place.member("asserted_at")),
    )


def _members(value: object, place: FieldPath, known: frozenset[str]) -> dict[str, object]:
    """The fields of a record that are present; an unknown field is an error."""
    if not isinstance(value, Mapping):
        raise place.error(value, "must be a mapping")
    for name, entry in value.items():
        if name not in known:
            raise place.member(name).error(entry, f"is unknown; the fields are {', '.join(sorted(known))}")
    return {name: entry for name, entry in value.items() if entry is not None}


def _text(value: object, place: FieldPath) -> str:
    text = parse_text(value, place).strip()
    if not text:
        raise place.error(value, "must not be blank")
    return text


def _word(value: object, place: FieldPath, words: Mapping[str, _Kind]) -> _Kind:
    kind = words.get(value.strip().lower().replace("-", "_")) if isinstance(value, str) else None
    if kind is None:
        raise place.error(value, f"must be one of {', '.join(dict.fromkeys(words.values()))}")
    return kind


def _json_object(value: object, place: FieldPath) -> dict[str, object]:
    """A deep copy, which shares nothing with the caller's mapping."""
    if not isinstance(value, Mapping):
        raise place.error(value, "must be a mapping")
    return _copied_members(value, place, 1, iter(range(MAX_VALUES)))


def _copied_members(
    value: Mapping[object, object], place: FieldPath, depth: int, room: Iterator[int]
) -> dict[str, object]:
    return {
        parse_text(name, place.member(name)): _copied(entry, place.member(name), depth + 1, room)
        for name, entry in value.items()
    }


def _copied(value: object, place: FieldPath, depth: int, room: Iterator[int]) -> object:
    if depth > MAX_DEPTH or next(room, None) is None:
        raise place.error(value, f"must have at most {MAX_VALUES} values and {MAX_DEPTH} levels")
    match value:
        case None | bool():
            return value
        case str():
            return parse_text(value, place)
        case int() if abs(value) <= MAX_INTEGER:
            return value
        case float() if math.isfinite(value):
            # 1 and 1.0 are the same number in JSON, and must not make two facts.
            return int(value) if value.is_integer() and abs(value) < _EXACT_FLOATS else value
        case Mapping():
            return _copied_members(value, place, depth, room)
        case list() | tuple():
            return [_copied(entry, place.item(index), depth + 1, room) for index, entry in enumerate(value)]
        case _:
            raise place.error(value, "must be a JSON value with finite numbers and 64-bit integers")


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
