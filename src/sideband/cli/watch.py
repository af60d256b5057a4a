"""`sideband watch`: tell a session what changes in its workspace."""

import asyncio
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from cyclopts import Parameter

from sideband.cli.app import FAILED, OK, REFUSALS, refuse, refuse_request
from sideband.cli.listen import stop_at_signals
from sideband.cli.request import Recipient, print_reply, tell
from sideband.cli.target import (
    Address,
    Flag,
    Integer,
    JsonLinesOption,
    ServerLost,
    ServerToOption,
    StoreOption,
    StudioAddress,
    address,
    find,
    server_address,
)
from sideband.core.errors import InvalidOption, ReminderError, TaskFinished, UnknownSession, shown
from sideband.inspect.report import CommandError, printable

if TYPE_CHECKING:
    from sideband.watch.notice import Notice, NoticeWatcher

DEBOUNCE_MS: Final = 100
MAX_DEBOUNCE_MS: Final = 60_000
STORE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")
# How the parameters of watchers are named in errors; the option is put in place of the braces.
_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"root": "{}", "command": "{}", "watch": "{}: the current directory", "name": "--name", "junit": "--junit"}
)
# The session accepts nothing more.
_ENDED: Final = (UnknownSession, TaskFinished)


def watch(
    *,
    to: ServerToOption = None,
    store: StoreOption = None,
    files: Annotated[tuple[Path, ...], Parameter(negative=(), show_default=False)] = (),
    tests: Annotated[str | None, Parameter(metavar="CMD")] = None,
    junit: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    command: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False, metavar="CMD")] = (),
    name: Annotated[str | None, Parameter(metavar="NAME")] = None,
    git: Flag = False,
    debounce: Annotated[Integer, Parameter(metavar="MS")] = DEBOUNCE_MS,
    transitions_only: Flag = False,
    json: JsonLinesOption = False,
) -> int:
    """Watch files, tests, commands and Git, and tell a session what changes, until Ctrl-C.

    The session may be running in another process. It gets reminders as with `sideband remind`: a running agent takes one
    at its next seam, an idle one shows it in its next turn, and a newer one replaces an older one about the same thing.
    Files that Git ignores and saves that change nothing are not reported. CMD is split into words like a line of a shell,
    but no shell runs it. If a running server is lost, the newest notices are told when it is back.

    Ends with 0 on Ctrl-C and SIGTERM, with 1 when the session is closed or deleted, and with 2 if an option is wrong,
    the session cannot be reached, or nothing that was watched exists any more.

    Parameters
    ----------
    files
        A directory or a file to watch for changes on disk; may be given several times.
    tests
        The command of a test suite. It runs at the start and after each change in this directory, and tests that start
        or stop failing are reported.
    junit
        The file to which the command of `--tests` writes its results as JUnit XML. pytest needs none.
    command
        A command, for example a build. It runs at the start and after each change in this directory, and its result is
        reported; may be given several times.
    name
        The name of the command in the key of its reminders, `NAME:status`. The default is its program and first
        argument.
    git
        Report when the branch or its upstream branch moves, and when merge conflicts start and end.
    debounce
        For how many milliseconds nothing may change before a change is reported.
    transitions_only
        Report the result of a command only when it differs from the one before.
    """
    if not (files or tests is not None or command or git):
        return refuse("nothing is watched; name at least one of --files PATH, --tests CMD, --command CMD and --git")
    try:
        wanted: StudioAddress | Address = server_address(to, store) or address(to, store)
        if junit is not None and tests is None:
            raise CommandError("--junit names the results of --tests CMD, which is missing")
        if name is not None and len(command) != 1:
            raise CommandError(f"--name names one command, and there are {len(command)} --command CMD")
        if debounce is None or not 1 <= debounce <= MAX_DEBOUNCE_MS:
            raise CommandError(f"--debounce must be between 1 and {MAX_DEBOUNCE_MS:,} milliseconds, not {debounce}")
        store_files = _store_files(wanted.store_url) if isinstance(wanted, Address) else ()
        options = _Options(debounce / 1000, store_files, name, transitions_only)
        watchers = _watchers(files, tests, junit, command, options, git=git)
        status = _watch_for(wanted, watchers, json=json)
    except ModuleNotFoundError as missing:
        return refuse(missing)
    except REFUSALS as error:
        return refuse_request(error)
    return status


