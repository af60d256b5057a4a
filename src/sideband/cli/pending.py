"""`sideband pending`: what is queued for a session, and its live reminders."""

from textwrap import shorten
from typing import TYPE_CHECKING, Final

import msgspec

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.target import JsonOption, StoreOption, ToOption, address
from sideband.inspect.report import printable, table

if TYPE_CHECKING:
    from sideband.inspect.conversation import PendingItem

HEADINGS: Final = ("state", "kind", "id", "mode", "ttl", "key", "from", "text")
TEXT_WIDTH: Final = 60


def pending(*, to: ToOption = None, store: StoreOption = None, json: JsonOption = False) -> int:
    """List the reminders and messages that wait in the inbox of a session, then its live reminders.

    Queued items are in the order of acceptance, and `sideband revoke` withdraws them. Live reminders are in the order in
    which they are shown, and `sideband clear` ends them. Texts are shown in full with `--json`. The store is only read.
    Exits with 2 if the session cannot be read.
    """
    from sideband.inspect.conversation import pending_items, session_content  # noqa: PLC0415 - the help does not need it

    try:
        content = session_content(*address(to, store))
    except REFUSALS as error:
        return refuse(error)
    items = [*pending_items(content.state)]
    if json:
        document = {"session": content.session_id, "pending": [item.as_dict() for item in items]}
        print(msgspec.json.encode(document).decode())
        return OK
    for line in table([HEADINGS, *map(_cells, items)]) if items else ():
        print(line)
    queued = sum(item.mode is not None for item in items)
    print(f"session {printable(content.session_id)}: {queued:,} queued, {len(items) - queued:,} live")
    return OK


def _cells(item: "PendingItem") -> tuple[str, ...]:
    reminder = item.reminder
    ttl = None if reminder is None else reminder.ttl_turns
    key = None if reminder is None else reminder.dedupe_key
    sender = item.provenance.principal or item.provenance.provider_id or item.provenance.trust.name.lower()
    return (
        item.state.value,
        item.kind,
        item.id,
        item.mode or "-",
        "-" if ttl is None else str(ttl),
        key or "-",
        sender,
        shorten(item.text, TEXT_WIDTH, placeholder=" ..."),
    )
