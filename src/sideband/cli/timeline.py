"""`sideband timeline`: when each reminder of a session was queued, live and shown, and how it ended."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from cyclopts import Parameter
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.target import Integer, JsonOption, ServerToOption, StoreOption, history_of
from sideband.inspect.report import CommandError, counted, escaped_json, printable

if TYPE_CHECKING:
    from sideband.inspect.lanes import Bar, Lane
    from sideband.inspect.timeline import ReminderRow, Timeline

MIN_WIDTH: Final = 40
# The room before the first turn, in cells: what happened before it.
_PAD: Final = 3
# A turn needs a cell for its request, its reply and its results.
_MIN_CELLS, _MAX_CELLS = 3, 12
_MAX_STATE: Final = 30
_MIN_LABEL, _MAX_LABEL = 22, 48
_MIN_BODY: Final = 20
_GAP: Final = 2
# The request and the reply of a turn on the time axis, and what makes up for the rounding of places.
_REQUEST, _REPLIED, _ROUNDING = 0.2, 0.6, 1e-6
_USER, _RUN = "user", "run"
# The seam at which an interrupt skips tools.
_INTERRUPTS: Final = "pre_tool_dispatch"


class Glyph(NamedTuple):
    """A mark: as a character, in ASCII, its word in the legend, and its style."""

    char: str
    ascii: str
    word: str
    style: str


GLYPHS: Final[Mapping[str, Glyph]] = MappingProxyType(
    {
        "message": Glyph("▼", "v", "user message", "blue"),
        "waiting": Glyph("▽", "w", "message that waits", "blue"),
        "interrupt": Glyph("↯", "*", "tools skipped by an interrupt", "red"),
        "void": Glyph("∅", "0", "void request", "bright_black"),
        "compaction": Glyph("┊", ":", "compaction", "magenta"),
        "earlier": Glyph("◂", "<", "began earlier", "bright_black"),
        "queued": Glyph("╌", "-", "queued", "yellow"),
        "live": Glyph("━", "=", "live", "yellow"),
        "told": Glyph("●", "O", "told in this turn", "bold yellow"),
        "carried": Glyph("•", "o", "told earlier, still there", "yellow"),
        "left_out": Glyph("◐", "?", "left out (budget)", "yellow"),
        "expired": Glyph("┤", "|", "expired", "bright_black"),
        "cleared": Glyph("×", "x", "cleared", "bright_black"),  # noqa: RUF001 - a mark, no letter
        "deduped": Glyph("»", ">", "deduped (replaced)", "bright_black"),
        "revoked": Glyph("↶", "~", "revoked", "bright_black"),
        "compacted_out": Glyph("⊟", "%", "compacted out", "magenta"),
        "dropped": Glyph("⊘", "!", "dropped", "red"),
        "audit_recorded": Glyph("¶", "@", "audit record", "bright_black"),
    }
)


def timeline(
    *,
    to: ServerToOption = None,
    store: StoreOption = None,
    turns: Annotated[Integer, Parameter(metavar="N")] = None,
    width: Annotated[Integer, Parameter(metavar="COLUMNS")] = None,
    json: JsonOption = False,
) -> int:
    """Draw the turns of a session from left to right, and below them a bar for each reminder.

    A bar is dashed while the reminder is queued and solid while it is live, with a dot in each turn that showed it and a
    mark where it ended. Reminders with the same key share a lane. The lane says who sent them, at which trust level (T0
    operator, T1 controller, T2 peer, T3 server), and how long they last. If the turns do not fit, the last ones are drawn.
    What is live and queued now is listed below, in the order in which the model reads it. Exits with 2 if the session
    cannot be read.

    Parameters
    ----------
    turns
        Only the last N turns.
    width
        Draw for so many columns, at least 40. The default is the width of the terminal.
    """
    try:
        if width is not None and width < MIN_WIDTH:
            raise CommandError(f"--width must be at least {MIN_WIDTH} columns, not {width}")
        if turns is not None and turns < 1:
            raise CommandError(f"--turns must be at least 1, not {turns}")
        history = history_of(to, store, turns=turns)
    except REFUSALS as error:
        return refuse(error)
    if json:
        print(escaped_json(history.timeline.to_json()))
        return OK
    console = Console(highlight=False, width=width)
    for line in draw(history.timeline, history.word, width=console.width, ascii_only=not can_draw(console.encoding)):
        console.print(line, soft_wrap=True)
    return OK


def can_draw(encoding: str) -> bool:
    """Whether every mark can be written in this encoding."""
    try:
        "".join(glyph.char for glyph in GLYPHS.values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def draw(timeline: "Timeline", word: str, *, width: int, ascii_only: bool) -> "Iterator[Text]":
    """The lines of the drawing, each of at most `width` cells; `word` says whether the session is idle or running."""
    from sideband.inspect.timeline import place_of  # noqa: PLC0415 - the help does not need it

    return _Drawing(timeline, word, max(width, MIN_WIDTH), place_of(timeline), ascii_only=ascii_only).lines()


class _Axis(NamedTuple):
    """Where turns are drawn: `turns` are the numbers of those that fit, each `cells` wide, after `pad` cells."""

    turns: "range"
    cells: int
    pad: int

    @property
    def width(self) -> int:
        return self.pad + len(self.turns) * self.cells

    @property
    def first(self) -> int:
        return self.turns.start

    def cell(self, at: float) -> int:
        """The cell of a place; what is before the first turn that is drawn is in the last cell of the room before it."""
        if at < self.first:
            return max(self.pad - 1, 0)
        # A place is a number of fifths of a turn: 0.2 of it is the first cell of four.
        return min(self.pad + int((at - self.first) * self.cells + _ROUNDING), self.width - 1)

    def request(self, turn: int) -> int:
        """The cell of the request of a turn."""
        return self.cell(turn + _REQUEST)


class _Drawing:
    """A timeline as lines of a terminal."""

    def __init__(self, timeline: "Timeline", word: str, width: int, now: float, *, ascii_only: bool) -> None:
        from sideband.inspect.lanes import lane_state, lanes_of  # noqa: PLC0415 - the help does not need it

        self._timeline = timeline
        self._word = word
        self._width = width
        self._now = now
        self._ascii = ascii_only
        # What stands for the rest of a text that is cut.
        self._mark = ".." if ascii_only else "…"
        self._used: dict[str, None] = {}
        lanes = lanes_of(timeline)
        states = [lane_state(lane.rows) for lane in lanes]
        self._state_width = min(max(map(cell_len, states), default=0), width * 3 // 10, _MAX_STATE)
        longest = max((cell_len(lane.label) for lane in lanes), default=0)
        self._label_width = min(
            max(longest, len(_USER)), max(width * 3 // 10, min(_MIN_LABEL, width * 3 // 8)), _MAX_LABEL
        )
        self._axis = self._fitted(width - self._label_width - self._state_width - 2 * _GAP)
        self._lanes = [lane for lane in lanes if self._is_drawn(lane)]
        self._hidden = len(lanes) - len(self._lanes)

    def _fitted(self, room: int) -> _Axis:
        """The axis with the last turns for which there is room."""
        numbers = [turn.turn for turn in self._timeline.turns]
        last = max((*numbers, self._timeline.turn))
        first = min(numbers, default=max(last, 1))
        least = max(_MIN_CELLS, len(str(last)) + 1)
        fit = max((room - _PAD) // least, 1)
        turns = range(max(first, last - fit + 1), last + 1)
        cells = max(min((room - _PAD) // max(len(turns), 1), _MAX_CELLS), least)
        return _Axis(turns, cells, _PAD)

    def _is_drawn(self, lane: "Lane") -> bool:
        return any(row.ended is None or row.ended.at >= self._axis.first or self._axis.first <= 1 for row in lane.rows)

    # Lines.

    def lines(self) -> Iterator[Text]:
        yield self._title()
        for note in self._notes():
            yield Text(note, style="bright_black")
        if self._timeline.turns or self._lanes:
            yield Text()
            yield from self._chart()
            yield from self._legend()
        yield from self._list("live", "what the model is told on the side")
        yield from self._list("queued", "not delivered yet")
        yield from self._messages()

    def _title(self) -> Text:
        timeline = self._timeline
        turn = f"turn {timeline.turn}"
        if timeline.open_turn is not None:
            turn = f"turn {timeline.open_turn} open"
        title = timeline.records.get("title")
        about = f"  {printable(title)}" if isinstance(title, str) else ""
        line = Text(self._cut(f"session {printable(timeline.session_id)}: {self._word}, {turn}{about}", self._width))
        line.stylize("bold")
        return line

    def _notes(self) -> Iterator[str]:
        timeline, axis = self._timeline, self._axis
        if timeline.since:
            yield from _wrapped(
                f"Events up to {timeline.since:,} are no longer kept, so earlier turns are unknown.", self._width
            )
        drawn = {turn.turn for turn in timeline.turns if turn.turn in axis.turns}
        missing = len({turn.turn for turn in timeline.turns}) - len(drawn)
        earlier = timeline.earlier_turns + missing
        if earlier:
            hint = "; a wider terminal or --width COLUMNS shows more" if missing else ""
            yield from _wrapped(f"{counted(earlier, 'earlier turn')} not shown{hint}.", self._width)
        if self._hidden:
            what = counted(self._hidden, "lane")
            yield from _wrapped(f"{what} not shown: ended before turn {axis.first}.", self._width)
        if timeline.permissions:
            yield from _wrapped(f"{counted(len(timeline.permissions), 'question')} for permission open.", self._width)

    def _chart(self) -> Iterator[Text]:
        yield self._numbers()
        marks = self._user_marks()
        if any(name != " " for name in marks):
            yield self._line(_USER, marks, style="bright_black")
        marks, words = self._run_marks()
        if any(name != " " for name in marks):
            yield self._line(_RUN, marks, words=words, style="bright_black")
        for lane in self._lanes:
            yield from self._lane(lane)

    def _numbers(self) -> Text:
        axis = self._axis
        cells = [" "] * axis.width
        for turn in axis.turns:
            start = min(axis.request(turn), axis.width - len(str(turn)))
            cells[start : start + len(str(turn))] = str(turn)
        line = Text(self._fit("turn", self._label_width) + " " * _GAP + "".join(cells).rstrip())
        line.stylize("bold")
        line.rstrip()
        return line

    def _blank(self) -> list[str]:
        """Empty cells, with the compactions, which cross all lanes."""
        cells = [" "] * self._axis.width
        for compaction in self._timeline.compactions:
            if compaction.at >= self._axis.first:
                cells[self._axis.cell(compaction.at)] = "compaction"
        return cells

    def _user_marks(self) -> list[str]:
        from sideband.inspect.timeline import MessageState  # noqa: PLC0415 - the help does not need it

        cells = [" "] * self._axis.width
        for message in self._timeline.messages:
            if message.role != "user" or message.state is MessageState.REVOKED or message.audit_only:
                continue
            at = self._now if message.delivered_at is None else message.delivered_at
            if at >= self._axis.first or self._axis.first <= 1:
                cells[self._axis.cell(at)] = "message" if message.state is MessageState.DELIVERED else "waiting"
        return cells

    def _run_marks(self) -> tuple[list[str], list[str]]:
        """What happened to whole turns, and the words for it where there is room."""
        from sideband.inspect.timeline import TurnState  # noqa: PLC0415 - the help does not need it

        axis, cells, said = self._axis, self._blank(), dict[int, str]()
        for compaction in self._timeline.compactions:
            said[axis.cell(compaction.at)] = f"compaction, {counted(compaction.archived_messages, 'message')} archived"
        for turn in self._timeline.turns:
            if turn.turn not in axis.turns:
                continue
            if turn.state is TurnState.VOID:
                cells[axis.request(turn.turn)] = "void"
                said[axis.request(turn.turn)] = "void"
            if turn.skipped_by is not None:
                cells[axis.cell(turn.turn + _REPLIED)] = "interrupt"
                said[axis.cell(turn.turn + _REPLIED)] = "tools skipped"
        words = [" "] * axis.width
        places = [place for place, name in enumerate(cells) if name != " "]
        for place, following in zip(places, [*places[1:], axis.width], strict=False):
            whole = said.get(place, "")
            if not _write(words, place + 2, whole, following):
                _write(words, place + 2, whole.partition(",")[0], following)
        return cells, words

    # Lanes.

    def _lane(self, lane: "Lane") -> Iterator[Text]:
        from sideband.inspect.lanes import END_WORDS, bars_of, lane_state, packed  # noqa: PLC0415 - the help does not need it

        bars = [bar for bar in bars_of(lane, now=self._now) if self._is_visible(bar)]
        spans = [self._span(bar) for bar in bars]
        lines = packed(spans)
        state, drawn = lane_state(lane.rows), list[tuple[list[str], list[str]]]()
        for number in range(max(lines, default=0) + 1):
            cells, words = self._blank(), [" "] * self._axis.width
            mine = [(bar, span) for bar, span, line in zip(bars, spans, lines, strict=True) if line == number]
            for place, (bar, span) in enumerate(mine):
                self._draw(bar, span, cells)
                until = mine[place + 1][1][0] if place + 1 < len(mine) else self._axis.width
                is_said = _write(words, span[1] + 2, END_WORDS.get(bar.row.state, ""), until)
                if is_said and bar.row is lane.rows[-1] and state == END_WORDS[bar.row.state]:
                    # It is said once, where it happened.
                    state = ""
            drawn.append((cells, words))
        label = lane.shortened(self._label_width, mark=self._mark)
        for cells, words in drawn:
            yield self._line(label, cells, words=words, state=state)
            label = state = ""

    def _is_visible(self, bar: "Bar") -> bool:
        return self._axis.first <= 1 or bar.row.is_pending or bar.end >= self._axis.first

    def _span(self, bar: "Bar") -> tuple[int, int]:
        start = self._axis.pad - 1 if bar.start is None else self._axis.cell(bar.start)
        return start, max(start, self._axis.cell(bar.end))

    def _draw(self, bar: "Bar", span: tuple[int, int], cells: list[str]) -> None:
        row, (start, end) = bar.row, span
        live = None if bar.live is None else self._axis.cell(bar.live)
        if bar.live is None and row.queued is None and not row.at_the_door:
            # Its beginning is no longer kept.
            live = start if row.shown or row.state == "live" else None
        elif live is not None and row.queued is not None:
            # At least one cell says that it was queued.
            live = max(live, start + 1)
        for cell in range(start, end + 1):
            cells[cell] = "live" if live is not None and cell >= live else "queued"
        if bar.start is None or (bar.start < self._axis.first and self._axis.first > 1):
            cells[start] = "earlier"
        for showing in row.shown:
            if showing.turn in self._axis.turns:
                cells[self._axis.request(showing.turn)] = "carried" if showing.carried else "told"
        for turn in row.left_out:
            if turn in self._axis.turns:
                cells[self._axis.request(turn)] = "left_out"
        if (
            live is not None
            and row.live is not None
            and row.live.seam == _INTERRUPTS
            and row.live.at >= self._axis.first
        ):
            cells[min(live, end)] = "interrupt"
        if row.ended is not None:
            cells[end] = row.state.value

    def _line(
        self, label: str, cells: Sequence[str], *, words: Sequence[str] = (), state: str = "", style: str = ""
    ) -> Text:
        line = Text(self._fit(label, self._label_width), style=style)
        line.append(" " * _GAP)
        for place, name in enumerate(cells):
            written = words[place] if words else " "
            glyph = GLYPHS.get(name)
            if written != " " or glyph is None:
                line.append(written, style="bright_black")
            else:
                self._used[name] = None
                line.append(glyph.ascii if self._ascii else glyph.char, style=glyph.style)
        if state:
            line.append(" " * _GAP + self._cut(state, self._state_width))
        line.rstrip()
        return line

    # Below the lanes.

    def _legend(self) -> Iterator[Text]:
        yield Text()
        line = Text()
        for name, glyph in GLYPHS.items():
            if name not in self._used:
                continue
            mark = Text(f"{glyph.ascii if self._ascii else glyph.char} ", style=glyph.style)
            mark.append(glyph.word, style="bright_black")
            if line and line.cell_len + 3 + mark.cell_len > self._width:
                yield line
                line = Text()
            if line:
                line.append("   ")
            line.append_text(mark)
        if line:
            yield line

    def _list(self, state: str, about: str) -> Iterator[Text]:
        from sideband.inspect.lanes import lasts, name_of, one_line, sender_of  # noqa: PLC0415 - the help does not need it

        rows = [row for row in self._timeline.reminders if row.state == state]
        if not rows:
            return
        yield Text()
        yield Text(self._cut(f"{state}: {len(rows):,}, {about}", self._width), style="bold")
        heads = [
            f"{sender_of(row.sender)}: {name_of(row)}" if row.dedupe_key else str(sender_of(row.sender)) for row in rows
        ]
        head_width = min(max(map(cell_len, heads)), self._label_width)
        for row, head in zip(rows, heads, strict=True):
            left = _waits(row) if state == "queued" else lasts(row)
            line = Text(f"  {self._fit(head, head_width)}  ")
            room = self._width - line.cell_len - len(left) - _GAP
            if room < _MIN_BODY:
                yield Text(self._cut(f"  {head}, {left}", self._width))
                yield Text(f"    {self._cut(one_line(row.body), self._width - 4)}".rstrip(), style="yellow")
                continue
            line.append(self._cut(one_line(row.body), room), style="yellow")
            line.append(f"  {left}", style="bright_black")
            line.rstrip()
            yield line

    def _messages(self) -> Iterator[Text]:
        from sideband.inspect.lanes import one_line  # noqa: PLC0415 - the help does not need it
        from sideband.inspect.timeline import MessageState  # noqa: PLC0415 - the same

        waiting = [row for row in self._timeline.messages if row.state is MessageState.WAITING]
        if waiting:
            yield Text()
            yield Text(f"user messages that wait: {len(waiting):,}", style="bold")
        for row in waiting:
            line = f"  {row.mode or ''}: {one_line(row.text)}"
            yield Text(self._cut(line, self._width), style="blue")

    # Texts.

    def _cut(self, text: str, width: int) -> str:
        """The text, shortened to so many cells."""
        if cell_len(text) <= width:
            return text
        kept = max(width - len(self._mark), 0)
        return f"{chop_cells(text, kept)[0] if kept else ''}{self._mark}"[: max(width, 0)]

    def _fit(self, text: str, width: int) -> str:
        """The text, shortened or padded to so many cells."""
        return set_cell_size(self._cut(text, width), width)


def _waits(row: "ReminderRow") -> str:
    """How long a queued reminder will last, and when it is delivered."""
    return f"TTL {row.ttl_left}, {row.mode}" if row.ttl_left else row.mode or ""


def _write(cells: list[str], start: int, word: str, until: int) -> bool:
    """Write the word at this cell if it ends before another one; whether it does."""
    fits = bool(word) and start + len(word) < until
    if fits:
        cells[start : start + len(word)] = word
    return fits


def _wrapped(text: str, width: int) -> list[str]:
    from textwrap import wrap  # noqa: PLC0415 - the help does not need it

    return wrap(text, width)
