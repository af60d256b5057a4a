"""The lines in which compilers, linters and test runners say that something failed.

Each shape is that of a whole line, from its first character on, and asks for its surroundings where it could stand in
anybody's text. So a word like "error" is never enough, and a line that passes has no shape here.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

from sideband.providers.terminal import plain

# A line that is longer was not written for people.
LINE_CHARACTERS: Final = 1_000
# How far around a line its surroundings are looked for.
_NEAR: Final = 6
_FAR: Final = 100


class Weight(StrEnum):
    """How much a line says on its own."""

    DETAIL = "detail"
    # Counts what the details name, and is left out where there are any.
    OUTLINE = "outline"
    # Names more, but only beside a failure that the same tool reports in another line.
    COMPANION = "companion"


class Reported(NamedTuple):
    """A failure as a tool reported it."""

    source: str
    summary: str


Surroundings = Callable[[Sequence[str], int], str | None]
Judge = Callable[[re.Match[str]], bool]


class Shape(NamedTuple):
    """One form of line, a regular expression; the group `what` is reported, with the place `at`, if there is such a group.

    Without a `source` the suffix of the place says whose line it is. `near` finds the place in the lines around it and
    is None where they are not as they should be; `holds` judges the line itself; a `warning` is reported on demand.
    """

    source: str
    line: str
    weight: Weight = Weight.DETAIL
    near: Surroundings | None = None
    holds: Judge | None = None
    warning: bool | Judge = False


class _Match(NamedTuple):
    source: str
    summary: str
    weight: Weight
    wanted: bool


# Compiled when first needed: most processes never read the output of a verifier, and all of them would wait for it.
_compiled: Final = cache(re.compile)


# Surroundings.

_ARROW: Final = r"\s*--> (\S.*:\d+:\d+)$"
_FRAME: Final = r'\s+File "(.+)", line (\d+)'
_STACK: Final = r"\s+at \S"
_GOROUTINE: Final = r"goroutine \d+ \["
_FILE: Final = r"\S.*\.\w{1,5}$"


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


def _file_above(lines: Sequence[str], index: int) -> str | None:
    above = reversed(lines[max(0, index - _FAR) : index])
    heading = next((line for line in above if line[:1].strip()), "")
    return heading if _compiled(_FILE).match(heading) else None


# Judges.

_FAILURES: Final = r"(?<![\w.])0*[1-9]\d*\s(?:failed|failing|failures?|errors?)\b"
_NOT_MEANT: Final = r"(?i:#\s*(?:TODO|SKIP))"
# Pyflakes, syntax errors, errors of pylint, likely bugs: the other families of codes are about style.
_DEFECT: Final = r"(?:F\d|E9|PLE|B\d|invalid-syntax)"


def _counts_failures(line: re.Match[str]) -> bool:
    return _compiled(_FAILURES).search(line["what"]) is not None


def _is_meant(line: re.Match[str]) -> bool:
    return _compiled(_NOT_MEANT).search(line["what"]) is None


def _is_style(line: re.Match[str]) -> bool:
    return _compiled(_DEFECT).match(line["what"]) is None


# The shapes. Where two fit, the first counts.

_AT: Final = r"(?P<at>(?:[A-Za-z]:)?[^\s:][^:]*+:\d++(?::\d++)?+)"
_CODE: Final = r"(?:\[[\w:.-]++\])?+"
_RULE: Final = r"(?:[A-Z]{1,7}\d{1,4}|invalid-syntax:) "
_BY_PLACE: Final = ""


SHAPES: Final = (
    # rustc, cargo and harn point at a place below what they say; the short form of cargo, and mypy, in front of it.
    Shape("cargo", r"(?P<what>error: (?:could not compile|test failed|aborting due to)\b.*)", Weight.OUTLINE),
    Shape(_BY_PLACE, rf"(?P<what>error{_CODE}: .+)", near=_arrow_below),
    Shape(_BY_PLACE, rf"(?P<what>warning{_CODE}: .+)", near=_arrow_below, warning=True),
    Shape(_BY_PLACE, rf"{_AT}: (?P<what>error{_CODE}: .+)"),
    Shape(_BY_PLACE, rf"{_AT}: (?P<what>warning{_CODE}: .+)", warning=True),
    Shape("cargo", r"(?P<what>test \S.* \.\.\. FAILED)"),
    Shape("cargo", r"(?P<what>test result: FAILED\. [^;]+; [^;]+)", Weight.OUTLINE, holds=_counts_failures),
    # pytest
    Shape("pytest", r"(?P<what>(?:FAILED|ERROR) \S*\.(?:\w+::\S.*|py(?: - .*)?$))"),
    Shape("pytest", r"(?P<what>\S+\.py::\S.*? (?:FAILED|ERROR))\s*(?:\[ *\d+%\])?$", Weight.OUTLINE),
    Shape("pytest", r"\[gw\d+\] \[ *\d+%\] (?P<what>(?:FAILED|ERROR) \S.*)", Weight.OUTLINE),
    Shape("pytest", r"=* ?(?P<what>\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s", Weight.OUTLINE, holds=_counts_failures),
    Shape(
        "pytest",
        r"E\s{2,}(?P<what>(?:Syntax|Indentation|Tab|Name|Import|ModuleNotFound)Error\b.*)",
        Weight.COMPANION,
    ),
    # unittest
    Shape("unittest", r"(?P<what>(?:FAIL|ERROR): \S+ \(\S+\))", near=_rule_above),
    Shape("unittest", r"(?P<what>FAILED \((?:failures|errors)=\d.*\))", Weight.OUTLINE),
    # The interpreters themselves.
    Shape("python", r"(?P<what>(?:Syntax|Indentation|Tab|Name|UnboundLocal)Error: .+)", near=_frame_above),
    Shape("node", r"(?P<what>(?:Reference|Syntax)Error: .+)", near=_stack_below),
    # go
    Shape("go", r"\s*--- (?P<what>FAIL: \S+)"),
    Shape("go", r"(?P<what>FAIL\t\S+(?: \[.+\])?)", Weight.OUTLINE),
    Shape("go", r"(?:vet: )?(?P<at>[^\s:][^:]*+(?<=\.go):\d+:\d+): (?P<what>\S.*)"),
    Shape("go", r"(?P<what>panic: .+)", near=_goroutine_below),
    # tsc
    Shape("tsc", r"(?P<at>\S.*?\(\d+,\d+\)): (?P<what>error TS\d+: .+)"),
    Shape("tsc", rf"{_AT} - (?P<what>error TS\d+: .+)"),
    Shape("tsc", r"(?P<what>error TS\d+: .+)"),
    Shape("tsc", r"(?P<what>Found [1-9]\d* errors? in (?:the same file|\d+ files\b))", Weight.OUTLINE),
    # ruff
    Shape("ruff", rf"(?P<what>{_RULE}.+)", near=_arrow_below, warning=_is_style),
    Shape("ruff", rf"{_AT}: (?P<what>{_RULE}.+)", warning=_is_style),
    Shape("ruff", r"\d+\t(?P<what>[A-Z]{1,7}\d{1,4}\t.+)", warning=_is_style),
    Shape("ruff", r"(?P<what>Found [1-9]\d* errors?)(?:\.| \(\d+ fixed)", Weight.OUTLINE),
    # mypy
    Shape("mypy", r"(?P<what>Found [1-9]\d* errors? in \d+ files?) \((?:checked|errors prevented)", Weight.OUTLINE),
    # eslint
    Shape("eslint", r"\s+(?P<what>\d+:\d+\s+error\s+\S.*)", near=_file_above),
    Shape("eslint", r"\s+(?P<what>\d+:\d+\s+warning\s+\S.*)", near=_file_above, warning=True),
    Shape("eslint", r"[✖\xd7x] (?P<what>\d+ problems? \([1-9]\d* errors?, \d+ warnings?\))", Weight.OUTLINE),
    # What `npm test` usually runs: jest, vitest, mocha, node, or anything that writes TAP.
    Shape("npm test", r"\s{0,2}(?P<what>FAIL\s+\S+\.[cm]?[jt]sx?(?:\s.*)?)$"),
    Shape("npm test", r"\s*(?P<what>not ok \d+\b.*)", holds=_is_meant),
    Shape("npm test", r"\s*(?P<what>Test(?:s| Suites| Files):?\s+\d.*)", Weight.OUTLINE, holds=_counts_failures),
    Shape("npm test", r"\s+(?P<what>[1-9]\d* failing)\b", Weight.OUTLINE),
    Shape("npm test", r"[#\u2139] (?P<what>fail [1-9]\d*)$", Weight.OUTLINE),
    Shape(
        "npm test",
        r"npm (?:ERR!|error) (?P<what>(?:Test failed|Lifecycle script `test` failed)\b.*)",
        Weight.OUTLINE,
    ),
    Shape("npm test", r"\s*[✕\xd7✗✖] (?P<what>\S.*(?<!:))$", Weight.COMPANION),
    Shape("npm test", r"\s{4,}\d+\) (?P<what>\S.*)", Weight.COMPANION),
    # Anybody's bare count.
    Shape(
        "test run",
        r"\s*(?P<what>\d+ (?:pass|fail)(?:ed|ing)(?:\s*[,;|] ?\d+ [a-z]+)*)[\s.;]*$",
        Weight.OUTLINE,
        holds=_counts_failures,
    ),
)

# Every shape needs one of these; most lines have none.
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
# What differs from run to run, and would make a new finding of an old one.
_DURATION: Final = r"\s*(?:\(\d[\d.]* ?m?s\)|\d[\d.]*ms)\s*$"
_ADDRESS: Final = r"\b0x[0-9a-fA-F]{6,}\b"


def may_report(text: str) -> bool:
    """False only where `scan` surely finds nothing, warnings included."""
    # Either begins a sequence that may part the letters of a word.
    return "\x1b" in text or "\x9b" in text or _CUE.search(text) is not None


def scan(text: str, *, include_warnings: bool = False) -> tuple[Reported, ...]:
    """The failures that a text reports, in its order."""
    lines = [line[:LINE_CHARACTERS].rstrip() for line in plain(text).split("\n")]
    matches = list(_matches(lines, include_warnings=include_warnings))
    detailed = {match.source for match in matches if match.weight is Weight.DETAIL}
    failing = {match.source for match in matches if match.weight is not Weight.COMPANION and match.wanted}
    return tuple(
        Reported(match.source, match.summary)
        for match in matches
        if match.wanted
        and not (match.weight is Weight.OUTLINE and match.source in detailed)
        and not (match.weight is Weight.COMPANION and match.source not in failing)
    )


def _matches(lines: Sequence[str], *, include_warnings: bool) -> Iterator[_Match]:
    for index, line in enumerate(lines):
        if _CUE.search(line):
            fitting = (_matched(shape, lines, index, include_warnings=include_warnings) for shape in SHAPES)
            yield from islice((match for match in fitting if match is not None), 1)


def _matched(shape: Shape, lines: Sequence[str], index: int, *, include_warnings: bool) -> _Match | None:
    found = _compiled(shape.line).match(lines[index])
    if found is None or (shape.holds is not None and not shape.holds(found)):
        return None
    place = found.groupdict().get("at") or "" if shape.near is None else shape.near(lines, index)
    source = None if place is None else shape.source or _source(place)
    if source is None:
        return None
    is_warning = shape.warning if isinstance(shape.warning, bool) else shape.warning(found)
    what = _compiled(_ADDRESS).sub("0x…", _compiled(_DURATION).sub("", found["what"]))
    return _Match(source, f"{what} ({place})" if place else what, shape.weight, include_warnings or not is_warning)


def _source(place: str) -> str | None:
    suffix = _compiled(_SUFFIX).search(place)
    return _SOURCES.get(suffix[1]) if suffix else None
