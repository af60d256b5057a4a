"""Failures that a payload states in structured form: tool errors, verdicts of verifiers, diagnostics."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.errors import shown
from sideband.providers.evidence import PayloadEntry, ToolReport, fields_of
from sideband.providers.quote import one_line
from sideband.providers.settings import is_count, is_number

SUMMARY_CHARACTERS: Final = 220
PLACE_CHARACTERS: Final = 120


class ReviewFinding(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """A failure: who reports it, where in the payload, and what failed; `is_count` if it stands for a number of them."""

    source: str
    provenance: str
    summary: str
    is_count: bool = False


class CallFailure(NamedTuple):
    """The failure of a tool call. `report` is the call if the finding quotes its output, and None if it was stated."""

    finding: ReviewFinding
    report: ToolReport | None = None


class StatedDiagnostic(NamedTuple):
    """A diagnostic, with the words and the place by which the same one is recognised in an output."""

    finding: ReviewFinding
    message: str
    place: str = ""

    def is_told_by(self, summary: str) -> bool:
        """Whether a line of an output reports this diagnostic: the same words, at the same line of the same file."""
        # The usual formatter of ESLint writes a message without the full stop at its end.
        if not self.message or _words(self.message).removesuffix(".") not in _words(summary):
            return False
        places = set(re.findall(_LINE_OF_FILE, summary))
        mine = set(re.findall(_LINE_OF_FILE, self.place))
        return not places or not mine or bool(places & mine)


# The name of a file and a line, as in `src/cart.rs:7:5` and `cart.ts(2,3)`.
_LINE_OF_FILE: Final = r"([^/\\\s():]+)[:(](\d+)"


def _words(text: str) -> str:
    return " ".join(text.lower().split())


def finding(source: str, provenance: str, summary: str, *, is_count: bool = False) -> ReviewFinding:
    """A finding whose parts are one line each, of bounded length."""
    return ReviewFinding(
        one_line(source, most=PLACE_CHARACTERS),
        one_line(provenance, most=PLACE_CHARACTERS),
        one_line(summary, most=SUMMARY_CHARACTERS),
        is_count,
    )


# Tool errors.

FAILED_STATUS: Final = frozenset({"crashed", "error", "errored", "failed", "failure", "timed_out", "timeout"})
NO_ERROR: Final = frozenset({"", "0", "false", "n/a", "nil", "no", "no error", "none", "null", "ok", "undefined"})
_EXIT_CODES: Final = ("exit_code", "exitCode", "returncode")
_SAID: Final = ("message", "stderr", "text", "output", "stdout", "content", "result")


def runtime_errors(payload: Mapping[str, object], reports: Sequence[ToolReport]) -> Iterator[CallFailure]:
    """The tool calls that the event marks as failed, with their error messages."""
    for report in reports:
        told = (report.fields, *(() if report.shows_files else (fields_of(report.fields.get("result")),)))
        stated = next((said for fields in told if (said := _stated_error(fields))), None)
        if stated is not None:
            yield CallFailure(finding("runtime", report.at("error"), stated))
        elif quoted := next((said for fields in told if (said := _failed_output(fields))), None):
            yield CallFailure(finding("runtime", report.at("error"), quoted), report)
    if all(report.path for report in reports) and (said := _stated_error(payload)):
        yield CallFailure(finding("runtime", "error", said))


def _failed_output(fields: Mapping[str, object]) -> str | None:
    """The line of the output that says how a call failed; None if it did not fail, or the output says nothing."""
    status = fields.get("status")
    has_failed = isinstance(status, str) and status.strip().lower() in FAILED_STATUS
    if not (has_failed or fields.get("is_error") is True or fields.get("isError") is True):
        return None
    codes = _exit_codes(fields)
    if any(is_number(code) and code > 0 for code in codes):
        # The program ran to completion: what it found wrong is in its output, if anything.
        return None
    return next((line for name in _SAID if (line := _line(fields.get(name), last=bool(codes)))), None)


def _exit_codes(fields: Mapping[str, object]) -> tuple[object, ...]:
    """The exit codes of the program that a tool ran; empty if it ran none."""
    told = (fields, fields_of(fields.get("data")), fields_of(fields.get("result")))
    return tuple(given[name] for given in told for name in _EXIT_CODES if name in given)


def _stated_error(fields: Mapping[str, object]) -> str | None:
    return next((said for name in ("error", "exception") if (said := _error_text(fields.get(name)))), None)


def _error_text(error: object) -> str | None:
    if isinstance(error, BaseException):
        return shown(error)
    if isinstance(error, str):
        return None if error.strip().lower() in NO_ERROR else error
    fields = fields_of(error)
    message = fields.get("message")
    if not isinstance(message, str) or not message.strip():
        return None
    kind = next((fields[name] for name in ("type", "kind", "name", "code") if fields.get(name) is not None), None)
    return f"{kind}: {message}" if isinstance(kind, str) or is_number(kind) else message


def _line(said: object, *, last: bool) -> str:
    """The line of a text, or of the first text in a list of blocks, that names the error.

    That is the first line, but the last one (`last`) of a program's output, which says how the program ended.
    """
    if isinstance(said, list | tuple):
        return next((line for item in said if (line := _line(item, last=last))), "")
    text = said if isinstance(said, str) else fields_of(said).get("text")
    if not isinstance(text, str):
        return ""
    return text.strip().rpartition("\n")[2] if last else text.strip().partition("\n")[0]


# Verdicts of verifiers.

SIGNALS: Final = frozenset(
    {
        "verification",
        "verifications",
        "verifier_outcome",
        "verifier_outcomes",
        "verifier_results",
        "verifier_signal",
        "verifier_signals",
    }
)
ACCEPTED: Final = frozenset({"accept", "accepted", "ok", "pass", "passed", "succeeded", "success"})
# Values that mean that there is no verdict yet.
OPEN: Final = frozenset({"", "n/a", "none", "not_run", "pending", "queued", "running", "skip", "skipped", "unknown"})
_VERDICT: Final = ("signal", "verdict", "outcome", "decision", "status")
_FLAG: Final = ("accepted", "passed", "ok", "success")
# A verdict is one word; a sentence may say anything.
_WORD: Final = r"[\w/-]{1,32}"
_REASON: Final = ("reason", "message", "summary", "detail", "details", "error")
_NAME: Final = ("verifier", "name", "kind", "id")
# Words in the name of a verifier that mark it as a model, whose opinion is no evidence.
_OPINION: Final = r"(?i:(?<![a-z])(?:llm|judge|critic|critique)(?![a-z]))"


def verifier_signals(found: Iterable[PayloadEntry]) -> Iterator[ReviewFinding]:
    """Every verdict of a verifier that is not an acceptance."""
    for entry in found:
        if entry.name in SIGNALS:
            items = entry.value if isinstance(entry.value, list | tuple) else (entry.value,)
            for item in items:
                yield from _signal(item, entry.path)


def _signal(item: object, path: str) -> Iterator[ReviewFinding]:
    fields = {"verdict": item} if isinstance(item, str) else fields_of(item)
    refusal = _refusal(fields)
    who = " ".join(_text(fields, (name,)) for name in (*_NAME, "source"))
    if refusal and not re.search(_OPINION, who):
        reason = _text(fields, _REASON) or "no reason given"
        yield finding(_text(fields, _NAME) or "verifier", path, f"{refusal}: {reason}")


def _refusal(fields: Mapping[str, object]) -> str:
    """The verdict if it is a refusal, or an empty string."""
    verdict = _text(fields, _VERDICT).partition(":")[0].strip()
    if verdict:
        return "" if verdict.lower() in ACCEPTED | OPEN or not re.fullmatch(_WORD, verdict) else verdict
    return next((f"not {name}" for name in _FLAG if fields.get(name) is False), "")


# Diagnostics.


class DiagnosticSeverity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


DIAGNOSTICS: Final = frozenset({"diagnostics", "errors", "issues", "problems"})
# The content of these fields is an error whatever its severity.
ALWAYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "parse_error": "parse error",
        "parse_errors": "parse error",
        "syntax_error": "parse error",
        "syntax_errors": "parse error",
        "undefined_name": "undefined name",
        "undefined_names": "undefined name",
    }
)
# Codes of parse errors and undefined names, which are errors whatever their severity.
GRAVE_CODES: Final = frozenset(
    {
        "e0425",
        "e0602",
        "e9",
        "e999",
        "f821",
        "invalid-syntax",
        "name-defined",
        "no-undef",
        "parse-error",
        "reportundefinedvariable",
        "syntax",
        "syntax-error",
        "syntaxerror",
        "ts1005",
        "ts1109",
        "ts2304",
        "ts2552",
        "undefined-name",
        "undefined-variable",
    }
)
_SEVERITIES: Final[Mapping[object, DiagnosticSeverity]] = MappingProxyType(
    {
        "critical": DiagnosticSeverity.ERROR,
        "error": DiagnosticSeverity.ERROR,
        "fatal": DiagnosticSeverity.ERROR,
        "warn": DiagnosticSeverity.WARNING,
        "warning": DiagnosticSeverity.WARNING,
        # The numbers of the Language Server Protocol.
        1: DiagnosticSeverity.ERROR,
        2: DiagnosticSeverity.WARNING,
    }
)
# ESLint numbers severities the other way round; its diagnostics have a `ruleId`.
_ESLINT: Final[Mapping[object, DiagnosticSeverity]] = MappingProxyType(
    {1: DiagnosticSeverity.WARNING, 2: DiagnosticSeverity.ERROR}
)


_MESSAGE: Final = ("message", "text", "name")


def diagnostics(found: Iterable[PayloadEntry], *, include_warnings: bool) -> Iterator[StatedDiagnostic]:
    """Every diagnostic that is an error; warnings only with `include_warnings`."""
    for entry in found:
        items = entry.value if isinstance(entry.value, list | tuple) else (entry.value,)
        if entry.name in ALWAYS:
            for item in items:
                fields = {"message": item} if isinstance(item, str) else fields_of(item)
                if _message(fields):
                    yield _stated(fields, finding(ALWAYS[entry.name], entry.path, _message(fields)))
        elif entry.name in DIAGNOSTICS:
            for item in items:
                fields = fields_of(item)
                severity = _severity(fields)
                if severity is DiagnosticSeverity.ERROR or (
                    include_warnings and severity is DiagnosticSeverity.WARNING
                ):
                    yield from _diagnostic(fields, entry.path, severity)


def _diagnostic(fields: Mapping[str, object], path: str, severity: DiagnosticSeverity) -> Iterator[StatedDiagnostic]:
    source = _text(fields, ("source", "tool", "linter"))
    message = _message(fields)
    if message and not re.search(_OPINION, source):
        yield _stated(fields, finding(source or "diagnostic", path, f"{severity.value}: {message}"))


def _stated(fields: Mapping[str, object], found: ReviewFinding) -> StatedDiagnostic:
    return StatedDiagnostic(found, _text(fields, _MESSAGE), _place(fields))


def _severity(fields: Mapping[str, object]) -> DiagnosticSeverity | None:
    if _code(fields).lower().replace("_", "-") in GRAVE_CODES:
        return DiagnosticSeverity.ERROR
    severities = _ESLINT if "ruleId" in fields else _SEVERITIES
    for name in ("severity", "level", "type"):
        value = fields.get(name)
        word = value.strip().lower() if isinstance(value, str) else value
        # True would look up 1, so bools are excluded.
        if (isinstance(word, str) or is_count(word)) and word in severities:
            return severities[word]
    return None


def _message(fields: Mapping[str, object]) -> str:
    message, code, place = _text(fields, _MESSAGE), _code(fields), _place(fields)
    return f"{message}{f' [{code}]' if code else ''}{f' ({place})' if place else ''}" if message else ""


def _code(fields: Mapping[str, object]) -> str:
    for name in ("code", "ruleId", "rule"):
        value = fields.get(name)
        code = fields_of(value).get("code", value)
        if isinstance(code, str) or is_number(code):
            return str(code)
    return ""


def _place(fields: Mapping[str, object]) -> str:
    path = _text(fields, ("file", "path", "filename", "filePath", "uri"))
    start = fields_of(fields_of(fields.get("range")).get("start"))
    location = fields_of(fields.get("location"))
    # The Language Server Protocol counts lines from 0, all other formats from 1.
    zero_based = start.get("line")
    line = zero_based + 1 if is_count(zero_based) else fields.get("line") or location.get("row")
    return f"{path}:{line}" if path and is_count(line) else path


def _text(fields: Mapping[str, object], names: Iterable[str]) -> str:
    values = (fields.get(name) for name in names)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")
