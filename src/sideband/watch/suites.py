"""Runs a test suite after each change and reports which tests have started or stopped failing."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from sideband.core.errors import InvalidOption, shown
from sideband.tools.tool import offload
from sideband.watch import text
from sideband.watch.commands import NAMED as NAMED_CHANGES
from sideband.watch.commands import TIMEOUT_SECONDS, WatchedCommand
from sideband.watch.junit import MAX_REPORT_BYTES, BrokenReport, read_junit
from sideband.watch.notice import MAX_SEPARATE, Notice
from sideband.watch.process import ProcessEnd
from sideband.watch.reruns import reruns
from sideband.watch.results import CaseId, FileDelta, Results, deltas, results_of
from sideband.watch.tree import DEBOUNCE_SECONDS, Tree

TTL_TURNS: Final = 2
TAGS: Final = ("tests",)
# At most this many tests of a file, and files of a suite, are named.
NAMED: Final = 8

_PYTEST: Final = frozenset({"pytest", "py.test"})
# Programs that run the program that is named after them.
_LAUNCHERS: Final = frozenset({"env", "hatch", "pdm", "pipenv", "pipx", "poetry", "rye", "uv", "uvx"})
_JUNIT_OPTIONS: Final = ("--junitxml", "--junit-xml")


class _SuiteRun(NamedTuple):
    """A run of the suite; `problem` says why its results are not known, and is empty if they are."""

    results: Results
    problem: str
    lines: Sequence[str]
    latest: str


class SuiteWatcher:
    """Runs a test suite at the start and after each settled change below `watch`, and compares it with the run before.

    The command runs in the directory `watch`, the current one by default, and writes JUnit XML to `junit`. For pytest
    `junit` may be None: the option for a temporary file is added. The first run reports which tests fail; each further
    one, which have started or stopped failing. Changes of the files `without` run nothing. `latest` is the last result,
    and `ready` is set when changes are noticed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        junit: Path | None = None,
        name: str | None = None,
        watch: Path | None = None,
        debounce_seconds: float = DEBOUNCE_SECONDS,
        timeout_seconds: float | None = TIMEOUT_SECONDS,
        without: Collection[Path] = (),
    ) -> None:
        self._command = WatchedCommand(command, name=name, timeout_seconds=timeout_seconds)
        self._pytest_at = pytest_position(command)
        named = _named_junit(command)
        given = junit or named
        if given is None and self._pytest_at is None:
            raise InvalidOption(
                f"junit must name the file to which {shown(self._command.line)} writes its results as JUnit XML (--junit "
                "FILE); only for pytest does Sideband add the option",
                field="junit",
            )
        root = (watch or Path()).resolve()
        # Relative to the directory in which the command runs.
        self._junit = None if given is None else (root if root.is_dir() else root.parent) / given
        without = without if self._junit is None else (*without, self._junit)
        self._tree = Tree(root, debounce_seconds=debounce_seconds, without=without, field="watch")
        self._adds_option = self._pytest_at is not None and named is None
        self.name = self._command.name
        self.uri = self._command.uri
        self.title = f"Tests of {self._command.line}"
        self.latest = f"{self._command.line} has not ended yet."
        self.ready = asyncio.Event()

    async def notices(self) -> AsyncGenerator[Notice, None]:
        """The notices from now on; the generator ends when the watched directory no longer exists."""
        known: dict[CaseId, bool] = {}
        had_problem = False
        with tempfile.TemporaryDirectory(prefix="sideband-watch-") as folder:
            run = partial(self._run, Path(folder) / "junit.xml")
            async with aclosing(reruns(self._tree, run, on_ready=self.ready.set)) as runs:
                async for rerun in runs:
                    finished = rerun.result
                    self.latest = finished.latest
                    note = _note(rerun.changed)
                    if finished.problem:
                        fact = f"{finished.problem}{':' * bool(finished.lines)}"
                        yield self._notice(self.name, fact, *note, *finished.lines)
                    elif had_problem:
                        fact = f"{self._command.line} has results again: {_totals(finished.results)}."
                        yield self._notice(self.name, fact, *note)
                    had_problem = bool(finished.problem)
                    for notice in self._reported(deltas(known, finished.results), note):
                        yield notice

    async def _run(self, own_report: Path) -> _SuiteRun:
        report = self._junit or own_report
        before = _signature(report)
        # The older format names the file of each test.
        options = (f"--junitxml={report}", "-o", "junit_family=xunit1") if self._adds_option else ()
        outcome = await self._command.run(self._tree.folder, options=options, at=self._pytest_at)
        # In a thread: the report is read and the output is scanned.
        return await offload(lambda _: self._read(outcome, report, is_written=_signature(report) != before))

    def _read(self, outcome: ProcessEnd, report: Path, *, is_written: bool) -> _SuiteRun:
        ended = f"{self._command.line} {outcome.fault or 'passed'}"
        results: Results = {}
        problem = ""
        if not outcome.started:
            problem = ended
        elif not is_written:
            problem = f"{ended} and wrote no test report"
        else:
            try:
                results = results_of(read_junit(_content(report)), self._tree.folder)
            except (BrokenReport, OSError) as error:
                problem = f"{ended}, and its test report cannot be read: {error}"
            else:
                if outcome.fault and not any(failure is not None for failure in results.values()):
                    problem = f"{ended}, but its report has no failing test"
        failing = [
            f"{file}: {name}: {failure}" for (file, name), failure in sorted(results.items()) if failure is not None
        ]
        heading = problem or f"{self._command.line}: {_totals(results)}."
        latest = text.report(heading, "\n".join([*failing[:MAX_SEPARATE], "", outcome.output]))
        return _SuiteRun(results, problem, text.failing_lines(outcome.output) if problem else (), latest)

    def _reported(self, changes: Sequence[FileDelta], note: Sequence[str] = ()) -> Iterator[Notice]:
        if len(changes) > MAX_SEPARATE:
            fail = sum(len(change.failing) for change in changes)
            passed = sum(len(change.passing) for change in changes)
            files = text.listed([change.file for change in changes], NAMED)
            fact = f"In {len(changes):,} files, {text.counted(fail, 'test')} started and {passed:,} stopped failing: {files}."
            yield self._notice(self.name, fact, *note)
            return
        for change in changes:
            facts = [
                f"{text.listed(names, NAMED)} {verb if len(names) > 1 else third} now"
                for names, verb, third in ((list(change.failing), "fail", "fails"), (change.passing, "pass", "passes"))
                if names
            ]
            reasons = [
                f"{text.name(name)}: {text.name(failure)}"
                for name, failure in list(change.failing.items())[: text.MAX_LINES]
                if failure
            ]
            yield self._notice(change.file, f"{text.name(change.file)}: {'; '.join(facts)}.", *note, *reasons)

    def _notice(self, subject: str, *lines: str) -> Notice:
        return Notice(
            body=text.body(*lines),
            dedupe_key=text.key("test", subject),
            ttl_turns=TTL_TURNS,
            tags=TAGS,
            uris=(self.uri,),
        )


