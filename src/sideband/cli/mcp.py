"""`sideband mcp`: watchers as MCP servers, which hosts start; `mcp_listen` shows what a host makes of a server."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

from cyclopts import App, Parameter
from cyclopts.validators import Number

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.commands import COMMANDS
from sideband.cli.listen import listen, stop_at_signals, url_of
from sideband.cli.target import Flag
from sideband.core.errors import InvalidOption
from sideband.inspect.report import CommandError

if TYPE_CHECKING:
    from sideband.protocols.mcp.server.watch_server import WatchServer

mcp: Final = App(
    name="mcp",
    help="Serve a watcher to MCP hosts, or see what a host accepts from a server.",
    help_epilogue=COMMANDS["mcp"].epilogue,
)

MAX_DEBOUNCE_MS: Final = 60_000

_HttpOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--http",
        metavar="HOST:PORT",
        help="Serve over streamable HTTP at `/mcp` on this loopback address instead of standard input and output.",
    ),
]
_DebounceOption: TypeAlias = Annotated[
    int,
    Parameter(
        name="--debounce",
        metavar="MS",
        help="How long nothing must change before it is reported, in milliseconds; at most 60,000.",
        validator=Number(gte=1, lte=MAX_DEBOUNCE_MS),
    ),
]
_OnlyDeclaredOption: TypeAlias = Annotated[
    Flag,
    Parameter(
        name="--only-declared",
        help="Send reminders only to clients that declare them. Without it, clients up to 2025-11-25 get them too.",
    ),
]
_HookToolOption: TypeAlias = Annotated[
    Flag,
    Parameter(
        name="--hook-tool",
        help="Add the tool `pending_reminders`, which hooks of Claude Code can call.",
    ),
]
_Command: TypeAlias = Annotated[
    str, Parameter(allow_leading_hyphen=True, help="The command and its arguments, after `--`.")
]


mcp.command(
    "sideband.cli.mcp_listen:listen",
    name="listen",
    help="Connect to MCP servers and print each reminder that a host accepts, holds or drops.",
)


@mcp.command(name="watch-files")
def watch_files(
    path: Path = Path(),
    /,
    *,
    http: _HttpOption = None,
    debounce: _DebounceOption = 100,
    only_declared: _OnlyDeclaredOption = False,
    hook_tool: _HookToolOption = False,
) -> int:
    """Tell clients which files have changed on disk.

    A reminder is sent for each file; ignored files and saves that change nothing are left out. The files can be read as
    resources.

    Parameters
    ----------
    path
        The folder, or the file, to watch.
    """

    def make() -> "WatchServer":
        from sideband.protocols.mcp.server.watch_server import WatchServer  # noqa: PLC0415 - the help does not need it
        from sideband.watch.files import FileWatcher  # noqa: PLC0415 - the same

        return WatchServer(
            "watch-files",
            [FileWatcher(path, debounce_seconds=debounce / 1000)],
            instructions=f"Reports changes of files below {path.resolve()} and serves the files as resources.",
            files=path,
            only_declared=only_declared,
            hook_tool=hook_tool,
        )

    return _run(make, http)


@mcp.command(name="watch-command")
def watch_command(
    *command: _Command,
    name: str | None = None,
    watch: Path = Path(),
    transitions_only: Flag = False,
    http: _HttpOption = None,
    debounce: _DebounceOption = 100,
    only_declared: _OnlyDeclaredOption = False,
    hook_tool: _HookToolOption = False,
) -> int:
    """Run a command after each change of files, and tell clients whether it passed.

    Parameters
    ----------
    name
        The name of the result; the default is the program and its first argument.
    watch
        The folder, or the file, whose changes start the command.
    transitions_only
        Tell only when the result changes from passed to failed or back.
    """

    def make() -> "WatchServer":
        from sideband.protocols.mcp.server.watch_server import WatchServer  # noqa: PLC0415 - the help does not need it
        from sideband.watch.commands import CommandWatcher  # noqa: PLC0415 - the same

        watcher = CommandWatcher(
            command,
            name=name,
            watch=watch,
            debounce_seconds=debounce / 1000,
            transitions_only=transitions_only,
        )
        return WatchServer(
            "watch-command",
            [watcher],
            instructions=f"Runs a command after each change of files below {watch.resolve()} and reports its result.",
            only_declared=only_declared,
            hook_tool=hook_tool,
        )

    return _run(make, http, command=("watch-command", command))


@mcp.command(name="watch-tests")
def watch_tests(
    *command: _Command,
    junit: Path | None = None,
    watch: Path = Path(),
    http: _HttpOption = None,
    debounce: _DebounceOption = 100,
    only_declared: _OnlyDeclaredOption = False,
    hook_tool: _HookToolOption = False,
) -> int:
    """Run a test suite after each change of files, and tell clients which tests have started or stopped failing.

    Parameters
    ----------
    junit
        The file in which the test suite writes its results as JUnit XML.
    watch
        The folder, or the file, whose changes start the test suite.
    """

    def make() -> "WatchServer":
        from sideband.protocols.mcp.server.watch_server import WatchServer  # noqa: PLC0415 - the help does not need it
        from sideband.watch.suites import SuiteWatcher  # noqa: PLC0415 - the same

        return WatchServer(
            "watch-tests",
            [SuiteWatcher(command, junit=junit, watch=watch, debounce_seconds=debounce / 1000)],
            instructions=f"Runs tests after each change of files below {watch.resolve()} and reports their results.",
            only_declared=only_declared,
            hook_tool=hook_tool,
        )

    return _run(make, http, command=("watch-tests", command))


@mcp.command(name="watch-git")
def watch_git(
    path: Path = Path(),
    /,
    *,
    http: _HttpOption = None,
    debounce: _DebounceOption = 100,
    only_declared: _OnlyDeclaredOption = False,
    hook_tool: _HookToolOption = False,
) -> int:
    """Tell clients when the branch of a Git repository, its upstream branch or its conflicts change.

    Parameters
    ----------
    path
        A folder of the repository.
    """
    folder = path.resolve()

    def make() -> "WatchServer":
        from sideband.protocols.mcp.server.watch_server import WatchServer  # noqa: PLC0415 - the help does not need it
        from sideband.watch.git import GitWatcher  # noqa: PLC0415 - the same

        return WatchServer(
            "watch-git",
            [GitWatcher(path, debounce_seconds=debounce / 1000)],
            instructions=f"Reports changes of the branches and conflicts of the Git repository at {folder}.",
            only_declared=only_declared,
            hook_tool=hook_tool,
        )

    async def check() -> None:
        from sideband.watch.repository import Repository  # noqa: PLC0415 - the help does not need it

        if shutil.which("git") is None:
            raise CommandError("the program git was not found, and watch-git needs it; install git")
        try:
            await Repository.find(folder)
        except InvalidOption as error:
            raise CommandError(f"{_in_options(error)}; run it in a repository, or pass its PATH") from None

    return _run(make, http, check=check)


# Running.


_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"root": "PATH", "watch": "--watch", "name": "--name", "junit": "--junit", "command": "the command"}
)


class _Address(NamedTuple):
    host: str
    port: int


def _run(
    make: Callable[[], "WatchServer"],
    http: str | None,
    *,
    command: tuple[str, Sequence[str]] | None = None,
    check: Callable[[], Awaitable[None]] | None = None,
) -> int:
    """Serve until standard input ends or a signal arrives; both are a normal end.

    `check` is awaited before anything is served; it raises an error if the watcher could not work.
    """
    # Until the event loop handles it, SIGTERM ends the command like Ctrl-C.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if command is not None and not command[1]:
            raise CommandError(
                f"no command is given; write it after --, for example: sideband mcp {command[0]} -- make check"
            )
        address = None if http is None else _read_address(http)
        asyncio.run(_serve(make, address, check))
    except ModuleNotFoundError as error:
        missing = (error.name or "a package").partition(".")[0]
        return refuse(f"{missing} is not installed, and this command needs it: pip install 'sideband[mcp,watch]'")
    except InvalidOption as error:
        return refuse(_in_options(error))
    except REFUSALS as error:
        return refuse(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        # A signal before the server was ready to handle it; asyncio makes it a cancellation.
        return OK
    finally:
        signal.signal(signal.SIGTERM, before)
    return OK


def _in_options(error: InvalidOption) -> str:
    """The message of a watcher, with the name that its field has on the command line."""
    field = error.field or ""
    return _OPTIONS.get(field, field) + str(error).removeprefix(f"{error.code}: {field}")


def _read_address(text: str) -> _Address:
    from sideband.protocols.http import is_loopback  # noqa: PLC0415 - only for HTTP

    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 - the largest port
        raise CommandError(f"--http must be HOST:PORT, for example 127.0.0.1:8931, not {text!r}")
    if not is_loopback(host):
        raise CommandError(
            "--http serves without authentication, and so only programs of this machine: 127.0.0.1, localhost or "
            f"[::1], not {host!r}; for other machines, put a proxy that authenticates in front of it"
        )
    return _Address(host, int(port))


async def _serve(
    make: Callable[[], "WatchServer"], address: _Address | None, check: Callable[[], Awaitable[None]] | None
) -> None:
    stopping = stop_at_signals()
    # These imports take most of the time until the first answer; the help does not need them.
    from sideband.protocols.frames import standard_streams  # noqa: PLC0415 - see above
    from sideband.protocols.http import GRACE_SECONDS  # noqa: PLC0415 - see above
    from sideband.protocols.mcp.server.serve import (  # noqa: PLC0415 - see above
        MAX_MESSAGE_BYTES,
        PATH,
        serve_http,
        serve_lines,
    )

    watching = make()
    if check is not None:
        await check()
    if address is not None:
        with listen(*address, remedy="choose another one with --http, or port 0") as listening:
            print(f"listening on {url_of(listening, address.host)}{PATH}", file=sys.stderr, flush=True)
            await serve_http(watching.server, listening, stopping=stopping, stop=watching.reminders.close)
        return
    if os.isatty(0):
        print("An MCP host starts this command; it waits for JSON-RPC messages. Ctrl-C ends it.", file=sys.stderr)
    limit = asyncio.timeout(None)
    try:
        async with limit, standard_streams(limit=MAX_MESSAGE_BYTES) as lines:
            await serve_lines(watching.server, lines, stopping=stopping)
            # A client that does not read would delay the end by the longer time-out of the transport.
            limit.reschedule(asyncio.get_running_loop().time() + GRACE_SECONDS)
    except TimeoutError:
        if not limit.expired():
            raise
