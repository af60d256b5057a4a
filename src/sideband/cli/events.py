"""`sideband events`: what happened in a store, and what happens."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

OK: Final = 0
INTERRUPTED: Final = 130


def events(
    store_url: str,
    /,
    *,
    session: str | None = None,
    kind: str = "",
    after: int | None = None,
    follow: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
    export: Path | None = None,
) -> int:
    """Show what happened in a store: every event of its reminders and messages, without bodies, secrets masked.

    Exits with 2 when the store cannot be read, or not from there.

    Parameters
    ----------
    store_url
        Where the store is: `sqlite:///sideband.db` or `postgresql://host/name`.
    session
        Only of this session.
    kind
        Only kinds that begin so, `transcript.reminder.fired` for instance.
    after
        Only what comes behind this sequence number; without it, all that is kept.
    follow
        Go on with what happens from now on, in whatever process, until Ctrl-C.
    json
        Print one JSON object on each line.
    export
        Write these lines to a file that only you can read, instead of printing them. It appears when it is complete.
    """
    from sideband.cli import eventreading  # noqa: PLC0415 - commands import what they need
    from sideband.cli.refusing import REFUSALS, refuse  # noqa: PLC0415 - the same

    wanted = eventreading.Wanted(session, kind, after, follow)
    if follow and export is not None:
        return refuse("--follow has no end, so there is never anything complete to --export")
    try:
        eventreading.check(wanted)
        if export is None:
            asyncio.run(eventreading.show(store_url, wanted, json=json))
        else:
            asyncio.run(eventreading.export(store_url, wanted, export))
    except KeyboardInterrupt:
        return OK if follow else INTERRUPTED
    except REFUSALS as error:
        return refuse(error)
    return OK
