"""The record of one fact, schema `harn.fact.v1`, and the error of the facts.

Times in a record are integers, milliseconds since the Unix epoch; in a document they are RFC 3339 text.
"""

import calendar
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NewType

import msgspec

from sideband.core.errors import shown

FactId = NewType("FactId", str)

FACT_SCHEMA: Final = "harn.fact.v1"

_ID_DIGITS: Final = 32
_MS_PER_SECOND: Final = 1_000
_SECONDS_PER_DAY: Final = 86_400
# The Gregorian calendar repeats itself after so many years, which are so many days.
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
        FactCode.RECORD: "Not a record of schema harn.fact.v1, or options that are no mapping",
        FactCode.KIND: "Unknown kind of fact",
        FactCode.CLAIM: "A claim that is missing or is no readable text",
        FactCode.CONFIDENCE: "A confidence that is no number from 0 to 1",
        FactCode.EVIDENCE: "Malformed evidence",
        FactCode.PROVENANCE: "A provenance that is no plain JSON object",
        FactCode.VALID_UNTIL: "Malformed end of validity",
        FactCode.SELECTION: "Unusable choice of facts",
        FactCode.ASSERTED_AT: "A time of assertion that is missing or cannot be read",
    }
)


class FactError(ValueError):
    """A fact, or an option of recall, that cannot be used; nothing was stored."""

    def __init__(self, code: FactCode, field: str, value: object, problem: str) -> None:
        # All four are arguments of the exception, so that it can be copied and pickled.
        super().__init__(code, field, value, problem)
        self.code = code
        self.field = field
        self.value = value
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.code}: {self.field} {self.problem}, got {shown(self.value)}"


class FactKind(StrEnum):
    """What sort of statement a fact is."""

    OBSERVATION = "observation"
    CLAIM = "claim"
    HYPOTHESIS = "hypothesis"
    DECISION = "decision"
    CONSTRAINT = "constraint"


class EvidenceKind(StrEnum):
    """Where a piece of evidence is found."""

    TRACE_REF = "trace_ref"
    FILE_RANGE = "file_range"
    TOOL_OUTPUT = "tool_output"
    USER_INPUT = "user_input"


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a fact rests on; `snippet=None` when only the place is known."""

    kind: EvidenceKind
    ref: str
    snippet: str | None = None


class ValidUntil(msgspec.Struct, frozen=True, kw_only=True):
    """The event that ends a fact, and when that was said. Whether it has happened only the caller knows."""

    event: str | Mapping[str, object]
    asserted_at: int


class Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something known, and what it rests on; `valid_until=None` means that no event is known to end it."""

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
    """The id that follows from what a fact says; confidence, validity and time have no part in it."""
    content = {
        "kind": kind.value,
        "claim": claim,
        "evidence": msgspec.to_builtins(evidence),
        "provenance": provenance,
    }
    import json  # noqa: PLC0415 - only a fact that is stored needs it

    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return FactId("fact_" + sha256(canonical.encode("utf-8")).hexdigest()[:_ID_DIGITS])


def fact_key(fact: Fact) -> str:
    """The key under which a fact is stored."""
    return f"fact:{fact.kind.value}:{fact.id}"


def fact_document(fact: Fact) -> dict[str, object]:
    """The fact as a JSON object; `parse_fact` makes an equal fact of it."""
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
