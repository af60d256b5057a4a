"""The check of a set of files."""

import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.catalogue import Severity
from sideband.core.diagnostics import diagnostic
from sideband.core.errors import TooManyProviders
from sideband.core.hookevents import CANONICAL_PROVIDERS, MAX_OTHER_PROVIDERS, refuse_too_many_providers
from sideband.lint import data, python
from sideband.lint.files import MAX_BYTES, File, NotReadable, content, files_below
from sideband.lint.found import Found, Model, Problem, ProviderChoice, ProviderId
from sideband.lint.jsonsource import read_json, read_json_lines
from sideband.lint.literals import START, Position, Unreadable
from sideband.lint.pysource import Source
from sideband.lint.routes import UnknownRoute, is_route
from sideband.lint.rules import problems
from sideband.lint.tomlsource import read_toml

UNREADABLE: Final = "SIDEBAND-100"
NOTHING_IGNORED: Final[Mapping[int, frozenset[str]]] = MappingProxyType({})

# A file without any of these words has nothing of ours; reading on would only find that out more slowly.
_MENTIONS: Final = re.compile(
    rb"remind|providers|propagate|register_(?:tool|step|persona|session)_hook"
    rb"|ttl_?turns|dedupe_?key|preserve_?on_?compact|role_?hint",
    re.IGNORECASE,
)
# A broken file that was only come across is somebody else's, unless it speaks of reminders.
_SPEAKS_OF_US: Final = re.compile(rb"remind", re.IGNORECASE)


