"""The output lines in which compilers, linters and test runners report a failure.

Each shape describes a whole line from its first character on, and requires certain surroundings if the line could occur
in any text. A word like "error" is therefore never enough, and lines that report success have no shape.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

KIB: Final = 1024
TEXT_BYTES: Final = 96 * KIB

# Colours and cursor movements, titles and links, and the short sequences. The possessive quantifiers never backtrack,
# so an incomplete sequence costs no more than a complete one.
_ESCAPE: Final = (
    r"\x1b\[[0-?]*+[ -/]*+[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]*+(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*+[0-~]"
    r"|\x9b[0-?]*+[ -/]*+[@-~]"
)


def plain(text: str) -> str:
    """Terminal output as plain text: no escape sequences, line feeds as line ends, at most `TEXT_BYTES` long.

    Of a longer text the beginning and the end are kept: compilers report errors first, test runners summarise last.
    """
    text = re.sub(_ESCAPE, "", text).replace("\r\n", "\n").replace("\r", "\n")
    encoded = text.encode(errors="replace")
    if len(encoded) <= TEXT_BYTES:
        return text
    half = TEXT_BYTES // 2
    head = encoded[:half].decode(errors="ignore").rpartition("\n")[0]
    tail = encoded[-half:].decode(errors="ignore").partition("\n")[2]
    return f"{head}\n{tail}"


# Longer lines are cut: they were not written for people.
LINE_CHARACTERS: Final = 1_000
# How many lines around a line are searched for its surroundings.
_NEAR: Final = 6
_FAR: Final = 100


class Weight(StrEnum):
    """How a line counts beside other lines of the same tool, so that a failure which is reported twice counts once."""

    DETAIL = "detail"
    # Names a failure that a detail may name again; left out if there are details.
    OUTLINE = "outline"
    # Names a file of tests; left out if the tests that failed in it are listed below.
    HEADING = "heading"
    # Says how many failed, or that something did; left out if the tool names a failure.
    COUNT = "count"
    # Names a failed test; counts only if the same tool reports a failure in another line.
    COMPANION = "companion"
    # Says why something failed. It is added to the line that names the failure, and does not count by itself.
    REASON = "reason"


# Lines of these weights are no failures without others.
_SECONDARY: Final = frozenset({Weight.COMPANION, Weight.REASON})


class Reported(NamedTuple):
    """A failure as a tool reported it; `is_count` if the line only says that there are some, or how many."""

    source: str
    summary: str
    is_count: bool = False


Surroundings = Callable[[Sequence[str], int], str | None]
Judge = Callable[[re.Match[str]], bool]


class LineShape(NamedTuple):
    """The form of a line that reports a failure: a regular expression with the group `what` and optionally `at`.

    `what` is reported with the place `at`. Without a `source` the file suffix of the place determines the tool. `near`
    returns the place from the surrounding lines, or None if they do not fit; `holds` checks the line itself. A
    `warning` is reported only on demand. `under_file` if `what` begins with the line number in the file that `near`
    returns.
    """

    source: str
    line: str
    weight: Weight = Weight.DETAIL
    near: Surroundings | None = None
    holds: Judge | None = None
    warning: bool | Judge = False
    under_file: bool = False


class _Match(NamedTuple):
    """A line that has a shape, with its number, and the place that was found near it."""

    line: int
    shape: LineShape
    source: str
    summary: str
    place: str
    wanted: bool

    @property
    def weight(self) -> Weight:
        return self.shape.weight


# Compiled on first use: most processes never scan the output of a verifier, and all would pay at import.
_compiled: Final = cache(re.compile)


# Surroundings.

_ARROW: Final = r"\s*--> (\S.*:\d+:\d+)$"
_FRAME: Final = r'\s+File "(.+)", line (\d+)'
_STACK: Final = r"\s+at \S"
_GOROUTINE: Final = r"goroutine \d+ \["
_FILE: Final = r"\S.*\.\w{1,5}$"
_COLLECTED: Final = r"_+ ERROR collecting (\S+) _+$"
_GO_FAIL: Final = r"\s*--- FAIL: (\S+)"
_GO_SAID: Final = r"\s+\S+\.go:\d+: "


def _arrow_below(lines: Sequence[str], index: int) -> str | None:
    found = _compiled(_ARROW).match(lines[index + 1]) if index + 1 < len(lines) else None
    return found[1] if found else None


def _frame_above(lines: Sequence[str], index: int) -> str | None:
    frames = map(_compiled(_FRAME).match, reversed(lines[max(0, index - _NEAR) : index]))
    return next((f"{frame[1]}:{frame[2]}" for frame in frames if frame), None)


def _rule_above(lines: Sequence[str], index: int) -> str | None:
    return "" if index and lines[index - 1].startswith("=====") else None


def _stack_below(lines: Sequence[str], index: int) -> str | None:
    return "" if index + 1 < len(lines) and _compiled(_STACK).match(lines[index + 1]) else None


def _goroutine_below(lines: Sequence[str], index: int) -> str | None:
    return "" if any(map(_compiled(_GOROUTINE).match, lines[index + 1 : index + _NEAR])) else None


def _collected_above(lines: Sequence[str], index: int) -> str | None:
    """The file that pytest could not collect; empty if the exception is that of a test."""
    above = reversed(lines[max(0, index - _FAR) : index])
    heading = next((line for line in above if line.startswith("____")), "")
    found = _compiled(_COLLECTED).match(heading)
    return found[1] if found else ""


def _own_failure(lines: Sequence[str], index: int) -> str | None:
    """Empty if a test of go failed by itself; None if it failed only because a subtest did."""
    name = _compiled(_GO_FAIL).match(lines[index])
    below = lines[index + 1] if index + 1 < len(lines) else ""
    if name is None or not below.lstrip().startswith(f"--- FAIL: {name[1]}/"):
        return ""
    ran = rf"=== (?:RUN|CONT|NAME) +{re.escape(name[1])}$"
    said = (lines[at + 1] for at, line in enumerate(lines[:index]) if re.match(ran, line))
    return "" if any(map(_compiled(_GO_SAID).match, said)) else None


def _file_above(lines: Sequence[str], index: int) -> str | None:
    above = reversed(lines[max(0, index - _FAR) : index])
    heading = next((line for line in above if line[:1].strip()), "")
    return heading if _compiled(_FILE).match(heading) else None


# Judges.

_FAILURES: Final = r"(?<![\w.])0*[1-9]\d*\s(?:failed|failing|failures?|errors?)\b"
_NOT_MEANT: Final = r"(?i:#\s*(?:TODO|SKIP))"
# Pyflakes, syntax errors, pylint errors, likely bugs; the other families of codes are about style.
_DEFECT: Final = r"(?:F\d|E9|PLE|B\d|invalid-syntax)"


def _counts_failures(line: re.Match[str]) -> bool:
    return _compiled(_FAILURES).search(line["what"]) is not None


def _is_meant(line: re.Match[str]) -> bool:
    return _compiled(_NOT_MEANT).search(line["what"]) is None


def _is_style(line: re.Match[str]) -> bool:
    return _compiled(_DEFECT).match(line["what"]) is None


# The shapes; the first that fits counts.

_AT: Final = r"(?P<at>(?:[A-Za-z]:)?[^\s:][^:]*+:\d++(?::\d++)?+)"
_CODE: Final = r"(?:\[[\w:.-]++\])?+"
_RULE: Final = r"(?:[A-Z]{1,7}\d{1,4}|invalid-syntax:) "
_BY_PLACE: Final = ""
_ANY_RUNNER: Final = "test run"


SHAPES: Final = (
    # rustc, cargo and harn name the place below the message; the short form of cargo, and mypy, before it.
    LineShape("cargo", r"(?P<what>error: (?:could not compile|test failed|aborting due to)\b.*)", Weight.COUNT),
    # The name of an exception precedes the first line of an output with which a tool raised it.
    LineShape(_BY_PLACE, rf"(?:\w+Error: )?(?P<what>error{_CODE}: .+)", near=_arrow_below),
    LineShape(_BY_PLACE, rf"(?P<what>warning{_CODE}: .+)", near=_arrow_below, warning=True),
    LineShape(_BY_PLACE, rf"{_AT}: (?P<what>error{_CODE}: .+)"),
    LineShape(_BY_PLACE, rf"{_AT}: (?P<what>warning{_CODE}: .+)", warning=True),
    LineShape("cargo", r"(?P<what>test \S.* \.\.\. FAILED)"),
    LineShape("cargo", r"(?P<what>test result: FAILED\. [^;]+; [^;]+)", Weight.COUNT, holds=_counts_failures),
    # pytest
    LineShape("pytest", r"(?P<what>(?:FAILED|ERROR) \S*\.(?:\w+::\S.*|py(?: - .*)?$))"),
    LineShape("pytest", r"(?P<what>\S+\.py::\S.*? (?:FAILED|ERROR))\s*(?:\[ *\d+%\])?$", Weight.OUTLINE),
    LineShape("pytest", r"\[gw\d+\] \[ *\d+%\] (?P<what>(?:FAILED|ERROR) \S.*)", Weight.OUTLINE),
    LineShape("pytest", r"=* ?(?P<what>\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s", Weight.COUNT, holds=_counts_failures),
    LineShape(
        "pytest",
        r"E\s{2,}(?P<what>(?:Syntax|Indentation|Tab|Name|Import|ModuleNotFound)Error\b.*)",
        Weight.REASON,
        near=_collected_above,
    ),
    # unittest
    LineShape("unittest", r"(?P<what>(?:FAIL|ERROR): \S+ \(\S+\))", near=_rule_above),
    LineShape("unittest", r"(?P<what>FAILED \((?:failures|errors)=\d.*\))", Weight.COUNT),
    # The interpreters themselves.
    LineShape("python", r"(?P<what>(?:Syntax|Indentation|Tab|Name|UnboundLocal)Error: .+)", near=_frame_above),
    LineShape("node", r"(?P<what>(?:Reference|Syntax)Error: .+)", near=_stack_below),
    # go
    LineShape("go", r"\s*--- (?P<what>FAIL: \S+)", near=_own_failure),
    LineShape("go", r"(?P<what>FAIL\t\S+(?: \[.+\])?)", Weight.COUNT),
    LineShape("go", r"(?:vet: )?(?P<at>[^\s:][^:]*+(?<=\.go):\d+:\d+): (?P<what>\S.*)"),
    LineShape("go", r"(?P<what>panic: .+)", near=_goroutine_below),
    # tsc
    LineShape("tsc", r"(?P<at>\S.*?\(\d+,\d+\)): (?P<what>error TS\d+: .+)"),
    LineShape("tsc", rf"{_AT} - (?P<what>error TS\d+: .+)"),
    LineShape("tsc", r"(?P<what>error TS\d+: .+)"),
    LineShape("tsc", r"(?P<what>Found [1-9]\d* errors? in (?:the same file|\d+ files\b))", Weight.COUNT),
    # ruff
    LineShape("ruff", rf"(?P<what>{_RULE}.+)", near=_arrow_below, warning=_is_style),
    LineShape("ruff", rf"{_AT}: (?P<what>{_RULE}.+)", warning=_is_style),
    LineShape("ruff", r"\d+\t(?P<what>[A-Z]{1,7}\d{1,4}\t.+)", warning=_is_style),
    LineShape("ruff", r"(?P<what>Found [1-9]\d* errors?)(?:\.| \(\d+ fixed)", Weight.COUNT),
    # mypy
    LineShape("mypy", r"(?P<what>Found [1-9]\d* errors? in \d+ files?) \((?:checked|errors prevented)", Weight.COUNT),
    # eslint
    LineShape("eslint", r"\s+(?P<what>\d+:\d+\s+error\s+\S.*)", near=_file_above, under_file=True),
    LineShape("eslint", r"\s+(?P<what>\d+:\d+\s+warning\s+\S.*)", near=_file_above, warning=True, under_file=True),
    LineShape("eslint", r"[✖\xd7x] (?P<what>\d+ problems? \([1-9]\d* errors?, \d+ warnings?\))", Weight.COUNT),
    # What `npm test` usually runs: jest, vitest, mocha, node, or anything that writes TAP.
    LineShape("npm test", r"\s{0,2}(?P<what>FAIL\s+\S+\.[cm]?[jt]sx? > \S.*)$"),
    LineShape("npm test", r"\s{0,2}(?P<what>FAIL\s+\S+\.[cm]?[jt]sx?(?:\s.*)?)$", Weight.HEADING),
    LineShape("npm test", r"\s*(?P<what>not ok \d+\b.*)", holds=_is_meant),
    LineShape("npm test", r"\s*(?P<what>Tests:?\s+\d.*)", Weight.COUNT, holds=_counts_failures),
    LineShape("npm test", r"\s*(?P<what>Test (?:Suites|Files):?\s+\d.*)", Weight.COUNT, holds=_counts_failures),
    LineShape("npm test", r"\s+(?P<what>[1-9]\d* failing)\b", Weight.COUNT),
    LineShape("npm test", r"[#\u2139] (?P<what>fail [1-9]\d*)$", Weight.COUNT),
    LineShape(
        "npm test",
        r"npm (?:ERR!|error) (?P<what>(?:Test failed|Lifecycle script `test` failed)\b.*)",
        Weight.COUNT,
    ),
    LineShape("npm test", r"\s*[✕\xd7✗✖] (?P<what>\S.*(?<!:))$", Weight.COMPANION),
    LineShape("npm test", r"\s{4,}\d+\) (?P<what>\S.*)", Weight.COMPANION),
    # The bare count of any test runner.
    LineShape(
        _ANY_RUNNER,
        r"\s*(?P<what>\d+ (?:pass|fail)(?:ed|ing)(?:\s*[,;|] ?\d+ [a-z]+)*)[\s.;]*$",
        Weight.COUNT,
        holds=_counts_failures,
    ),
)

# A cheap test: every shape contains one of these, most lines contain none.
_CUE: Final = re.compile(
    r"[Ee]rror|ERROR|[Ff]ail|FAIL|warning|panic|not ok|[A-Z]\d|invalid-syntax|\.go:\d|[✕\xd7✗✖] |\d\) "
)
_SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "rs": "cargo",
        "harn": "harn lint",
        "py": "mypy",
        "pyi": "mypy",
        "go": "go",
        "ts": "tsc",
        "tsx": "tsc",
    }
)
_SUFFIX: Final = r"\.(\w+):\d+(?::\d+)?$"
# Parts that differ from run to run, and would make an old finding look new.
_DURATION: Final = r"\s*(?:\(\d[\d.]* ?m?s\)|\d[\d.]*ms)\s*$"
_ADDRESS: Final = r"\b0x[0-9a-fA-F]{6,}\b"


def may_report(text: str) -> bool:
    """Whether `scan` could find anything, including warnings; False is certain."""
    # An escape sequence may separate the letters of a word, so such a text has to be scanned.
    return "\x1b" in text or "\x9b" in text or _CUE.search(text) is not None


def scan(text: str, *, include_warnings: bool = False) -> tuple[Reported, ...]:
    """The failures that a text reports, in order, each once."""
    lines = [line[:LINE_CHARACTERS].rstrip() for line in plain(text).split("\n")]
    matches = list(_matches(lines, include_warnings=include_warnings))
    failing = {match.source for match in matches if match.wanted and match.weight not in _SECONDARY}
    known = _joined([match for match in matches if match.weight is not Weight.COMPANION or match.source in failing])
    by_tool: dict[str, list[_Match]] = {}
    for match in known:
        by_tool.setdefault(match.source, []).append(match)
    counted = {tool: set(_counted(found)) for tool, found in by_tool.items()}
    if any(found for tool, found in counted.items() if tool != _ANY_RUNNER):
        counted.pop(_ANY_RUNNER, None)
    return tuple(
        dict.fromkeys(
            Reported(match.source, match.summary, match.weight is Weight.COUNT)
            for match in known
            if match.wanted and match in counted.get(match.source, ())
        )
    )


def _joined(matches: Sequence[_Match]) -> list[_Match]:
    """The lines that name failures, together with what other lines say about the same failure."""
    reasons = {f"ERROR {line.place}": line.summary for line in matches if line.weight is Weight.REASON and line.place}
    headings: dict[str, str] = {}
    joined: list[_Match] = []
    for line in matches:
        summary = line.summary
        match line.weight:
            case Weight.REASON:
                continue
            case Weight.HEADING:
                headings[line.source] = summary
            case Weight.COMPANION if line.source in headings:
                summary = f"{headings[line.source]} > {summary}"
            case Weight.DETAIL if summary in reasons:
                summary = f"{summary} - {reasons[summary]}"
            case Weight.DETAIL if joined and _has_panicked(joined[-1], line):
                line = joined.pop()  # noqa: PLW2901 - the test takes the place of its panic
                summary = f"{line.summary} - {summary}"
        joined.append(line._replace(summary=summary))
    return joined


def _has_panicked(test: _Match, match: _Match) -> bool:
    """Whether this line is the panic that ended the test of go in the line above."""
    return test.source == match.source and test.line + 1 == match.line and match.summary.startswith("panic: ")


def _counted(found: Sequence[_Match]) -> Iterator[_Match]:
    """The lines of one tool that report a failure which no better line reports."""
    weights = {line.weight for line in found}
    names = [line.summary for line in found if line.weight in (Weight.DETAIL, Weight.COMPANION)]
    # vitest and jest write the tests of a file as `file > test`.
    files = {name.partition(" > ")[0] for name in names if " > " in name}
    tests = {" > ".join(name.split(" > ")[start:]) for name in names for start in range(1, name.count(" > ") + 1)}
    first = next((line.shape for line in found if line.weight is Weight.COUNT), None)
    for line in found:
        match line.weight:
            case Weight.OUTLINE:
                counts = Weight.DETAIL not in weights
            case Weight.HEADING:
                counts = line.summary not in files
            case Weight.COMPANION:
                counts = line.summary not in tests
            case Weight.COUNT:
                counts = weights == {Weight.COUNT} and line.shape is first
            case _:
                counts = True
        if counts:
            yield line


def _matches(lines: Sequence[str], *, include_warnings: bool) -> Iterator[_Match]:
    for index, line in enumerate(lines):
        if _CUE.search(line):
            fitting = (_matched(shape, lines, index, include_warnings=include_warnings) for shape in SHAPES)
            yield from islice((match for match in fitting if match is not None), 1)


def _matched(shape: LineShape, lines: Sequence[str], index: int, *, include_warnings: bool) -> _Match | None:
    found = _compiled(shape.line).match(lines[index])
    if found is None or (shape.holds is not None and not shape.holds(found)):
        return None
    place: str | None = found.groupdict().get("at") or "" if shape.near is None else shape.near(lines, index)
    source = None if place is None else shape.source or _source(place)
    if place is None or source is None:
        return None
    is_warning = shape.warning if isinstance(shape.warning, bool) else shape.warning(found)
    what = _compiled(_ADDRESS).sub("0x…", _compiled(_DURATION).sub("", found["what"]))
    if shape.under_file:
        summary = f"{place}:{what}"
    else:
        summary = f"{what} ({place})" if place and shape.weight is not Weight.REASON else what
    return _Match(index, shape, source, summary, place, include_warnings or not is_warning)


def _source(place: str) -> str | None:
    suffix = _compiled(_SUFFIX).search(place)
    return _SOURCES.get(suffix[1]) if suffix else None
