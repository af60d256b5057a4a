"""`sideband demo`: the rehearsal in the terminal, drawn while it happens."""

import asyncio
import signal
import textwrap
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.text import Text

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.listen import handle_signal
from sideband.cli.target import Flag
from sideband.core.events import (
    AuditRecorded,
    Deduped,
    Dropped,
    Event,
    Expired,
    Fired,
    Inherited,
    Injected,
    Queued,
    Revoked,
)
from sideband.core.messages import text_of
from sideband.core.reminder import Reminder
from sideband.core.seams import Mode
from sideband.core.trust import Provenance
from sideband.core.updates import (
    OPERATOR,
    CheckpointUpdate,
    CompactionUpdate,
    MessageUpdate,
    Phase,
    ReminderUpdate,
    ResultUpdate,
    SessionUpdate,
    TurnUpdate,
    Update,
    UpdateKind,
    update_of,
)
from sideband.inspect.report import printable, table
from sideband.ports import Logged
from sideband.rehearsal import Rehearsal
from sideband.render.profiles import ProfileError
from sideband.runtime.store import Store, open_store

# The exit status is this, and the number of the signal that ended the demonstration.
SIGNALLED: Final = 128


def demo(*, fast: Flag = False) -> int:
    """Watch a scripted model fix a real bug, while it is told things on the side.

    No key is needed: only the words of the model are a script. A file watcher, the providers, an editor, an MCP server and
    an A2A peer send it reminders over MCP, A2A and files, into a session in memory. It works with real tools in a temporary
    folder. It takes about a minute and a half. Ctrl-C ends it.

    Parameters
    ----------
    fast
        Leave out the pauses.
    """
    console, signals = Console(highlight=False), list[signal.Signals]()
    try:
        asyncio.run(_until_signal(_play(console, fast=fast), signals))
    except KeyboardInterrupt:
        console.print("\nEnded.")
        return SIGNALLED + signal.SIGINT
    except asyncio.CancelledError:
        return SIGNALLED + signals[0]
    except (*REFUSALS, ProfileError) as error:
        return refuse(error)
    return OK


async def _until_signal(playing: Coroutine[Any, Any, None], signals: list[signal.Signals]) -> None:
    """Play, and cancel that at SIGTERM and SIGHUP, which `signals` gets; asyncio handles SIGINT."""
    task = asyncio.ensure_future(playing)

    def end(number: signal.Signals) -> None:
        signals.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        handle_signal(number, partial(end, number))
    await task


async def _play(console: Console, *, fast: bool) -> None:
    drawing = Drawing(console)
    drawing.introduce()
    # Without pauses, text would overtake the events before it; then a reply is printed when it is complete.
    on_reply = None if fast else drawing.take_text
    async with open_store() as store, Rehearsal(store, fast=fast, on_reply=on_reply) as rehearsal:
        following = asyncio.create_task(drawing.follow(store))
        try:
            session_id = await rehearsal.start()
            await rehearsal.wait()
            session = await store.find(session_id)
            if session is not None:
                drawing.announce_end()
                await session.close()
                closed = asyncio.ensure_future(drawing.until_closed(session_id))
                await asyncio.wait((closed, following), return_when=asyncio.FIRST_COMPLETED)
                closed.cancel()
        finally:
            following.cancel()
            await asyncio.wait((following,))
    drawing.print_receipts()
    for sentence in rehearsal.left_out:
        console.print(Text(f"Left out: {printable(sentence)}"), soft_wrap=True)


# Drawing.

# Rows are not longer than this, however wide the terminal is.
MOST_COLUMNS: Final = 100
# What is said on the side has this colour, as in the studio.
AMBER: Final = "dark_goldenrod"
_INDENT: Final = "  "
_WORD: Final = 14
_WHO: Final = 18
# In a terminal with fewer columns, what a row is about stands on a line of its own, indented by so much.
_WIDE: Final = 64
_NARROW_INDENT: Final = 4
_LABEL: Final = 31
# With less room for the labels, the receipts are no table.
_LEAST_LABEL: Final = 20
# A body is shown in so many lines; the rest is cut off.
_BODY_LINES: Final = 3

_ABOUT: Final = "A rehearsal. The words of the model are a script; everything else is real."
_LEGEND: Final[Mapping[str, str]] = MappingProxyType(
    {
        "told": "stands in the request of this turn, beside the conversation",
        "T0-T3": "how far its sender is trusted: this program, the user's editor, a peer agent, a server; what the last two "
        "say is only quoted",
    }
)


