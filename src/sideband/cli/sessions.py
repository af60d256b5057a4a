"""`sideband sessions`: what is in a store."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

if TYPE_CHECKING:
    from sideband.cli.shelves import Summary

HEADINGS: Final = ("session", "state", "turn", "pending", "events", "last", "what was last")


def sessions(store_url: str, /, *, json: Annotated[bool, Parameter(negative=())] = False) -> int:
    """List the sessions of a store: whether each runs, its turn, what is pending, and its last event.

    A session is `running` while a process has it, `left` where that process died (on a server once its lease has
    lapsed, after 30 s), `idle` between runs, or `closed`.
    Exits with 2 when the store cannot be read.

    Parameters
    ----------
    store_url
        Where the store is: `sqlite:///sideband.db` or `postgresql://host/name`.
    json
        Print one JSON object on each line.
    """
    from sideband.cli.refusing import REFUSALS, refuse  # noqa: PLC0415 - commands import what they need
    from sideband.cli.shelves import summaries  # noqa: PLC0415 - the same

    try:
        found = summaries(store_url)
    except REFUSALS as error:
        return refuse(error)
    if json:
        _print_json(found)
    else:
        _print_table(found)
    return 0


def _print_json(found: "Sequence[Summary]") -> None:
    import msgspec  # noqa: PLC0415 - commands import what they need

    for summary in found:
        print(msgspec.json.encode(summary).decode())


def _print_table(found: "Sequence[Summary]") -> None:
    from sideband.lint.report import printable  # noqa: PLC0415 - commands import what they need

    rows = [HEADINGS, *(tuple(map(printable, summary.cells())) for summary in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows if found else ():
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(f"{len(found):,} sessions" if len(found) != 1 else "1 session")
