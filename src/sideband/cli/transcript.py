"""`sideband transcript`: the conversation of a session turn by turn, and what the model was told on the side."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.target import Integer, JsonOption, ServerToOption, StoreOption, history_of
from sideband.inspect.report import CommandError, counted, escaped_json, printable, printable_json

if TYPE_CHECKING:
    from sideband.inspect.history import SessionHistory
    from sideband.inspect.timeline import CallRow, CompactionRow, MessageRow, ReminderRow, Timeline, TurnRow

MIN_WIDTH: Final = 40
# In a terminal of so many columns, notes stand beside the conversation, else before the reply.
BESIDE_WIDTH: Final = 110
MARGIN_PERCENT: Final = 42
_GAP: Final = 3
# So much of a tool's output and of the arguments of a call is shown.
OUTPUT_LINES: Final = 12
ARGS_CHARACTERS: Final = 300
_INDENT: Final = "  "
_RULE_COLUMNS: Final = 100

_USER, _REPLY, _TOOL, _SIDE, _QUIET = "bold blue", "", "bright_black", "yellow", "bright_black"


class TranscriptLine(NamedTuple):
    """A line of text; where it is wrapped, every line begins with `prefix`, and all but the first with `hang` after it."""

    prefix: str
    text: Text
    style: str = ""
    hang: str = ""

    def wrapped(self, console: Console, width: int | None) -> Iterator[Text]:
        """The line as lines of so many columns (None: it is not wrapped)."""
        if width is None:
            parts: Iterable[Text] = (self.text,)
        else:
            room = max(width - len(self.prefix) - len(self.hang), 1)
            parts = self.text.wrap(console, room, overflow="fold") or (Text(),)
        for number, part in enumerate(parts):
            line = Text(self.prefix + (self.hang if number else ""), style=self.style)
            line.append_text(part)
            line.rstrip()
            yield line


Lines: TypeAlias = tuple[TranscriptLine, ...]


class Signs(NamedTuple):
    """The characters that are not letters, by what the terminal can show."""

    rule: str
    rail: str
    quoted: str
    told: str
    still: str
    left_out: str
    call: str
    more: str


UNICODE: Final = Signs("─", "┃", "┊", "●", "•", "◐", "→", "…")
ASCII: Final = Signs("-", "|", ":", "O", "o", "?", "->", "...")


def transcript(
    *,
    to: ServerToOption = None,
    store: StoreOption = None,
    width: Annotated[Integer, Parameter(metavar="COLUMNS")] = None,
    json: JsonOption = False,
) -> int:
    """Print the conversation of a session, turn by turn, with what the model was told on the side in each.

    A note says who told it (T0 operator, T1 controller, T2 peer, T3 server), under which key, in which role, and how long
    it lasts. In a wide terminal the notes stand beside the conversation, else before the reply. What is live and what
    waits now comes at the end.

    Texts are shown in full, and secrets are not masked; long output of tools is shortened. The store is only read. With
    `--json`, the object has `messages`, the conversation as it stands now in full, and `events` with the live reminders
    (`visibility` public) and the audit records (internal). Exits with 2 if the session cannot be read.

    Parameters
    ----------
    width
        Print for so many columns, at least 40. The default is the width of the terminal; without a terminal, lines are
        not wrapped.
    """
    try:
        if width is not None and width < MIN_WIDTH:
            raise CommandError(f"--width must be at least {MIN_WIDTH} columns, not {width}")
        history = history_of(to, store)
    except REFUSALS as error:
        return refuse(error)
    if json:
        print(escaped_json(history.transcript.to_json()))
        return OK
    console = Console(highlight=False, width=width)
    columns = console.width if width is not None or console.is_terminal else None
    for part in _Page(history, _signs(console.encoding), console.width).parts():
        for line in part.lines(console, columns):
            console.print(line, soft_wrap=True)
    return OK


def _signs(encoding: str) -> Signs:
    try:
        "".join(UNICODE).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


class _Part(NamedTuple):
    """A piece of the transcript: its heading, its conversation, and the notes that stand beside it or before it."""

    head: Lines
    talk: Lines = ()
    notes: Lines = ()

    def lines(self, console: Console, columns: int | None) -> Iterator[Text]:
        """The part as lines of so many columns (None: as wide as the text is)."""
        yield from _wrapped(self.head, console, columns)
        if columns is None or columns < BESIDE_WIDTH or not (self.notes and self.talk):
            yield from _wrapped((*self.notes, *self.talk), console, columns)
            return
        margin = columns * MARGIN_PERCENT // 100
        left = columns - margin - _GAP
        pairs = zip_longest(_wrapped(self.talk, console, left), _wrapped(self.notes, console, margin))
        for talk, note in pairs:
            line = Text() if talk is None else talk
            if note is not None:
                line.pad_right(left - line.cell_len + _GAP)
                line.append_text(note)
            yield line


def _wrapped(lines: Lines, console: Console, columns: int | None) -> Iterator[Text]:
    for line in lines:
        yield from line.wrapped(console, columns)


class _Page:
    """The parts of a transcript, in order."""

    def __init__(self, history: "SessionHistory", signs: Signs, width: int) -> None:
        self._history = history
        self._timeline: Timeline = history.timeline
        self._signs = signs
        self._width = width
        self._reminders = {row.id: row for row in self._timeline.reminders if not row.at_the_door}
        self._messages = {row.id: row for row in self._timeline.messages}
        self._told: set[str] = set()

    def parts(self) -> Iterator[_Part]:
        yield _Part((self._title(),))
        last = self._timeline.compactions[-1] if self._timeline.compactions else None
        if self._timeline.since and last is None:
            yield self._earlier("Earlier turns are no longer kept. Of them, the conversation still has:")
        for entry in self._entries():
            yield self._part(entry)
            if entry is last:
                yield self._earlier("The conversation now begins with:")
        yield from self._end()

    def _title(self) -> TranscriptLine:
        timeline = self._timeline
        turn = f"turn {timeline.turn}" if timeline.open_turn is None else f"turn {timeline.open_turn} open"
        title = timeline.records.get("title")
        about = f" ({title})" if isinstance(title, str) else ""
        return _line(f"session {timeline.session_id}: {self._history.word}, {turn}{about}", "bold underline")

    def _entries(self) -> "list[TurnRow | MessageRow | CompactionRow]":
        """Turns, delivered messages and compactions in the order in which they happened."""
        from sideband.inspect.timeline import MessageState  # noqa: PLC0415 - the help does not need it

        timeline = self._timeline
        placed: list[tuple[int, TurnRow | MessageRow | CompactionRow]] = [
            *((turn.cursor, turn) for turn in timeline.turns),
            *(
                (message.delivered_cursor or 0, message)
                for message in timeline.messages
                if message.state is MessageState.DELIVERED
            ),
            *((compaction.cursor, compaction) for compaction in timeline.compactions),
        ]
        return [entry for _cursor, entry in sorted(placed, key=lambda pair: pair[0])]

    def _part(self, entry: "TurnRow | MessageRow | CompactionRow") -> _Part:
        from sideband.inspect.timeline import MessageRow, TurnRow  # noqa: PLC0415 - the help does not need it

        if isinstance(entry, TurnRow):
            return self._turn(entry)
        if isinstance(entry, MessageRow):
            return self._message(entry)
        what = f"compaction after turn {entry.turn}, {counted(entry.archived_messages, 'message')} archived"
        return _Part((_EMPTY, self._rule(what, style="magenta")))

    def _rule(self, text: str, *, style: str) -> TranscriptLine:
        line = f"{self._signs.rule * 2} {text} "
        return _line(line + self._signs.rule * max(min(self._width, _RULE_COLUMNS) - len(line), 2), style)

    # The conversation.

    def _message(self, row: "MessageRow") -> _Part:
        label = row.role if not row.audit_only else f"{row.role}, on record only"
        if row.sender is not None and row.sender.principal is not None:
            label += f" ({row.sender.principal})"
        style = _USER if row.role == "user" else _REPLY
        return _Part((_EMPTY, _line(label, f"{style} underline".strip())), self._text(row, style))

    def _text(self, row: "MessageRow", style: str) -> Lines:
        from sideband.inspect.conversation import message_text  # noqa: PLC0415 - the help does not need it
        from sideband.inspect.update_json import told_text  # noqa: PLC0415 - the same

        if not row.other_blocks:
            return _indented(row.text, style)
        # The conversation as it stands now says what kinds of blocks a message has.
        for message in self._history.transcript.messages:
            if message.get("id", row.id) == row.id and (message["role"], told_text(message)) == (row.role, row.text):
                return _indented(message_text(message), style)
        return _indented(row.text, style) + _indented(f"[{counted(row.other_blocks, 'block')} without text]", _QUIET)

    def _turn(self, row: "TurnRow") -> _Part:
        from sideband.inspect.timeline import TurnState  # noqa: PLC0415 - the help does not need it

        about = [f"turn {row.turn}"]
        if row.attempt > 1:
            about.append(f"attempt {row.attempt}")
        if row.state is TurnState.OPEN:
            about.append("open: the reply is awaited")
        elif row.state is TurnState.VOID:
            about.append("void: no reply, and nothing counts as told")
        if row.usage is not None and any(row.usage.values()):
            about.append(f"{row.usage['promptTokens']:,} tokens in, {row.usage['outputTokens']:,} out")
        talk: Lines = ()
        if row.text or row.state is TurnState.COMMITTED:
            talk = (_line("assistant", "underline"), *_indented(row.text, _REPLY))
        for call in row.calls:
            talk += tuple(self._call(call))
        if row.skipped_by is not None:
            talk += _indented(f"Batch skipped: interrupted by {self._interrupter(row.skipped_by)}", "red")
        return _Part((_EMPTY, self._rule(", ".join(about), style="bold")), talk, tuple(self._notes(row)))

    def _call(self, call: "CallRow") -> Iterator[TranscriptLine]:
        from sideband.inspect.update_json import utf8_size  # noqa: PLC0415 - the help does not need it

        args = printable_json(call.args)
        if len(args) > ARGS_CHARACTERS:
            args = f"{args[:ARGS_CHARACTERS]}{self._signs.more}"
        text = Text(f"{self._signs.call} {printable(call.name)} {args}")
        style = _QUIET if call.status is None else "green" if call.status == "ok" else "red"
        text.append(f"  {printable(call.status or 'no result yet')}", style=style)
        yield TranscriptLine(_INDENT, text)
        output = (call.text or "").splitlines()
        yield from _indented("\n".join(output[:OUTPUT_LINES]), _TOOL, depth=2)
        if len(output) > OUTPUT_LINES or utf8_size(call.text or "") < (call.bytes or 0):
            yield from _indented(f"{self._signs.more} shortened, {call.bytes or 0:,} bytes in all", _QUIET, depth=2)

    def _interrupter(self, ids: Sequence[str]) -> str:
        """Who skipped the tools, by the items that the drain took."""
        from sideband.inspect.lanes import sender_of  # noqa: PLC0415 - the help does not need it

        names = []
        for item_id in ids:
            reminder, message = self._reminders.get(item_id), self._messages.get(item_id)
            if reminder is not None:
                names.append(self._name(reminder))
            elif message is not None:
                names.append(f"a message of {sender_of(message.sender)}")
            else:
                names.append(item_id)
        return ", ".join(names) or "a queued item"

    def _earlier(self, about: str) -> _Part:
        """The messages at the beginning of the conversation that no turn of the timeline tells."""
        from sideband.inspect.conversation import message_text  # noqa: PLC0415 - the help does not need it

        known = {*self._messages, *(turn.reply_id for turn in self._timeline.turns)} - {None}
        messages = self._history.transcript.messages
        leading = takewhile(lambda message: message.get("id") not in known, messages)
        talk: Lines = ()
        for message in leading:
            role = "summary" if message["role"] == "system" else message["role"]
            label = f"tool {message.get('name', '')}: {message.get('status', '')}" if role == "tool" else role
            lines = message_text(message).splitlines()
            kept = lines[:OUTPUT_LINES] if role == "tool" else lines
            talk += _indented(label, f"{_QUIET} underline")
            talk += _indented(
                "\n".join([*kept, *([self._signs.more] if len(kept) < len(lines) else [])]), _QUIET, depth=2
            )
        return _Part((_line(about, _QUIET),) if talk else (), talk)

    # The side.

    def _notes(self, turn: "TurnRow") -> Iterator[TranscriptLine]:
        """What the request of a turn told on the side."""
        from sideband.inspect.timeline import TurnState  # noqa: PLC0415 - the help does not need it

        for told in turn.told:
            row = self._reminders.get(told.id)
            if row is None:
                continue
            is_new = row.id not in self._told
            if turn.state is not TurnState.VOID:
                self._told.add(row.id)
            about = [
                self._name(row, quotes=not is_new),
                f"as {told.role}" if told.role else "",
                told.via and f"via {told.via}",
            ]
            about.append(_lasts_from_now(row) if is_new else "again")
            yield from self._note(row, self._signs.told, about, body=is_new)
        for sign, word, ids in (
            (self._signs.still, "told earlier, still there", turn.still),
            (self._signs.left_out, "left out", turn.left_out),
        ):
            names = [self._name(self._reminders[item_id]) for item_id in ids if item_id in self._reminders]
            if names:
                text = Text(f"{sign} {word}: {', '.join(names)}", style=_SIDE)
                yield TranscriptLine(f"{self._signs.rail} ", text, _SIDE, _INDENT)

    def _note(
        self, row: "ReminderRow", sign: str, about: "Sequence[str | None]", *, body: bool
    ) -> Iterator[TranscriptLine]:
        rail = self._signs.quoted if _is_quoted(row) else self._signs.rail
        yield TranscriptLine(f"{rail} ", Text(f"{sign} {', '.join(filter(None, about))}", style=_SIDE), _SIDE, _INDENT)
        for line in row.body.splitlines() if body else ():
            yield TranscriptLine(f"{rail}   ", Text(printable(line), style=_SIDE), _SIDE)

    def _name(self, row: "ReminderRow", *, quotes: bool = True) -> str:
        """Who a reminder is from, and what it is called; without a key, that is the start of its text if it `quotes`."""
        from sideband.inspect.lanes import name_of, sender_of  # noqa: PLC0415 - the help does not need it

        sender = sender_of(row.sender)
        name = name_of(row) if quotes or row.dedupe_key is not None else sender.name
        return str(sender) if name == sender.name else f"{sender}: {name}"

    # The end.

    def _end(self) -> Iterator[_Part]:
        from sideband.inspect.lanes import lasts  # noqa: PLC0415 - the help does not need it
        from sideband.inspect.timeline import MessageState, ReminderState  # noqa: PLC0415 - the same

        order = {str(reminder.id): place for place, reminder in enumerate(self._history.transcript.reminders)}
        rows = sorted(self._timeline.reminders, key=lambda row: order.get(row.id, 0))
        for what, state, about in (
            ("live", ReminderState.LIVE, lasts),
            ("queued", ReminderState.QUEUED, _waits),
            ("on record, never shown to the model", ReminderState.AUDIT_RECORDED, _no_more),
        ):
            yield from self._list(what, [row for row in rows if row.state is state], about)
        waiting = [row for row in self._timeline.messages if row.state is MessageState.WAITING]
        if waiting:
            yield _Part((_EMPTY, _line(f"messages that wait: {len(waiting):,}", "bold")))
        for message in waiting:
            yield _Part(_indented(f"{message.mode}, id {message.id}", _QUIET), self._text(message, _USER))

    def _list(self, what: str, rows: "Sequence[ReminderRow]", about: "Callable[[ReminderRow], str]") -> Iterator[_Part]:
        if rows:
            yield _Part((_EMPTY, _line(f"{what}: {len(rows):,}", "bold")))
        for row in rows:
            is_known = row.id in self._told
            said = [self._name(row, quotes=is_known), about(row), f"id {printable(row.id)}"]
            yield _Part(tuple(self._note(row, self._signs.told, said, body=not is_known)))


def _lasts_from_now(row: "ReminderRow") -> str:
    """For how many turns a reminder is shown from its first one on."""
    return "" if row.ttl_turns is None else f"for {counted(row.ttl_turns, 'turn')}"


def _waits(row: "ReminderRow") -> str:
    """When a queued reminder is delivered, and how often it is shown then."""
    return ", ".join(filter(None, [row.mode, _lasts_from_now(row)]))


def _no_more(_row: "ReminderRow") -> str:
    return ""


def _is_quoted(row: "ReminderRow") -> bool:
    """Whether the model gets the text as that of another party, which it need not believe."""
    return row.sender is not None and row.sender.trust not in ("operator", "controller")


def _line(text: str, style: str) -> TranscriptLine:
    return TranscriptLine("", Text(printable(text), style=style))


def _indented(text: str, style: str, *, depth: int = 1) -> Lines:
    """The lines of a text, with control characters escaped."""
    return tuple(TranscriptLine(_INDENT * depth, Text(printable(line), style=style)) for line in text.splitlines())


_EMPTY: Final = TranscriptLine("", Text())