class _Style(NamedTuple):
    """How a row tells of an event: its first word, what is added at the end, and the colour."""

    word: str
    note: str = ""
    colour: str = "dim"


_EVENTS: Final[Mapping[UpdateKind, _Style]] = MappingProxyType(
    {
        UpdateKind.REMINDER_QUEUED: _Style("queued", colour=AMBER),
        UpdateKind.REMINDER_INJECTED: _Style("live", colour=AMBER),
        UpdateKind.REMINDER_INHERITED: _Style("inherited", colour=AMBER),
        UpdateKind.REMINDER_DEFERRED: _Style("left out", ", over the budget of this request", AMBER),
        UpdateKind.REMINDER_DEDUPED: _Style("deduped", ", a newer one replaces it"),
        UpdateKind.REMINDER_REVOKED: _Style("revoked", ", before it was told"),
        UpdateKind.REMINDER_DROPPED: _Style("dropped", colour="red"),
        UpdateKind.REMINDER_AUDIT_RECORDED: _Style("audit only", ", on record"),
    }
)
_MODES: Final[Mapping[Mode, str]] = MappingProxyType(
    {Mode.INTERRUPT_IMMEDIATE: ", interrupts at once", Mode.AUDIT_ONLY: ", for the record only"}
)
_ENDS: Final[Mapping[Phase, _Style]] = MappingProxyType(
    {
        Phase.TTL_EXPIRED: _Style("expired"),
        Phase.CLEARED: _Style("cleared"),
        Phase.COMPACTED_OUT: _Style("compacted out", colour="magenta"),
    }
)


class KnownReminder(NamedTuple):
    """A reminder as rows name it: by its dedupe key, or else by its text."""

    label: str
    sender: str


class _Reply:
    """A reply that is being written."""

    def __init__(self, reply_id: str) -> None:
        self.id = reply_id
        self.printed = 0


