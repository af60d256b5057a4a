"""Runs a command after each change and reports its result."""

import asyncio
import re
import shlex
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final, NamedTuple

from sideband.core.errors import InvalidOption, shown
from sideband.core.limits import Bound
from sideband.core.masking import mask_text
from sideband.tools.tool import offload
from sideband.watch import text
from sideband.watch.notice import Notice
from sideband.watch.process import ProcessEnd, run
from sideband.watch.reruns import Rerun, reruns
from sideband.watch.tree import DEBOUNCE_SECONDS, Tree

TTL_TURNS: Final = 1
TIMEOUT_SECONDS: Final = 600.0
AT_START: Final = "when the watch started"
AFTER_CHANGE: Final = "after the last change"
# At most this many files that changed during a run are named.
NAMED: Final = 3

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_TIMEOUT: Final = Bound(0, whole=False, above=True, optional=True)


class WatchedCommand:
    """A command that is run after each change, and how it is named in notices.

    `name` is part of dedupe keys and of `uri`; None makes it from the program and its first argument.
    """

    def __init__(self, command: Sequence[str], *, name: str | None, timeout_seconds: float | None) -> None:
        if isinstance(command, str) or not command or not command[0]:
            raise InvalidOption(
                f"command must be a program and its arguments, not {shown(command)}", field="command", value=command
            )
        _TIMEOUT.check("timeout_seconds", timeout_seconds)
        self.argv = tuple(command)
        # Masked before it is cut, because half of a secret is not recognised.
        self.line = text.name(shlex.join(command))
        self.name = default_name(command) if name is None else name
        if _NAME.fullmatch(self.name) is None:
            raise InvalidOption(
                f"name must have 1 to 64 letters, digits, dots, hyphens and underscores, not {shown(name)}",
                field="name",
                value=name,
            )
        self.uri = f"watch://{self.name}"
        self._timeout_seconds = timeout_seconds

    async def run(self, folder: Path, *, options: Sequence[str] = (), at: int | None = None) -> ProcessEnd:
        """Run it in a directory, with more options after the word at the position `at`."""
        place = len(self.argv) if at is None else at + 1
        argv = (*self.argv[:place], *options, *self.argv[place:])
        return await run(argv, folder=folder, seconds=self._timeout_seconds)


def default_name(command: Sequence[str]) -> str:
    """The program and its first argument that is not an option: `cargo-check` for `cargo check`."""
    program = Path(command[0]).name
    # A word with spaces is a script for a shell.
    argument = next((word for word in command[1:] if not word.startswith("-") and len(word.split()) == 1), None)
    words = mask_text(program if argument is None else f"{program}-{argument}")
    return _NOT_IN_NAME.sub("-", words)[:64].strip("-") or "command"


class _Reported(NamedTuple):
    """How a run ended, with the lines of its output that say why it failed."""

    outcome: ProcessEnd
    lines: list[str]
    latest: str


class CommandWatcher:
    """Runs a command at the start and after each settled change below `watch`, and reports whether it passed.

    The command runs in the directory `watch`, the current one by default. A change during a run kills it and starts it
    again; changes of the files `without` do not. The first run is reported if it failed, each further one whether it
    passed or failed; with `transitions_only`, only when that differs from the run before. `latest` is the last result
    with the end of the output, and `ready` is set when changes are noticed.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        name: str | None = None,
        watch: Path | None = None,
        debounce_seconds: float = DEBOUNCE_SECONDS,
        transitions_only: bool = False,
        timeout_seconds: float | None = TIMEOUT_SECONDS,
        without: Collection[Path] = (),
    ) -> None:
        self._command = WatchedCommand(command, name=name, timeout_seconds=timeout_seconds)
        self._tree = Tree(watch or Path(), debounce_seconds=debounce_seconds, without=without, field="watch")
        self._transitions_only = transitions_only
        self._before: ProcessEnd | None = None
        # Whether the last notice announced another run, whose result is then reported.
        self._announced = False
        self.name = self._command.name
        self.uri = self._command.uri
        self.title = f"Result of {self._command.line}"
        self.latest = f"{self._command.line} has not ended yet."
        self.ready = asyncio.Event()

    async def notices(self) -> AsyncGenerator[Notice, None]:
        """The notices from now on; the generator ends when the watched directory no longer exists."""
        self._before = None
        self._announced = False
        async with aclosing(reruns(self._tree, self._run, on_ready=self.ready.set)) as results:
            async for result in results:
                notice = self._notice(result)
                is_reported = self._is_reported(result)
                self._before = result.result.outcome
                self.latest = result.result.latest
                if is_reported:
                    self._announced = bool(result.changed)
                    yield notice

    async def _run(self) -> _Reported:
        outcome = await self._command.run(self._tree.folder)
        heading = f"{self._command.line} {outcome.fault or 'passed'}."
        # Output is scanned in a thread: it may have many lines.
        return await offload(
            lambda _: _Reported(outcome, text.failing_lines(outcome.output), text.report(heading, outcome.output))
        )

    def _is_reported(self, result: Rerun[_Reported]) -> bool:
        outcome, before = result.result.outcome, self._before
        if self._announced and not result.changed:
            return True
        if not outcome.started:
            return outcome != before
        if self._transitions_only or not result.after_change:
            return outcome.passed != (before is None or before.passed)
        return True

    def _notice(self, result: Rerun[_Reported]) -> Notice:
        outcome, lines, _ = result.result
        if not outcome.started:
            when = ""
        elif result.changed:
            # It would not be true that the result is one after the last change.
            when = f", but {text.listed(result.changed, NAMED)} changed during the run, and it runs again"
        else:
            when = f" {AFTER_CHANGE if result.after_change or self._before else AT_START}"
        fact = f"{self._command.line} {outcome.fault or 'passed'}{when}{':' if lines and outcome.fault else '.'}"
        outputs = (
            [f"(Changes of {text.listed(result.outputs, NAMED)} during the run were taken as its output.)"]
            if result.outputs and not result.changed
            else []
        )
        return Notice(
            body=text.body(fact, *outputs, *([] if outcome.passed else lines)),
            dedupe_key=f"{self.name}:status",
            ttl_turns=TTL_TURNS,
            tags=("build", self.name),
            uris=(self.uri,),
        )
