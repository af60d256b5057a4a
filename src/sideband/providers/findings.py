"""Findings that a payload states in its own structure: errors of tools, verdicts of verifiers, diagnostics."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from sideband.core.errors import shown
from sideband.providers.evidence import Entry, ToolReport, fields_of
from sideband.providers.quoting import one_line
from sideband.providers.settings import is_count, is_number

SUMMARY_CHARACTERS: Final = 220
PLACE_CHARACTERS: Final = 120


class Finding(msgspec.Struct, frozen=True, order=True):
    """Something that failed: who says so, where it is said, and what."""

    source: str
    provenance: str
    summary: str


def finding(source: str, provenance: str, summary: str) -> Finding:
    """A finding with every part on one line and of bounded length."""
    return Finding(
        one_line(source, most=PLACE_CHARACTERS),
        one_line(provenance, most=PLACE_CHARACTERS),
        one_line(summary, most=SUMMARY_CHARACTERS),
    )


# Errors of tools.

FAILED_STATUS: Final = frozenset({"crashed", "error", "errored", "failed", "failure", "timed_out", "timeout"})
NO_ERROR: Final = frozenset({"", "0", "false", "n/a", "nil", "no", "no error", "none", "null", "ok", "undefined"})
_EXIT_CODES: Final = ("exit_code", "exitCode", "returncode")
_SAID: Final = ("message", "stderr", "text", "output", "stdout", "content", "result")


def runtime_errors(payload: Mapping[str, object], reports: Sequence[ToolReport]) -> Iterator[Finding]:
    """What the harness itself calls an error, with what it says about it."""
    for report in reports:
        said = _error_in(report.fields)
        if said is None and not report.shows_files:
            said = _error_in(fields_of(report.fields.get("result")))
        if said is not None:
            yield finding("runtime", report.at("error"), said)
    if all(report.path for report in reports) and (said := _stated_error(payload)):
        yield finding("runtime", "error", said)


def _error_in(fields: Mapping[str, object]) -> str | None:
    stated = _stated_error(fields)
    if stated is not None:
        return stated
    status = fields.get("status")
    has_failed = isinstance(status, str) and status.strip().lower() in FAILED_STATUS
    if not (has_failed or fields.get("is_error") is True or fields.get("isError") is True):
        return None
    codes = _exit_codes(fields)
    if any(is_number(code) and code > 0 for code in codes):
        # The program ran to its end. What it found wrong stands in its output, if it found anything.
        return None
    return next((line for name in _SAID if (line := _line(fields.get(name), last=bool(codes)))), None)


def _exit_codes(fields: Mapping[str, object]) -> tuple[object, ...]:
    """How the program ended that a tool ran; nothing where it ran none."""
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

    That is the first; but below the output of a program stands last how it was ended.
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
# Verdicts that have not been reached.
OPEN: Final = frozenset({"", "n/a", "none", "not_run", "pending", "queued", "running", "skip", "skipped", "unknown"})
_VERDICT: Final = ("signal", "verdict", "outcome", "decision", "status")
_FLAG: Final = ("accepted", "passed", "ok", "success")
# A verdict is one word; a sentence may say anything.
_WORD: Final = r"[\w/-]{1,32}"
_REASON: Final = ("reason", "message", "summary", "detail", "details", "error")
_NAME: Final = ("verifier", "name", "kind", "id")
# A model's opinion is no evidence, by whatever name it is sent.
_OPINION: Final = r"(?i:(?<![a-z])(?:llm|judge|critic|critique)(?![a-z]))"


def verifier_signals(found: Iterable[Entry]) -> Iterator[Finding]:
    """Every verdict of a verifier that is not an acceptance."""
    for entry in found:
        if entry.name in SIGNALS:
            items = entry.value if isinstance(entry.value, list | tuple) else (entry.value,)
            for item in items:
                yield from _signal(item, entry.path)


def _signal(item: object, path: str) -> Iterator[Finding]:
    fields = {"verdict": item} if isinstance(item, str) else fields_of(item)
    refusal = _refusal(fields)
    who = " ".join(_text(fields, (name,)) for name in (*_NAME, "source"))
    if refusal and not re.search(_OPINION, who):
        reason = _text(fields, _REASON) or "no reason given"
        yield finding(_text(fields, _NAME) or "verifier", path, f"{refusal}: {reason}")


def _refusal(fields: Mapping[str, object]) -> str:
    """The verdict where it is reached and no acceptance, else nothing."""
    verdict = _text(fields, _VERDICT).partition(":")[0].strip()
    if verdict:
        return "" if verdict.lower() in ACCEPTED | OPEN or not re.fullmatch(_WORD, verdict) else verdict
    return next((f"not {name}" for name in _FLAG if fields.get(name) is False), "")


# Diagnostics.


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


DIAGNOSTICS: Final = frozenset({"diagnostics", "errors", "issues", "problems"})
# Under these names stands what is an error whatever it is called.
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
# Codes of parse errors and of undefined names; what has one is an error whatever severity it is given.
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
_SEVERITIES: Final[Mapping[object, Severity]] = MappingProxyType(
    {
        "critical": Severity.ERROR,
        "error": Severity.ERROR,
        "fatal": Severity.ERROR,
        "warn": Severity.WARNING,
        "warning": Severity.WARNING,
        # The numbers of the language server protocol.
        1: Severity.ERROR,
        2: Severity.WARNING,
    }
)
# ESLint counts the other way round, and is known by the name it has for a code.
_ESLINT: Final[Mapping[object, Severity]] = MappingProxyType({1: Severity.WARNING, 2: Severity.ERROR})


def diagnostics(found: Iterable[Entry], *, include_warnings: bool) -> Iterator[Finding]:
    """Every diagnostic that is an error, and on demand the warnings."""
    for entry in found:
        items = entry.value if isinstance(entry.value, list | tuple) else (entry.value,)
        if entry.name in ALWAYS:
            for item in items:
                message = item if isinstance(item, str) else _message(fields_of(item))
                if message.strip():
                    yield finding(ALWAYS[entry.name], entry.path, message)
        elif entry.name in DIAGNOSTICS:
            for item in items:
                fields = fields_of(item)
                severity = _severity(fields)
                if severity is Severity.ERROR or (include_warnings and severity is Severity.WARNING):
                    yield from _diagnostic(fields, entry.path, severity)


def _diagnostic(fields: Mapping[str, object], path: str, severity: Severity) -> Iterator[Finding]:
    source = _text(fields, ("source", "tool", "linter"))
    message = _message(fields)
    if message and not re.search(_OPINION, source):
        yield finding(source or "diagnostic", path, f"{severity.value}: {message}")


def _severity(fields: Mapping[str, object]) -> Severity | None:
    if _code(fields).lower().replace("_", "-") in GRAVE_CODES:
        return Severity.ERROR
    severities = _ESLINT if "ruleId" in fields else _SEVERITIES
    for name in ("severity", "level", "type"):
        value = fields.get(name)
        word = value.strip().lower() if isinstance(value, str) else value
        # True is 1 to a mapping.
        if (isinstance(word, str) or is_count(word)) and word in severities:
            return severities[word]
    return None


def _message(fields: Mapping[str, object]) -> str:
    message, code, place = _text(fields, ("message", "text", "name")), _code(fields), _place(fields)
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
    # The language server protocol counts lines from 0, everybody else from 1.
    zero_based = start.get("line")
    line = zero_based + 1 if is_count(zero_based) else fields.get("line") or location.get("row")
    return f"{path}:{line}" if path and is_count(line) else path


def _text(fields: Mapping[str, object], names: Iterable[str]) -> str:
    values = (fields.get(name) for name in names)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")
