"""`sideband sessions`: list the sessions of a store."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from sideband.cli.app import REFUSALS, refuse
from sideband.inspect.report import printable
from sideband.inspect.sessions import SessionSummary, summaries

HEADINGS: Final = ("session", "state", "turn", "pending", "events", "last", "last event")


def sessions(store_url: str, /, *, json: Annotated[bool, Parameter(negative=())] = False) -> int:
    """List the sessions of a store with their state, turn, number of pending items, and last event.

    A session is `running` while a process runs it, `left` if that process died (on PostgreSQL, once its lease has
    lapsed, after 30 s), `idle` between runs, `closed`, or `damaged` if it cannot be read.
    Exits with 2 if the store cannot be read.

    Parameters
    ----------
    store_url
        The address of the store: `sqlite:///sideband.db` or `postgresql://host/name`.
    json
        Print one JSON object per line.
    """
    try:
        found = summaries(store_url)
    except REFUSALS as error:
        return refuse(error)
    if json:
        _print_json(found)
    else:
        _print_table(found)
    return 0


def _print_json(found: Sequence[SessionSummary]) -> None:
    for summary in found:
        print(msgspec.json.encode(summary).decode())


def _print_table(found: Sequence[SessionSummary]) -> None:
    rows = [HEADINGS, *(tuple(map(printable, summary.cells())) for summary in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows if found else ():
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(f"{len(found):,} sessions" if len(found) != 1 else "1 session")
