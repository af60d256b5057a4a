"""`sideband mcp listen`: see what a host accepts from MCP servers, holds and drops; for people who write servers."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.target import JsonLinesOption
from sideband.inspect.report import CommandError, printable, printable_json
from sideband.logs import LOG

if TYPE_CHECKING:
    from sideband.protocols.mcp.config import ServerConfig
    from sideband.protocols.mcp.host import HostReport, McpHost
    from sideband.runtime.session import Session

TURN_SECONDS: Final = 5.0


def listen(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True, help="The command of one server, after `--`.")],
    config: Annotated[str | None, Parameter(metavar="FILE")] = None,
    turn: Annotated[float, Parameter(metavar="SECONDS", validator=Number(gt=0))] = TURN_SECONDS,
    json: JsonLinesOption = False,
) -> int:
    """Connect to MCP servers and print each reminder that a host accepts, holds or drops.

    The limits are those of a session: four reminders of a server may wait, and after a burst of four it may send one every
    ten seconds. A turn is imitated every few seconds, which empties the inbox. Ends with Ctrl-C, or when the only server
    cannot be started. Exits with 2 if the configuration is wrong.

    Parameters
    ----------
    config
        A file with servers, in the format that hosts use (`mcpServers`).
    turn
        The time between two imitated turns.
    """
    try:
        servers = _servers(command, config)
        from sideband.protocols.mcp.host import McpHost  # noqa: PLC0415 - the help does not need it

        printer = _Printer(json=json)
        asyncio.run(_listen(McpHost(servers, on_report=printer.print), printer, turn))
    except ModuleNotFoundError as error:
        missing = (error.name or "a package").partition(".")[0]
        return refuse(f"{missing} is not installed, and this command needs it: pip install 'sideband[mcp]'")
    except REFUSALS as error:
        return refuse(error)
    except KeyboardInterrupt:
        return OK
    return OK


def _servers(command: tuple[str, ...], config: str | None) -> "tuple[ServerConfig, ...]":
    from sideband.protocols.mcp.config import ServerConfig, read_config_file  # noqa: PLC0415 - the help does not need it

    if bool(command) == (config is not None):
        raise CommandError(
            "name the servers with --config FILE, or one server by its command after --, for example: "
            "sideband mcp listen -- sideband mcp watch-files ."
        )
    if config is not None:
        servers = read_config_file(config)
        if not servers:
            raise CommandError(f"{config} names no server that is not disabled")
        return servers
    name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in PurePath(command[0]).stem)
    return (ServerConfig(name=name[:64] or "server", command=command),)


async def _listen(host: "McpHost", printer: "_Printer", turn: float) -> None:
    from sideband.runtime.store import open_store  # noqa: PLC0415 - the help does not need it

    # The reports say the same, and more.
    LOG.setLevel("ERROR")
    stopping = asyncio.Event()
    for stop in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stop, stopping.set)
    printer.on_broken_pipe = stopping.set
    async with open_store("memory:") as store, host:
        session = await store.session("listen")
        attaching = asyncio.ensure_future(host.attach(session))
        turns = asyncio.ensure_future(_imitate_turns(session, turn))
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait((attaching, stopped), return_when=asyncio.FIRST_COMPLETED)
            if len(host.connections) == 1 and printer.has_lost and not printer.has_connected:
                (connection,) = host.connections.values()
                raise CommandError(f"the server cannot be used: {connection.failure}")
            await stopped
        finally:
            for task in (attaching, turns, stopped):
                task.cancel()


async def _imitate_turns(session: "Session", seconds: float) -> None:
    """Take everything out of the inbox again and again, as the turns of an agent would."""
    while True:
        await asyncio.sleep(seconds)
        for waiting in await session.pending():
            await session.clear(id=waiting.reminder.id)


class _Printer:
    """Prints reports as lines of text or of JSON."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self.on_broken_pipe: Callable[[], object] = lambda: None
        self.has_connected = False
        self.has_lost = False

    def print(self, report: "HostReport") -> None:
        from sideband.protocols.mcp.host import ServerState  # noqa: PLC0415 - the help does not need it

        state = getattr(report, "state", None)
        self.has_connected |= state is ServerState.CONNECTED
        self.has_lost |= state is ServerState.LOST
        line = printable_json(_fields(report)) if self._json else _line(report)
        try:
            print(line, flush=True)
        except BrokenPipeError:
            # The program that read the lines has ended.
            self.on_broken_pipe()


def _fields(report: "HostReport") -> dict[str, object]:
    kind = "reminder" if hasattr(report, "admission") else "server"
    return {"kind": kind} | {name: value for name, value in msgspec.structs.asdict(report).items() if value is not None}


def _line(report: "HostReport") -> str:
    from sideband.protocols.mcp.host import ServerReport  # noqa: PLC0415 - the help does not need it

    if isinstance(report, ServerReport):
        told = [f"{report.server}: {report.state}"]
        if report.protocol_version is not None:
            declares = "declares reminders" if report.emits else "does not declare reminders"
            told.append(f"revision {report.protocol_version}, {declares}, {report.tools} tools")
        told += filter(None, [report.detail])
        return printable("; ".join(told))
    words = [f"{report.server}: {report.admission}"]
    words += [f"({report.reason})"] if report.reason is not None else []
    words += [f"[{report.dedupe_key}]"] if report.dedupe_key is not None else []
    words += [report.body] if report.body is not None else []
    words += [f"- {report.detail}"] if report.detail is not None else []
    return printable(" ".join(words))