def _watch_for(wanted: StudioAddress | Address, watchers: "Mapping[str, NoticeWatcher]", *, json: bool) -> int:
    """Tell the session that is meant what the watchers notice; the exit status."""
    if isinstance(wanted, StudioAddress):
        from sideband.cli.server_session import recipient_at  # noqa: PLC0415 - only needed for a server

        name, recipient = recipient_at(wanted)
        return asyncio.run(_relay(recipient, watchers, session_id=name, json=json))
    session_id = find(wanted)
    _, status = tell(
        session_id,
        wanted.store_url,
        lambda recipient: _relay(recipient, watchers, session_id=session_id, json=json),
    )
    return status


class _Options(NamedTuple):
    """How watchers are started; `name=None` derives the name of a command from it."""

    seconds: float
    without: tuple[Path, ...]
    name: str | None
    transitions_only: bool


def _store_files(url: str) -> tuple[Path, ...]:
    """The files of a store, which every reminder changes: they would be reported for ever."""
    if not url.startswith("sqlite:"):
        return ()
    from sideband.runtime.store import sqlite_path  # noqa: PLC0415 - the help of a command does not need it

    file = Path(sqlite_path(url)).expanduser()
    return tuple(file.with_name(file.name + suffix) for suffix in STORE_SUFFIXES)


def _watchers(
    files: Sequence[Path],
    tests: str | None,
    junit: Path | None,
    commands: Sequence[str],
    options: _Options,
    *,
    git: bool,
) -> "dict[str, NoticeWatcher]":
    """A watcher for each option, by the option as it was written."""
    # Imported here, so that the help of the command appears fast, and without the extra.
    from sideband.watch.commands import CommandWatcher  # noqa: PLC0415 - see above
    from sideband.watch.files import FileWatcher  # noqa: PLC0415 - see above
    from sideband.watch.git import GitWatcher  # noqa: PLC0415 - see above
    from sideband.watch.suites import SuiteWatcher  # noqa: PLC0415 - see above

    watchers: dict[str, NoticeWatcher] = {}
    for path in files:
        with _naming("--files"):
            watchers[f"--files {path}"] = FileWatcher(path, debounce_seconds=options.seconds, without=options.without)
    if tests is not None:
        with _naming("--tests"):
            watchers[f"--tests {tests}"] = SuiteWatcher(
                _words("--tests", tests), junit=junit, debounce_seconds=options.seconds, without=options.without
            )
    lines: dict[str, str] = {}
    for line in commands:
        with _naming("--command"):
            watcher = CommandWatcher(
                _words("--command", line),
                name=options.name,
                debounce_seconds=options.seconds,
                transitions_only=options.transitions_only,
                without=options.without,
            )
        if watcher.name in lines:
            raise CommandError(
                f"two commands have the name {watcher.name!r}: {shown(lines[watcher.name])} and {shown(line)}; watch one "
                "of them with another `sideband watch --name NAME`"
            )
        lines[watcher.name] = line
        watchers[f"--command {line}"] = watcher
    if git:
        with _naming("--git"):
            watchers["--git"] = GitWatcher(Path(), debounce_seconds=options.seconds)
    return watchers


def _words(option: str, line: str) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise CommandError(f"{option}: {shown(line)} cannot be split into words: {error}") from None
    if not words:
        raise CommandError(f"{option} must be a command, not {shown(line)}")
    return words


@contextmanager
def _naming(option: str) -> Iterator[None]:
    """Name the option in an error instead of the parameter of the watcher."""
    try:
        yield
    except InvalidOption as error:
        text = str(error).removeprefix(f"{error.code}: ")
        parameter, _, rest = text.partition(" ")
        # The watcher of Git gets the current directory, and so does that of commands.
        name = _NAMES.get("watch" if option == "--git" else parameter, "{}: " + parameter)
        raise CommandError(f"{name.format(option)} {rest}") from None


