"""`sideband sessions`: list the sessions of a store."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.target import JsonLinesOption, ServerOption, StoreOption, server_address, store_of
from sideband.inspect.report import CommandError, counted, printable_json, shortened, table

HEADINGS: Final = ("session", "state", "turn", "pending", "events", "last", "last event", "changed", "about")
SERVER_HEADINGS: Final = ("session", "state", "turn", "pending", "changed", "about")
ABOUT_WIDTH: Final = 60


def sessions(*, to: ServerOption = None, store: StoreOption = None, json: JsonLinesOption = False) -> int:
    """List the sessions of a store or a running server with their state, turn, number of pending items, and last event.

    A session is `running` while a process runs it, `left` if that process died (on PostgreSQL, once its lease has
    lapsed, after 30 s), `idle` between runs, `closed`, or `damaged` if it cannot be read; a server says `asking` of one
    that waits for a permission. The last column is the title of the session, or the name of its agent; `--json` has it in
    full. Exits with 2 if the store cannot be read or the server cannot be reached.
    """
    try:
        found = _of_store(store) if to is None else _of_server(to, store)
    except REFUSALS as error:
        return refuse(error)
    if json:
        for document in found.documents:
            print(printable_json(document))
        return OK
    rows = [(*cells, shortened(about, ABOUT_WIDTH)) for *cells, about in found.rows]
    for line in table([found.headings, *rows]) if rows else ():
        print(line)
    print(counted(len(rows), "session"))
    return OK


class _Listing(NamedTuple):
    """The sessions as the rows of a table, and as JSON has them."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    documents: Sequence[object]


def _of_store(store: str | None) -> _Listing:
    from sideband.inspect.sessions import summaries  # noqa: PLC0415 - the help does not need it

    found = summaries(store_of(store))
    return _Listing(HEADINGS, [summary.cells() for summary in found], found)


def _of_server(to: str, store: str | None) -> _Listing:
    from sideband.cli.server_session import Server  # noqa: PLC0415 - only needed for a server

    wanted = server_address(to, store)
    if wanted is None or wanted.session_id is not None:
        raise CommandError("--to must name a running server: http://HOST:PORT; name a store with --store URL")
    found = [session.summary() for session in sorted(Server(wanted.url).sessions(), key=lambda session: session.id)]
    return _Listing(SERVER_HEADINGS, [*map(_cells, found)], found)


def _cells(summary: Mapping[str, object]) -> list[str]:
    values = [summary[heading] for heading in SERVER_HEADINGS]
    return ["" if value is None else f"{value:,}" if isinstance(value, int) else str(value) for value in values]
