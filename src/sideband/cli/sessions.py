"""`sideband sessions`: list the sessions of a store."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from sideband.cli.app import OK, REFUSALS, refuse, refuse_address
from sideband.cli.target import JsonLinesOption, ServerOption, StoreOption, server_address, store_of
from sideband.inspect.report import CommandError, counted, table

HEADINGS: Final = ("session", "state", "turn", "pending", "events", "last", "last event", "changed", "about")
SERVER_HEADINGS: Final = ("session", "state", "turn", "pending", "changed", "about")


def sessions(
    misplaced: Annotated[str | None, Parameter(show=False)] = None,
    /,
    *,
    to: ServerOption = None,
    store: StoreOption = None,
    json: JsonLinesOption = False,
) -> int:
    """List the sessions of a store or a running server with their state, turn, number of pending items, and last event.

    A session is `running` while a process runs it, `left` if that process died (on PostgreSQL, once its lease has
    lapsed, after 30 s), `idle` between runs, `closed`, or `damaged` if it cannot be read; a server says `asking` of one
    that waits for a permission. The last column is the title of the session, or the name of its agent. Exits with 2 if
    the store cannot be read or the server cannot be reached.
    """
    from sideband.inspect.sessions import summaries  # noqa: PLC0415 - the help does not need it

    if misplaced is not None:
        return refuse_address("sessions")
    try:
        if to is not None:
            return _of_server(to, store, json=json)
        found = summaries(store_of(store))
    except REFUSALS as error:
        return refuse(error)
    if json:
        for summary in found:
            print(msgspec.json.encode(summary).decode())
        return OK
    for line in table([HEADINGS, *(summary.cells() for summary in found)]) if found else ():
        print(line)
    print(counted(len(found), "session"))
    return OK


def _of_server(to: str, store: str | None, *, json: bool) -> int:
    from sideband.cli.server_session import Server  # noqa: PLC0415 - only needed for a server

    wanted = server_address(to, store)
    if wanted is None or wanted.session_id is not None:
        raise CommandError("--to must name a running server: http://HOST:PORT; name a store with --store URL")
    found = sorted(Server(wanted.url).sessions(), key=lambda session: session.id)
    if json:
        for session in found:
            print(msgspec.json.encode(session.summary()).decode())
        return OK
    for line in table([SERVER_HEADINGS, *(_cells(session.summary()) for session in found)]) if found else ():
        print(line)
    print(counted(len(found), "session"))
    return OK


def _cells(summary: Mapping[str, object]) -> list[str]:
    values = [summary[heading] for heading in SERVER_HEADINGS]
    return ["" if value is None else f"{value:,}" if isinstance(value, int) else str(value) for value in values]
