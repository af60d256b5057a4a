"""The lanes of a timeline: reminders about the same thing share one, and each is a bar on the time axis."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from sideband.inspect.report import printable
from sideband.inspect.timeline import ReminderRow, ReminderState, RowSender, Timeline

TRUST_LEVELS: Final[Mapping[str, str]] = MappingProxyType(
    {"operator": "T0", "controller": "T1", "peer": "T2", "server": "T3", "content": "T4"}
)
END_WORDS: Final[Mapping[ReminderState, str]] = MappingProxyType(
    {
        ReminderState.EXPIRED: "expired",
        ReminderState.CLEARED: "cleared",
        ReminderState.COMPACTED_OUT: "compacted out",
        ReminderState.DEDUPED: "deduped",
        ReminderState.REVOKED: "revoked",
        ReminderState.DROPPED: "dropped",
        ReminderState.AUDIT_RECORDED: "audit",
    }
)
# So many hexadecimal digits are a hash, which is another one for each reminder.
_HASH: Final = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{12,}(?![0-9A-Za-z])")
_QUOTED: Final = 40
_SENDER_CHARACTERS: Final = 8


class SenderName(NamedTuple):
    """Who a reminder is from, for people: `level` is T0 to T4, empty if it is not known."""

    level: str
    name: str

    def __str__(self) -> str:
        return f"{self.level} {self.name}".strip()


class Lane(NamedTuple):
    """Reminders about the same thing, oldest first; `name` is their key, their provider or the start of the body."""

    name: str
    rows: list[ReminderRow]

    @property
    def sender(self) -> SenderName:
        """Who the newest one is from."""
        return sender_of(self.rows[-1].sender)

    @property
    def label(self) -> str:
        return self._label(self.sender.name)

    def shortened(self, width: int, *, mark: str) -> str:
        """The label; if it is longer than so many characters, with a shorter name of the sender, which ends with `mark`."""
        name = self.sender.name
        if len(self.label) <= width or len(name) <= _SENDER_CHARACTERS:
            return self.label
        return self._label(name[: _SENDER_CHARACTERS - len(mark)].rstrip(" -_:.") + mark)

    def _label(self, sender: str) -> str:
        whole = f"{self.sender.level} {sender}".strip()
        return whole if self.name == self.sender.name else f"{whole}: {self.name}"


def sender_of(sender: RowSender | None) -> SenderName:
    """The level and the name of a sender; the name of one that has none is the word for its level."""
    if sender is None:
        return SenderName("", "unknown")
    return SenderName(
        TRUST_LEVELS.get(sender.trust, ""), printable(sender.principal or sender.provider_id or sender.trust)
    )


def name_of(row: ReminderRow) -> str:
    """What people call a reminder: its key, its provider if the key holds a hash, or else the start of its body."""
    key = row.dedupe_key
    if key is None:
        return _quoted(row)
    provider = None if row.sender is None else row.sender.provider_id
    if _HASH.search(key) is None:
        return printable(key)
    return printable(provider or _HASH.sub("*", key))


def _quoted(row: ReminderRow) -> str:
    if row.at_the_door:
        return "refused"
    text = one_line(row.body)
    return f'"{text if len(text) <= _QUOTED else text[:_QUOTED].rstrip() + "..."}"' if text else printable(row.id)


def one_line(text: str) -> str:
    """A text of several lines on one, with control characters escaped."""
    return printable(" ".join(text.split()))


def lanes_of(timeline: Timeline) -> list[Lane]:
    """The lanes in the order in which they begin."""
    found: dict[tuple[str, ...], Lane] = {}
    for row in timeline.reminders:
        sender, name = sender_of(row.sender), name_of(row)
        lane = found.setdefault(_lane_key(row, sender, name), Lane(name, []))
        lane.rows.append(row)
    return [*found.values()]


def _lane_key(row: ReminderRow, sender: SenderName, name: str) -> tuple[str, ...]:
    """Equal for reminders that share a lane: those that may replace each other, and all refused on arrival of a sender."""
    if row.at_the_door:
        return "refused", *sender
    if row.dedupe_key is None:
        return "id", row.id
    # Operator and controllers share their keys; every other sender has keys of its own.
    owner = ("own",) if sender.level in ("T0", "T1", "") else tuple(sender)
    return "key", name, *owner


# Bars.


class Bar(NamedTuple):
    """A reminder from its first to its last place; `end` is the place of now if it is pending.

    `start` is None if the beginning is no longer kept.
    """

    row: ReminderRow
    start: float | None
    live: float | None
    end: float


def bars_of(lane: Lane, *, now: float) -> Iterator[Bar]:
    """The bars of a lane."""
    for row in lane.rows:
        end = now if row.ended is None else row.ended.at
        live = None if row.live is None else row.live.at
        if row.queued is not None:
            start: float | None = row.queued.at
        elif live is not None:
            start = live
        else:
            start = end if row.at_the_door else None
        # The turn of a void request is used again: what it had delivered counts from before it.
        live = None if live is None else min(live, end)
        yield Bar(row, None if start is None else min(start, end), live, end)


def packed(spans: Iterable[tuple[int, int]]) -> list[int]:
    """For each span of cells, both ends included, the first line on which it overlaps no earlier one."""
    free: list[int] = []
    lines: list[int] = []
    for first, last in spans:
        line = next((line for line, end in enumerate(free) if end < first), len(free))
        if line == len(free):
            free.append(last)
        free[line] = max(free[line], last)
        lines.append(line)
    return lines


# What is said of a reminder.


def state_text(row: ReminderRow) -> str:
    """The state of a reminder in words."""
    words = [lasts(row) if row.state is ReminderState.LIVE else END_WORDS.get(row.state, row.state.value)]
    if row.state is ReminderState.QUEUED and row.mode in ("interrupt_immediate", "audit_only"):
        words.append("interrupts" if row.mode == "interrupt_immediate" else "audit only")
    elif row.reason is not None:
        words.append(row.reason)
    if row.count > 1:
        words.append(f"{row.count} times")
    if row.inherited:
        words.append("inherited")
    return ", ".join(words)


def lasts(row: ReminderRow) -> str:
    """For how long a reminder is still shown."""
    if row.ttl_left is None:
        return "until cleared" if row.preserve_on_compact else "until compaction"
    return f"{row.ttl_left} turn{'' if row.ttl_left == 1 else 's'} left"


def lane_state(rows: Sequence[ReminderRow]) -> str:
    """The state of a lane: of what is pending in it, or else of what was in it last."""
    pending = [row for row in rows if row.is_pending]
    return "; ".join(state_text(row) for row in pending) if pending else state_text(rows[-1])