def _note(changed: Sequence[str]) -> tuple[str, ...]:
    """What a notice says of files that changed during the run, so that its results are not taken for the last ones."""
    if not changed:
        return ()
    return (f"(The tests run again, because of changes during this run: {text.listed(changed, NAMED_CHANGES)}.)",)


def pytest_position(command: Sequence[str]) -> int | None:
    """The position of pytest in a command: the program itself, its module, or the program that a launcher runs."""
    launched = Path(command[0]).name in _LAUNCHERS
    for index, word in enumerate(command):
        if Path(word).name in _PYTEST and (index == 0 or launched or command[index - 1] == "-m"):
            return index
    return None


def _named_junit(command: Sequence[str]) -> Path | None:
    """The file that the command already names for its report."""
    for index, word in enumerate(command):
        option, is_assigned, value = word.partition("=")
        if option in _JUNIT_OPTIONS:
            return Path(value if is_assigned else "".join(command[index + 1 : index + 2]))
    return None


def _content(report: Path) -> bytes:
    with report.open("rb") as file:
        data = file.read(MAX_REPORT_BYTES + 1)
    if len(data) > MAX_REPORT_BYTES:
        raise BrokenReport(f"it has more than {MAX_REPORT_BYTES:,} bytes")
    return data


def _signature(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _totals(results: Results) -> str:
    failing = sum(failure is not None for failure in results.values())
    return f"{text.counted(len(results), 'test')}, {failing:,} {'fails' if failing == 1 else 'fail'}"