class Finding(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One problem at one place; `key` is the option it is about, empty where it is about no single one."""

    path: str
    line: int
    column: int
    code: str
    severity: Severity
    message: str
    key: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a check came to: `files` were looked at, `too_large` were not, `unreadable` says what failed and why."""

    findings: tuple[Finding, ...]
    files: int = 1
    too_large: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


class _Reading(NamedTuple):
    """What was found in one file, and the codes that it asks not to hear of, by line."""

    path: str
    found: tuple[Found, ...] = ()
    broken: Unreadable | None = None
    ignored: Mapping[int, frozenset[str]] = NOTHING_IGNORED


def check(
    paths: Sequence[Path], *, model: str | None = None, select: Collection[str] = (), ignore: Collection[str] = ()
) -> Report:
    """Look at these files, and at all in these folders, as one set.

    `model` takes the place of the models that the files name; `select` leaves only these codes, `ignore` all others.
    """
    choice = _Choice.of(model=model, select=select, ignore=ignore)
    readings: list[_Reading] = []
    too_large: list[str] = []
    unreadable: list[str] = []
    files = 0
    for found in files_below(paths):
        try:
            file, raw = _opened(found)
        except NotReadable as error:
            unreadable.append(str(error))
            continue
        files += 1
        if raw is not None:
            readings.extend(_worth_reporting(file, raw))
        elif file.named:
            broken = Unreadable(f"larger than {MAX_BYTES:,} bytes", START)
            readings.append(_Reading(file.path.as_posix(), broken=broken))
        else:
            too_large.append(file.path.as_posix())
    findings = choice.findings(readings)
    return Report(findings=findings, files=files, too_large=tuple(too_large), unreadable=tuple(unreadable))


def _opened(found: File | NotReadable) -> tuple[File, bytes | None]:
    if isinstance(found, NotReadable):
        raise found
    return found, content(found.path)


def check_source(raw: bytes, path: PurePath, *, model: str | None = None) -> tuple[Finding, ...]:
    """What is wrong with one file whose content is at hand; `path` says what kind of file it is."""
    return _Choice.of(model=model).findings([_read(raw, path)])


def _worth_reporting(file: File, raw: bytes) -> Iterator[_Reading]:
    if file.named or _MENTIONS.search(raw):
        reading = _read(raw, file.path)
        if file.named or reading.broken is None or _SPEAKS_OF_US.search(raw):
            yield reading


# Reading.


def _read(raw: bytes, path: PurePath) -> _Reading:
    name = path.as_posix()
    try:
        if path.suffix == ".py":
            source = Source(raw)
            return _Reading(name, tuple(python.found_in(source)), ignored=source.ignored())
        if path.suffix in {".jsonl", ".ndjson"}:
            return _read_lines(name, _text(raw))
        document = read_toml(_text(raw)) if path.suffix == ".toml" else read_json(_text(raw))
        return _Reading(name, tuple(data.found_in(document)))
    except Unreadable as error:
        return _Reading(name, broken=error)


def _read_lines(name: str, text: str) -> _Reading:
    """All lines that can be read, and the first that cannot."""
    found: list[Found] = []
    broken: Unreadable | None = None
    for line in read_json_lines(text):
        if isinstance(line, Unreadable):
            broken = broken or line
        else:
            found.extend(data.found_in(line))
    return _Reading(name, tuple(found), broken)


def _text(raw: bytes) -> str:
    raw = raw.removeprefix(BOM_UTF8)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
        line = before.count("\n") + 1
        raise Unreadable("not UTF-8", Position(line, len(before) - before.rfind("\n"))) from None


# Judging.


class _Choice(NamedTuple):
    """What the caller wants to hear of."""

    model: str | None
    select: frozenset[str]
    ignore: frozenset[str]

    @classmethod
    def of(cls, *, model: str | None, select: Collection[str] = (), ignore: Collection[str] = ()) -> "_Choice":
        if model is not None and not is_route(model):
            raise UnknownRoute(model)
        return cls(
            model,
            frozenset(diagnostic(code).code for code in select),
            frozenset(diagnostic(code).code for code in ignore),
        )

    def findings(self, readings: Sequence[_Reading]) -> tuple[Finding, ...]:
        found: set[Finding] = set()
        by_path = {reading.path: reading for reading in readings}
        for path, problem in (*self._in_each(readings), *_too_many_providers(readings)):
            hushed = by_path[path].ignored.get(problem.at.line, frozenset()) | self.ignore
            if problem.code not in hushed and (not self.select or problem.code in self.select):
                found.add(_finding(path, problem))
        return tuple(sorted(found))

    def _in_each(self, readings: Iterable[_Reading]) -> Iterator[tuple[str, Problem]]:
        for reading in readings:
            if reading.broken is not None:
                yield reading.path, Problem(UNREADABLE, reading.broken.at, str(reading.broken))
            named = tuple(found.name for found in reading.found if isinstance(found, Model))
            models = named if self.model is None else (self.model,)
            for found in reading.found:
                for problem in problems(found, models):
                    yield reading.path, problem


def _finding(path: str, problem: Problem) -> Finding:
    return Finding(
        path=path,
        line=problem.at.line,
        column=problem.at.column,
        code=problem.code,
        severity=diagnostic(problem.code).severity,
        message=problem.message,
        key=problem.key or "",
    )


def _too_many_providers(readings: Iterable[_Reading]) -> Iterator[tuple[str, Problem]]:
    """Who registers is in force everywhere; who chooses, for one loop. Without any choice, the registrations count."""
    registered: dict[str, tuple[str, Position]] = {}
    choices: list[tuple[str, ProviderChoice]] = []
    for reading in readings:
        for found in reading.found:
            if isinstance(found, ProviderId):
                registered.setdefault(found.id, (reading.path, found.at))
            elif isinstance(found, ProviderChoice):
                choices.append((reading.path, found))
    for path, choice in choices:
        dashed = {name for name in choice.ids if name.startswith("-")}
        enabled = [name for name in (*registered, *choice.ids) if name not in dashed and f"-{name}" not in dashed]
        for error in _refused(enabled):
            yield path, _provider_problem(error, choice.at)
    if not choices:
        for error in _refused(registered):
            others = [name for name in registered if name not in CANONICAL_PROVIDERS]
            path, at = registered[others[MAX_OTHER_PROVIDERS]]
            yield path, _provider_problem(error, at)


def _refused(enabled: Iterable[str]) -> Iterator[TooManyProviders]:
    try:
        refuse_too_many_providers(enabled)
    except TooManyProviders as error:
        yield error


def _provider_problem(error: TooManyProviders, at: Position) -> Problem:
    return Problem(error.code, at, str(error).removeprefix(f"{error.code}: "), error.field)
