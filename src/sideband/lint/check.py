"""Check a set of files."""

import re
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from sideband.core.diagnostics import diagnostic
from sideband.core.errors import TooManyProviders
from sideband.core.explanation import Severity
from sideband.core.hookevents import CANONICAL_PROVIDERS, MAX_OTHER_PROVIDERS, refuse_too_many_providers
from sideband.lint.data import found_in_data, read_json, read_json_lines, read_toml
from sideband.lint.files import MAX_BYTES, File, NotReadable, content, files_below
from sideband.lint.found import Found, LintProblem, NamedModel, ProviderChoice, ProviderId
from sideband.lint.literals import START, Position, UnreadableSource
from sideband.lint.python import PythonSource, found_in_python
from sideband.lint.rules import UnknownRoute, is_route, problems

UNREADABLE: Final = "SIDEBAND-100"
NOTHING_IGNORED: Final[Mapping[int, frozenset[str]]] = MappingProxyType({})

# A file without any of these words uses no interface of Sideband, so it is not parsed.
_MENTIONS: Final = re.compile(
    rb"remind|providers|propagate|register_(?:tool|step|persona|session)_hook"
    rb"|ttl_?turns|dedupe_?key|preserve_?on_?compact|role_?hint",
    re.IGNORECASE,
)
# An unreadable file in a folder is reported only if it mentions reminders; other unreadable files are ignored.
_SPEAKS_OF_US: Final = re.compile(rb"remind", re.IGNORECASE)


class LintFinding(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One problem at one position; `key` is the option concerned (empty: no single one)."""

    path: str
    line: int
    column: int
    code: str
    severity: Severity
    message: str
    key: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check.

    `files` counts the files that were checked; `too_large` lists those that were not. `unreadable` holds a message for
    each path that could not be read.
    """

    findings: tuple[LintFinding, ...]
    files: int = 1
    too_large: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


class _Reading(NamedTuple):
    """The uses in one file, and the codes that its comments silence, by line."""

    path: str
    found: tuple[Found, ...] = ()
    broken: UnreadableSource | None = None
    ignored: Mapping[int, frozenset[str]] = NOTHING_IGNORED


def check(
    paths: Sequence[Path], *, model: str | None = None, select: Collection[str] = (), ignore: Collection[str] = ()
) -> Report:
    """Check these files, and all files in these folders, as one set.

    `model` replaces the models that the files name. Only the codes in `select` are reported (empty: all codes), without
    those in `ignore`.
    """
    choice = _Selection.of(model=model, select=select, ignore=ignore)
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
            broken = UnreadableSource(f"larger than {MAX_BYTES:,} bytes", START)
            readings.append(_Reading(file.path.as_posix(), broken=broken))
        else:
            too_large.append(file.path.as_posix())
    findings = choice.findings(readings)
    return Report(findings=findings, files=files, too_large=tuple(too_large), unreadable=tuple(unreadable))


def _opened(found: File | NotReadable) -> tuple[File, bytes | None]:
    if isinstance(found, NotReadable):
        raise found
    return found, content(found.path)


def check_source(raw: bytes, path: PurePath, *, model: str | None = None) -> tuple[LintFinding, ...]:
    """Check the content of one file; the suffix of `path` tells its format."""
    return _Selection.of(model=model).findings([_read(raw, path)])


def _worth_reporting(file: File, raw: bytes) -> Iterator[_Reading]:
    if file.named or _MENTIONS.search(raw):
        reading = _read(raw, file.path)
        if file.named or reading.broken is None or _SPEAKS_OF_US.search(raw):
            yield reading


# Read.


def _read(raw: bytes, path: PurePath) -> _Reading:
    name = path.as_posix()
    try:
        if path.suffix == ".py":
            source = PythonSource(raw)
            return _Reading(name, tuple(found_in_python(source)), ignored=source.ignored())
        if path.suffix in {".jsonl", ".ndjson"}:
            return _read_lines(name, _text(raw))
        document = read_toml(_text(raw)) if path.suffix == ".toml" else read_json(_text(raw))
        return _Reading(name, tuple(found_in_data(document)))
    except UnreadableSource as error:
        return _Reading(name, broken=error)


def _read_lines(name: str, text: str) -> _Reading:
    """Read every line; only the first unreadable one is reported."""
    found: list[Found] = []
    broken: UnreadableSource | None = None
    for line in read_json_lines(text):
        if isinstance(line, UnreadableSource):
            broken = broken or line
        else:
            found.extend(found_in_data(line))
    return _Reading(name, tuple(found), broken)


def _text(raw: bytes) -> str:
    raw = raw.removeprefix(BOM_UTF8)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode()
        line = before.count("\n") + 1
        raise UnreadableSource("not UTF-8", Position(line, len(before) - before.rfind("\n"))) from None


# Report.


class _Selection(NamedTuple):
    """What the caller wants reported, and for which model."""

    model: str | None
    select: frozenset[str]
    ignore: frozenset[str]

    @classmethod
    def of(cls, *, model: str | None, select: Collection[str] = (), ignore: Collection[str] = ()) -> "_Selection":
        if model is not None and not is_route(model):
            raise UnknownRoute(model)
        return cls(
            model,
            frozenset(diagnostic(code).code for code in select),
            frozenset(diagnostic(code).code for code in ignore),
        )

    def findings(self, readings: Sequence[_Reading]) -> tuple[LintFinding, ...]:
        found: set[LintFinding] = set()
        by_path = {reading.path: reading for reading in readings}
        for path, problem in (*self._in_each(readings), *_too_many_providers(readings)):
            silenced = by_path[path].ignored.get(problem.at.line, frozenset()) | self.ignore
            if problem.code not in silenced and (not self.select or problem.code in self.select):
                found.add(_finding(path, problem))
        return tuple(sorted(found))

    def _in_each(self, readings: Sequence[_Reading]) -> Iterator[tuple[str, LintProblem]]:
        registered = {found.id for reading in readings for found in reading.found if isinstance(found, ProviderId)}
        for reading in readings:
            if reading.broken is not None:
                yield reading.path, LintProblem(UNREADABLE, reading.broken.at, str(reading.broken))
            named = tuple(found.name for found in reading.found if isinstance(found, NamedModel))
            models = named if self.model is None else (self.model,)
            for found in reading.found:
                for problem in problems(found, models, registered):
                    yield reading.path, problem


def _finding(path: str, problem: LintProblem) -> LintFinding:
    return LintFinding(
        path=path,
        line=problem.at.line,
        column=problem.at.column,
        code=problem.code,
        severity=problem.severity or diagnostic(problem.code).severity,
        message=problem.message,
        key=problem.key or "",
    )


def _too_many_providers(readings: Iterable[_Reading]) -> Iterator[tuple[str, LintProblem]]:
    """Check the number of providers per loop.

    Registered providers run in every loop, chosen providers in one. Without any choice the registrations are counted.
    """
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


def _provider_problem(error: TooManyProviders, at: Position) -> LintProblem:
    return LintProblem(error.code, at, str(error).removeprefix(f"{error.code}: "), error.field)
