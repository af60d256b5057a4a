"""`sideband events`: the events of a store."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing, contextmanager
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.target import (
    Address,
    Flag,
    Integer,
    JsonLinesOption,
    ServerToOption,
    StoreOption,
    StudioAddress,
    address,
    find,
    server_address,
)
from sideband.core.errors import InvalidOption
from sideband.core.topic import TopicRecord
from sideband.inspect.events import HEADING, EventQuery, as_json, as_row, check_filter, read_topic
from sideband.inspect.report import CommandError, private_file

INTERRUPTED: Final = 130
# An export reports its progress after each multiple of this many events.
PROGRESS_EVENTS: Final = 10_000
_SQLITE_HEADER: Final = b"SQLite format 3\0"
# Suffixes of the files that belong to a SQLite store.
_STORE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")


def events(
    *,
    to: ServerToOption = None,
    every: Annotated[Flag, Parameter(name="--all")] = False,
    store: StoreOption = None,
    kind: str = "",
    after: Integer = None,
    follow: Flag = False,
    json: JsonLinesOption = False,
    export: Path | None = None,
) -> int:
    """Show what happened in a session: every event of its reminders and messages, without bodies, secrets masked.

    Exits with 2 if the store or the server cannot be read, or if events after the given sequence number have been pruned.

    Parameters
    ----------
    every
        Show the events of all sessions of the store, or with `--to http://HOST:PORT` of the server, instead of one.
    kind
        Show only kinds that begin with this, for example `transcript.reminder.fired`.
    after
        Show only events after this sequence number; without it, all events that are kept.
    follow
        Continue with new events, from any process, until Ctrl-C.
    export
        Write JSON lines to a file that only you can read, instead of printing. The file appears when it is complete.
    """
    wanted = EventQuery(None, kind, after, follow)
    if follow and export is not None:
        return refuse("--export writes a complete file, and --follow never completes; use one of them")
    try:
        check_filter(wanted)
        server = server_address(to, store)
        is_whole = server is not None and server.session_id is None
        if every and to is not None and not is_whole:
            raise CommandError(
                "--all shows every session, and --to names one; use one of them, or --all with --to http://HOST:PORT for every "
                "session of a running server"
            )
        if export is not None:
            _refuse_store(export)
        if server is not None:
            _of_server(server, wanted, every=every, json=json, export=export)
        else:
            _of_store(*address(to, store), wanted, every=every, json=json, export=export)
    except KeyboardInterrupt:
        return OK if follow else INTERRUPTED
    except REFUSALS as error:
        return refuse(error)
    return OK


def _of_store(
    store_url: str, session: str | None, wanted: EventQuery, *, every: bool, json: bool, export: Path | None
) -> None:
    if not every:
        # A session that is named need not exist yet if its events are followed.
        wanted = wanted._replace(session=session or find(Address(store_url)))

    async def reading(take: Callable[[TopicRecord], None]) -> None:
        async with aclosing(read_topic(store_url, wanted, notify=_say)) as records:
            async for record in records:
                take(record)

    with _output(wanted, json=json, export=export) as take:
        asyncio.run(reading(take))


def _of_server(server: StudioAddress, wanted: EventQuery, *, every: bool, json: bool, export: Path | None) -> None:
    from sideband.cli.server_session import Server  # noqa: PLC0415 - only needed for a server

    source = Server(server.url)
    if not every:
        wanted = wanted._replace(session=server.session_id or source.find(None).id)
    # Not in an event loop, in which Ctrl-C would wait for the next event.
    with _output(wanted, json=json, export=export) as take, closing(source.events(wanted, notify=_say)) as records:
        for record in records:
            take(record)


@contextmanager
def _output(wanted: EventQuery, *, json: bool, export: Path | None) -> Iterator[Callable[[TopicRecord], None]]:
    """What prints or writes each event."""
    count = 0
    if export is None:
        shape: Callable[[TopicRecord], str] = as_json if json else as_row

        def show(record: TopicRecord) -> None:
            nonlocal count
            if not count and not json:
                print(HEADING)
            count += 1
            print(shape(record), flush=wanted.follow)

        yield show
        if not count and wanted.after:
            is_all = wanted.session is None and not wanted.kind
            _say(f"there are no {'' if is_all else 'matching '}events after {wanted.after} yet")
        return
    with private_file(export) as file:

        def write(record: TopicRecord) -> None:
            nonlocal count
            file.write(f"{as_json(record)}\n")
            count += 1
            if count % PROGRESS_EVENTS == 0:
                _say(f"{count:,} events ...")

        yield write
    _say(f"wrote {count:,} events to {export}")


def _refuse_store(path: Path) -> None:
    """Raise `InvalidOption` if the export would overwrite a file of a SQLite store; which one a server has is not known."""
    for suffix in _STORE_SUFFIXES:
        store = Path(str(path).removesuffix(suffix))
        if store.is_file():
            with store.open("rb") as file:
                is_store = file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER
            if is_store:
                raise InvalidOption(
                    f"{path} belongs to a store; export to another file", field="export", value=str(path)
                )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
