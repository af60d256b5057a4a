"""`sideband events`: the events of a store."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from sideband.cli.app import OK, REFUSALS, refuse, refuse_address
from sideband.cli.target import Address, Flag, Integer, JsonLinesOption, StoreOption, ToOption, address, find
from sideband.core.errors import InvalidOption
from sideband.core.topic import TopicRecord
from sideband.inspect.events import HEADING, EventQuery, as_json, as_row, check_filter, read_topic
from sideband.inspect.report import private_file

INTERRUPTED: Final = 130
# An export reports its progress after each multiple of this many events.
PROGRESS_EVENTS: Final = 10_000
# Suffixes of the files that belong to a SQLite store.
_STORE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")


def events(
    misplaced: Annotated[str | None, Parameter(show=False)] = None,
    /,
    *,
    to: ToOption = None,
    every: Annotated[Flag, Parameter(name="--all")] = False,
    store: StoreOption = None,
    kind: str = "",
    after: Integer = None,
    follow: Flag = False,
    json: JsonLinesOption = False,
    export: Path | None = None,
) -> int:
    """Show what happened in a session: every event of its reminders and messages, without bodies, secrets masked.

    Exits with 2 if the store cannot be read, or if events after the given sequence number have been pruned.

    Parameters
    ----------
    every
        Show the events of all sessions of the store, instead of one session.
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
    if misplaced is not None:
        return refuse_address("events")
    if every and to is not None:
        return refuse("--all shows every session of the store, and --to one session; use one of them")
    if follow and export is not None:
        return refuse("--export writes a complete file, and --follow never completes; use one of them")
    try:
        check_filter(wanted)
        store_url, session = address(to, store)
        if not every:
            # A session that is named need not exist yet if its events are followed.
            wanted = wanted._replace(session=session or find(Address(store_url)))
        asyncio.run(_show(store_url, wanted, json=json) if export is None else _export(store_url, wanted, export))
    except KeyboardInterrupt:
        return OK if follow else INTERRUPTED
    except REFUSALS as error:
        return refuse(error)
    return OK


async def _show(store_url: str, wanted: EventQuery, *, json: bool) -> None:
    shape: Callable[[TopicRecord], str] = as_json if json else as_row
    async with aclosing(read_topic(store_url, wanted, notify=_say)) as records:
        is_first = True
        async for record in records:
            if is_first and not json:
                print(HEADING)
            is_first = False
            print(shape(record), flush=wanted.follow)
    if is_first and wanted.after:
        is_all = wanted.session is None and not wanted.kind
        _say(f"there are no {'' if is_all else 'matching '}events after {wanted.after} yet")


async def _export(store_url: str, wanted: EventQuery, path: Path) -> None:
    _refuse_store(path, store_url)
    count = 0
    async with aclosing(read_topic(store_url, wanted, notify=_say)) as records:
        with private_file(path) as file:
            async for record in records:
                file.write(f"{as_json(record)}\n")
                count += 1
                if count % PROGRESS_EVENTS == 0:
                    _say(f"{count:,} events ...")
    _say(f"wrote {count:,} events to {path}")


def _refuse_store(path: Path, store_url: str) -> None:
    """Raise `InvalidOption` if the export would overwrite a file of the store."""
    if not store_url.startswith("sqlite:"):
        return
    from sideband.runtime.store import sqlite_path  # noqa: PLC0415 - the help of a command does not need it

    store = Path(sqlite_path(store_url)).expanduser().resolve()
    if path.expanduser().resolve() in [store.with_name(store.name + suffix) for suffix in _STORE_SUFFIXES]:
        raise InvalidOption(f"{path} belongs to the store; export to another file", field="export", value=str(path))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