class Drawing:
    """Prints what happens in the sessions of a store, in the order in which it happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = min(console.width, MOST_COLUMNS)
        self._is_wide = self._width >= _WIDE
        # The column of bodies and remarks below a row.
        self._hang = " " * (_WORD if self._is_wide else _NARROW_INDENT)
        self._journal: list[Logged] = []
        self._closed: dict[str, asyncio.Event] = {}
        # By session and id.
        self._known: dict[tuple[str, str], KnownReminder] = {}
        self._told: set[tuple[str, str]] = set()
        self._lowered: set[str] = set()
        self._compacting: set[str] = set()
        self._calls: dict[str, str] = {}
        self._messages: dict[str, str] = {}
        # The first session is the main one; the others are those of sub-agents.
        self._indents: dict[str, str] = {}
        self._open: dict[str, _Reply] = {}
        self._texts: dict[str, str] = {}
        # The session whose reply stands on the line of the cursor, and the column of the cursor there.
        self._writing: str | None = None
        self._column = 0

    def introduce(self) -> None:
        self._console.print(Text(_ABOUT))
        self._console.print()
        for word, meaning in _LEGEND.items():
            for line in textwrap.wrap(f"  {word:<8}{meaning}", self._width, subsequent_indent=" " * 10):
                self._console.print(Text(line))
        self._console.print()
        self._console.print(Text("Starting a file watcher, an MCP server and an A2A peer ...", "dim"))

    def announce_end(self) -> None:
        """The session is about to be closed, which ends everything in it."""
        self._heading(next(iter(self._indents)), "the session is closed", "bold")

    async def follow(self, store: Store) -> None:
        """Draw every event of the store, until this is cancelled."""
        async with aclosing(store.journal.subscribe()) as events:
            async for logged in events:
                self._journal.append(logged)
                update = update_of(logged.event, OPERATOR, cursor=logged.sequence, time=logged.time)
                if update is not None:
                    self._draw(logged.session_id, update)

    async def until_closed(self, session_id: str) -> None:
        """Return when the end of a session is drawn."""
        await self._closed.setdefault(session_id, asyncio.Event()).wait()

    def take_text(self, session_id: str, reply_id: str, _attempt: int, text: str) -> None:
        """A piece of a reply has arrived; it is printed after the heading of its turn."""
        self._texts[reply_id] = self._texts.get(reply_id, "") + text
        reply = self._open.get(session_id)
        if reply is not None and reply.id == reply_id:
            self._write(session_id, reply, self._texts[reply_id])

    # Events.

    def _draw(self, session_id: str, update: Update) -> None:
        self._indents.setdefault(session_id, _INDENT * (3 if self._indents else 1))
        match update:
            case ReminderUpdate():
                self._draw_reminder(session_id, update)
            case MessageUpdate():
                self._draw_message(session_id, update)
            case TurnUpdate():
                self._draw_turn(session_id, update)
            case ResultUpdate():
                self._draw_result(session_id, update)
            case CompactionUpdate():
                self._end_compaction(session_id, update.archived_messages)
            case CheckpointUpdate(dispatch_skipped=True):
                known = (self._known.get((session_id, one)) for one in update.ids)
                who = " and ".join("you" if one is None else one.sender for one in known)
                text = f"The calls were skipped: interrupted by {who}."
                for line in textwrap.wrap(text, self._width - len(self._indents[session_id])):
                    self._print(session_id, Text(line, "bold red"))
            case SessionUpdate(kind=UpdateKind.SESSION_CLOSED):
                self._closed.setdefault(session_id, asyncio.Event()).set()
            case _:
                pass

    def _draw_turn(self, session_id: str, update: TurnUpdate) -> None:
        reply = self._open.pop(session_id, None)
        if update.kind is UpdateKind.TURN_OPENED:
            self._heading(session_id, f"turn {update.turn}", "bold")
            if update.reply_id is not None:
                self._open[session_id] = _Reply(update.reply_id)
        elif update.kind is UpdateKind.TURN_COMMITTED and update.reply is not None:
            self._write(session_id, reply or _Reply(""), text_of(update.reply))
            self._break()
            for call in update.reply.get("tool_calls", ()):
                self._calls[call["id"]] = call["name"]
                self._print(session_id, Text(f"> {call['name']}{_arguments(call['args'])}"))

    def _draw_result(self, session_id: str, update: ResultUpdate) -> None:
        if update.status != "interrupted":
            lines = text_of(update.message).strip().splitlines() or [""]
            # A tool adds notes in brackets, such as the exit code.
            last = next((line for line in reversed(lines) if not line.startswith("[")), lines[-1])
            more = "" if len(lines) == 1 else f" ({len(lines)} lines)"
            name = self._calls.get(update.call_id, "")
            self._print(session_id, Text(f"  {name} {update.status}{more}: {last.strip()}", "dim"))

    def _draw_message(self, session_id: str, update: MessageUpdate) -> None:
        who = "you" if self._is_main(session_id) else "the agent"
        if update.kind is UpdateKind.MESSAGE_ACCEPTED and update.item is not None:
            text = self._messages[update.message_id] = text_of({"content": list(update.item.content)})
            self._row(session_id, _Style(update.item.mode.value, colour="blue"), who, text)
        elif update.kind is UpdateKind.MESSAGE_DELIVERED:
            text = self._messages.get(update.message_id, "")
            self._row(session_id, _Style("delivered", colour="bold blue"), who, text)

    def _draw_reminder(self, session_id: str, update: ReminderUpdate) -> None:
        place = session_id, update.reminder_id
        if update.reminder is not None and update.provenance is not None:
            self._known.setdefault(place, KnownReminder(_label(update.reminder), _sender(update.provenance)))
        style = _EVENTS.get(update.kind)
        if update.kind is UpdateKind.REMINDER_EMITTED:
            self._draw_told(session_id, update)
        elif update.phase is not None:
            if update.phase is Phase.COMPACTED_OUT:
                self._begin_compaction(session_id)
            self._draw_known(place, _ENDS[update.phase])
        elif style is not None:
            if update.reason is not None:
                style = style._replace(note=f", {update.reason.value}")
            elif update.kind is UpdateKind.REMINDER_QUEUED and update.mode is not None:
                style = style._replace(note=_MODES.get(update.mode, ""))
            for dropped in update.dropped_ids or (update.reminder_id,):
                self._draw_known((session_id, dropped), style)
        if update.kind is UpdateKind.REMINDER_QUEUED:
            self._draw_lowered(session_id, update)

    def _draw_known(self, place: tuple[str, str], style: _Style) -> None:
        label, who = self._known.get(place, KnownReminder("a reminder", ""))
        self._row(place[0], style, who, label)

    def _draw_told(self, session_id: str, update: ReminderUpdate) -> None:
        """A reminder in the request of this turn; its text only the first time."""
        place = session_id, update.reminder_id
        label, who = self._known[place]
        role = f"as {update.rendered_role}"
        if place in self._told or update.reminder is None:
            self._row(session_id, _Style("still told", f", {role}", AMBER), who, label)
        else:
            self._told.add(place)
            is_named = update.reminder.dedupe_key is not None
            style = _Style("told", f", {role}" if is_named else "", f"bold {AMBER}")
            self._row(session_id, style, who, label if is_named else role)
            for line in _shortened(update.reminder.body, self._room(session_id)):
                self._print(session_id, Text(self._hang + line, AMBER))

    def _draw_lowered(self, session_id: str, update: ReminderUpdate) -> None:
        """What a sender asked for and does not get; once for each sender."""
        sender = update.provenance
        if sender is None or not sender.requested or sender.sender in self._lowered:
            return
        self._lowered.add(sender.sender)
        changes = [
            f"{field} {_value(wanted)} -> {_value(getattr(update.reminder, field, update.mode))}"
            for field, wanted in sender.requested.items()
        ]
        text = f"asked for more than T{sender.trust.value} may have: {', '.join(changes)}"
        for line in textwrap.wrap(text, self._room(session_id)):
            self._print(session_id, Text(self._hang + line, "italic"))

    def _begin_compaction(self, session_id: str) -> None:
        if session_id not in self._compacting:
            self._compacting.add(session_id)
            self._heading(session_id, "compaction", "bold magenta")

    def _end_compaction(self, session_id: str, archived: int) -> None:
        self._begin_compaction(session_id)
        self._compacting.discard(session_id)
        self._print(session_id, Text(f"A summary replaces {archived} messages.", "magenta"))

    # Rows.

    def _is_main(self, session_id: str) -> bool:
        return self._indents[session_id] == _INDENT

    def _heading(self, session_id: str, title: str, style: str) -> None:
        self._break()
        if self._is_main(session_id):
            self._console.print()
        else:
            title = f"reviewer, a sub-agent: {title}"
        line = f"{self._indents[session_id].removesuffix(_INDENT)}-- {title} "
        self._console.print(Text(line.ljust(self._width, "-"), style))

    def _row(self, session_id: str, style: _Style, who: str, what: str) -> None:
        """One line, or a few if the terminal is narrow; if it is too long, what it is about is cut and the note stays."""
        rest, room = "dim" if style.colour == "dim" else "", self._room(session_id)
        head = Text.assemble((f"{style.word:<{_WORD}}", style.colour), (f"{who:<{_WHO}}", rest))
        if self._is_wide:
            self._print(session_id, head.append(f"{_cut(what, room - _WHO - len(style.note))}{style.note}", rest))
            return
        self._print(session_id, head)
        for line in textwrap.wrap(f"{_cut(what, room)}{style.note}", room):
            self._print(session_id, Text(self._hang + line, rest))

    def _room(self, session_id: str) -> int:
        """The columns after the first word of a row."""
        return self._width - len(self._indents[session_id]) - len(self._hang)

    def _print(self, session_id: str, row: Text) -> None:
        """Print one line, cut to the width."""
        self._break()
        row = Text.assemble(self._indents[session_id], row)
        row.plain = printable(row.plain)
        row.rstrip()
        row.truncate(self._width, overflow="ellipsis")
        self._console.print(row, soft_wrap=True)

    def _write(self, session_id: str, reply: _Reply, text: str) -> None:
        """Print what is new of a reply, word by word, in lines that fit."""
        indent = self._indents[session_id]
        new, reply.printed = text[reply.printed :], max(reply.printed, len(text))
        for word in new.split():
            if self._writing != session_id:
                self._break()
            if self._column + 1 + len(word) > self._width:
                self._break()
            before = indent if self._column == 0 else " "
            self._console.print(Text(before + printable(word), "bold green"), end="", soft_wrap=True)
            self._writing, self._column = session_id, self._column + len(before) + len(word)

    def _break(self) -> None:
        """End the line of a reply, if the cursor is on one."""
        if self._column:
            self._console.print()
        self._writing, self._column = None, 0

    # The end.

    def print_receipts(self) -> None:
        """A row for each reminder of each session, and how many have ended."""
        self._break()
        self._console.print()
        found = receipts(self._journal)
        rows = [("reminder", "from", "turns", "ended as")]
        for place, receipt in found.items():
            label, who = self._known.get(place, KnownReminder("a reminder", ""))
            label = label if self._is_main(place[0]) else f"reviewer: {label}"
            ends = ", ".join(receipt.ends) or "lost"
            rows.append((label, who, ranges(receipt.turns) or "never", ends))
        head, *lines = self._table(rows)
        self._console.print(Text(head, "bold"), soft_wrap=True)
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)
        self._console.print()
        ended = sum(len(receipt.ends) == 1 for receipt in found.values())
        self._console.print(f"{len(found)} reminders, {ended} ended in exactly one way, {len(found) - ended} lost.")

    def _table(self, rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
        """The rows as lines; if the labels would be cut too much, each label has a line of its own."""
        columns = [*zip(*rows, strict=True)][1:]
        room = self._width - sum(max(map(len, column)) + 2 for column in columns)
        if room >= _LEAST_LABEL:
            yield from table([(_cut(label, min(room, _LABEL)), *cells) for label, *cells in rows])
            return
        for label, *cells in rows:
            yield _cut(label, self._width)
            yield from textwrap.wrap(", ".join(cells), self._width, initial_indent="  ", subsequent_indent="    ")


def _label(reminder: Reminder) -> str:
    key = reminder.dedupe_key
    if key is not None:
        # A provider may append a digest, which says nothing to a person.
        return key.split(":", 1)[0] if key.startswith("grounded_review:") else key
    return f'"{" ".join(reminder.body.split())}"'


def _sender(provenance: Provenance) -> str:
    name = provenance.principal or ("program" if provenance.provider_id is None else "provider")
    return f"T{provenance.trust.value} {printable(name)}"[: _WHO - 1]


def _cut(text: str, most: int) -> str:
    """The text on one line of at most so many columns."""
    line = Text(printable(text))
    line.truncate(most, overflow="ellipsis")
    return line.plain


def _value(value: object) -> str:
    return "none" if value is None else str(value)


def _arguments(args: Mapping[str, Any]) -> str:
    """The arguments of a call on a line: a command as it is typed, anything else by its first argument."""
    first = next(iter(args.values()), "")
    return f" {' '.join(map(str, first)) if isinstance(first, list) else first}".rstrip()


def _shortened(body: str, width: int) -> Iterator[str]:
    """The first lines of a body, which may have been written to look like something else."""
    lines = [part for line in body.splitlines() for part in textwrap.wrap(printable(line), width) or [""]]
    yield from lines[:_BODY_LINES]
    if len(lines) > _BODY_LINES:
        yield "…"


# Receipts.


class LifecycleReceipt(NamedTuple):
    """In which turns a reminder was shown, and how it ended; exactly one way once its session is closed."""

    turns: tuple[int, ...] = ()
    ends: tuple[str, ...] = ()


def receipts(journal: Sequence[Logged]) -> dict[tuple[str, str], LifecycleReceipt]:
    """The receipt of each reminder that was accepted, by the ids of its session and its own."""
    found: dict[tuple[str, str], LifecycleReceipt] = {}
    for logged in journal:
        event, session_id = logged.event, logged.session_id
        match event:
            case Queued(item=item):
                found.setdefault((session_id, item.id), LifecycleReceipt())
            case Injected(reminder=reminder) | Inherited(reminder=reminder):
                found.setdefault((session_id, reminder.id), LifecycleReceipt())
            case Fired():
                receipt = found[session_id, event.reminder_id]
                found[session_id, event.reminder_id] = receipt._replace(turns=(*receipt.turns, event.turn))
            case _:
                if (ended := _end_of(event)) is not None and (place := (session_id, ended[0])) in found:
                    found[place] = found[place]._replace(ends=(*found[place].ends, ended[1]))
    return found


def _end_of(event: Event) -> tuple[str, str] | None:
    """The id of the reminder that an event ends, and the word for it; None if it ends none."""
    match event:
        case Expired():
            return event.reminder_id, {"ttl": "expired", "compaction": "compacted_out"}.get(event.reason, "cleared")
        case Dropped():
            return event.reminder_id, f"dropped ({event.reason.value})"
        case Deduped():
            return event.replaced_id, "deduped"
        case Revoked():
            return event.reminder_id, "revoked"
        case AuditRecorded():
            return event.reminder.id, "audit_recorded"
        case _:
            return None


def ranges(turns: Sequence[int]) -> str:
    """The numbers as ranges: `1-3, 5`."""
    runs = (
        [turn for _, turn in group] for _, group in groupby(enumerate(turns), key=lambda place: place[1] - place[0])
    )
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
