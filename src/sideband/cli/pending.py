"""`sideband pending`: what is queued for a session, and its live reminders."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.request import tell_task
from sideband.cli.target import (
    AgentAddress,
    AgentToOption,
    JsonOption,
    StoreOption,
    TaskAddress,
    address,
    agent_address,
    server_address,
    task_address,
)
from sideband.inspect.report import printable, printable_json, shortened, table

if TYPE_CHECKING:
    from sideband.inspect.conversation import PendingItem

HEADINGS: Final = ("state", "kind", "id", "mode", "ttl", "key", "from", "text")
TEXT_WIDTH: Final = 60


def pending(*, to: AgentToOption = None, store: StoreOption = None, json: JsonOption = False) -> int:
    """List the reminders and messages that wait in the inbox of a session, then its live reminders.

    Queued items are in the order of acceptance, and `sideband revoke` withdraws them. Live reminders are in the order in
    which they are shown, and `sideband clear` ends them. An agent over ACP lists only what is queued. Texts are shown in
    full with `--json`. The store is only read. Exits with 2 if the session cannot be read.
    """
    try:
        agent = agent_address(to, store)
        if agent is not None:
            return _of_agent(agent, json=json)
        task = task_address(to, store)
        if task is not None:
            return _of_task(task, json=json)
        session_id, items = _items(to, store)
    except REFUSALS as error:
        return refuse(error)
    if json:
        print(printable_json({"session": session_id, "pending": [item.as_dict() for item in items]}))
        return OK
    _print_table([*map(_cells, items)])
    queued = sum(item.mode is not None for item in items)
    print(f"session {printable(session_id)}: {queued:,} queued, {len(items) - queued:,} live")
    return OK


def _items(to: str | None, store: str | None) -> "tuple[str, list[PendingItem]]":
    """The id of the session that is meant, and what is pending in it."""
    wanted = server_address(to, store)
    if wanted is not None:
        from sideband.cli.server_session import Server  # noqa: PLC0415 - only needed for a server

        server = Server(wanted.url)
        session_id = server.find(wanted.session_id).id
        return session_id, server.pending(session_id)
    from sideband.inspect.conversation import pending_items, session_content  # noqa: PLC0415 - the help does not need it

    content = session_content(*address(to, store))
    return content.session_id, [*pending_items(content.state)]


def _of_agent(agent: AgentAddress, *, json: bool) -> int:
    from sideband.cli.agent_session import with_agent  # noqa: PLC0415 - only needed for an agent over ACP

    rows = asyncio.run(with_agent(agent, lambda recipient: recipient.pending()))
    return _print_rows(agent.session_id, rows, f"{len(rows):,} queued", json=json)


def _of_task(task: TaskAddress, *, json: bool) -> int:
    rows = tell_task(task, lambda recipient: recipient.pending())
    queued = sum("mode" in row for row in rows)
    return _print_rows(task.task_id, rows, f"{queued:,} queued, {len(rows) - queued:,} live", json=json)


def _print_rows(session_id: str, rows: Sequence[Mapping[str, Any]], counts: str, *, json: bool) -> int:
    if json:
        print(printable_json({"session": session_id, "pending": rows}))
        return OK
    _print_table([*map(_cells_of_agent, rows)])
    print(f"session {printable(session_id)}: {counts}")
    return OK


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    for line in table([HEADINGS, *rows]) if rows else ():
        print(line)


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
        shortened(item.text, TEXT_WIDTH),
    )


def _cells_of_agent(row: Mapping[str, Any]) -> tuple[str, ...]:
    reminder = row.get("reminder", {})
    return (
        row["state"],
        row["kind"],
        row["id"],
        row.get("mode", "-"),
        str(reminder.get("ttl_turns", "-")),
        reminder.get("dedupe_key", "-"),
        reminder.get("source", "-"),
        shortened(reminder.get("body") or row["text"], TEXT_WIDTH),
    )
