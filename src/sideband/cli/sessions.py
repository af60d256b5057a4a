"""`sideband sessions`: list the sessions of a store."""

from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from sideband.cli.app import OK, REFUSALS, refuse, refuse_address
from sideband.cli.target import JsonLinesOption, StoreOption, store_of
from sideband.inspect.report import table

HEADINGS: Final = ("session", "state", "turn", "pending", "events", "last", "last event", "changed", "about")


def sessions(
    misplaced: Annotated[str | None, Parameter(show=False)] = None,
    /,
    *,
    store: StoreOption = None,
    json: JsonLinesOption = False,
) -> int:
    """List the sessions of a store with their state, turn, number of pending items, and last event.

    A session is `running` while a process runs it, `left` if that process died (on PostgreSQL, once its lease has
    lapsed, after 30 s), `idle` between runs, `closed`, or `damaged` if it cannot be read. The last column is the title
    of the session, or the name of its agent. Exits with 2 if the store cannot be read.
    """
    from sideband.inspect.sessions import summaries  # noqa: PLC0415 - the help does not need it

    if misplaced is not None:
        return refuse_address("sessions")
    try:
        found = summaries(store_of(store))
    except REFUSALS as error:
        return refuse(error)
    if json:
        for summary in found:
            print(msgspec.json.encode(summary).decode())
        return OK
    for line in table([HEADINGS, *(summary.cells() for summary in found)]) if found else ():
        print(line)
    print(f"{len(found):,} sessions" if len(found) != 1 else "1 session")
    return OK