async def _relay(recipient: Recipient, watchers: "Mapping[str, NoticeWatcher]", *, session_id: str, json: bool) -> int:
    """Tell the session all notices until a signal arrives or nothing is left to watch; the exit status."""
    teller = _Teller(recipient, session_id=session_id, json=json)
    stopping = asyncio.ensure_future(stop_at_signals().wait())
    announcing = asyncio.ensure_future(_announce(watchers, session_id))
    retrying = asyncio.ensure_future(teller.retry())
    telling: dict[asyncio.Future[Any], str] = {
        asyncio.ensure_future(_tell_all(teller, watcher)): option for option, watcher in watchers.items()
    }
    running = {*telling}
    try:
        while running:
            done, _ = await asyncio.wait({*running, stopping, retrying}, return_when=asyncio.FIRST_COMPLETED)
            if stopping in done:
                return OK
            if retrying in done:
                retrying.result()
            for ended in done:
                with _naming(telling[ended]):
                    ended.result()
                running.discard(ended)
                _say(f"{telling[ended]}: what was watched no longer exists")
        return FAILED
    finally:
        tasks = (*telling, stopping, announcing, retrying)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _announce(watchers: "Mapping[str, NoticeWatcher]", session_id: str) -> None:
    for watcher in watchers.values():
        await watcher.ready.wait()
    _say(f"watching for session {session_id}: {', '.join(watchers)}; Ctrl-C ends it")


async def _tell_all(teller: "_Teller", watcher: "NoticeWatcher") -> None:
    async with aclosing(watcher.notices()) as notices:
        async for notice in notices:
            await teller.tell(notice)


class _Teller:
    """Tells a session notices. While its server is lost, it keeps the newest notice of each key."""

    def __init__(self, recipient: Recipient, *, session_id: str, json: bool) -> None:
        self._recipient = recipient
        self._session_id = session_id
        self._json = json
        self._kept: dict[str, Notice] = {}
        self._lost = asyncio.Event()

    async def tell(self, notice: "Notice") -> None:
        """Tell the session a notice, or keep it if the server is lost."""
        if not self._lost.is_set():
            try:
                await self._send(notice)
            except ServerLost as lost:
                if not self._lost.is_set():
                    _say(f"lost the server ({lost.reason}); trying again")
                self._lost.set()
            else:
                return
        self._kept[notice.dedupe_key] = notice

    async def retry(self) -> None:
        """Tell what was kept whenever the server is back, until this is cancelled."""
        while await self._lost.wait():
            from sideband.cli.server_client import pauses  # noqa: PLC0415 - only needed for a server

            waits = pauses()
            while self._kept:
                await asyncio.sleep(next(waits))
                try:
                    await self._send_kept()
                except ServerLost:
                    continue
            self._lost.clear()
            _say("connected to the server again")

    async def _send_kept(self) -> None:
        while self._kept:
            key, notice = next(iter(self._kept.items()))
            await self._send(notice)
            # A newer one may have come meanwhile.
            if self._kept[key] is notice:
                del self._kept[key]

    async def _send(self, notice: "Notice") -> None:
        session_id, json = self._session_id, self._json
        payload = {
            "body": notice.body,
            "dedupe_key": notice.dedupe_key,
            "ttl_turns": notice.ttl_turns,
            "tags": notice.tags,
        }
        fact = notice.body.partition("\n")[0]
        try:
            accepted = await self._recipient.remind(payload)
        except _ENDED:
            raise
        except ReminderError as error:
            text = f"refused by {session_id}: {fact} ({error})"
            print_reply(text, json=json, session=session_id, refused=error.reason, **payload)
        else:
            print_reply(
                f"told {session_id}: {fact}",
                json=json,
                session=session_id,
                reminder_id=accepted.reminder_id,
                deduped_count=accepted.deduped_count,
                **payload,
            )
        sys.stdout.flush()


def _say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)
