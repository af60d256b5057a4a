"""What is done to a session that has so many reminders pending, again and again.

The number pending is the same whenever a timed call begins: what a call adds or takes is put right before the next.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from itertools import count
from random import Random
from types import MappingProxyType
from typing import Any, Final, Protocol

from benchmarks.indexed import Indexed
from benchmarks.naive import NaiveList
from benchmarks.stopwatch import Call
from sideband.core.reminder import MAX_TTL_TURNS, Draft, Reminder, ReminderId, Source, mint

BODY: Final = "A file changed on disk since it was read. Read it again before editing."
# Of fifty groups, one is 2 %; of ten, 10 %.
GROUPS: Final = 50
TENTHS: Final = 10


class Operation(StrEnum):
    """The rows of the table."""

    INJECT_NEW = "inject, new key"
    INJECT_COLLIDING = "inject, colliding key"
    ACCEPT_NEW = "accept, new key"
    ACCEPT_COLLIDING = "accept, colliding key"
    NOTHING_DUE = "TTL pass, nothing due"
    TENTH_DUE = "TTL pass, 10 % expire"
    CLEAR = "clear by tag, 2 % hit"
    CLEAR_ABSENT = "clear by tag, none hit"
    REVOKE = "revoke by id"
    LISTING = "list all with their TTL"


class Subject(Protocol):
    """What is measured. The first six methods are timed, and tell how many reminders ended or what is pending."""

    def inject(self, reminder: Reminder) -> int: ...
    def accept(self, draft: Draft, new_id: str) -> int: ...
    def end_turn(self) -> int: ...
    def clear(self, tag: str) -> int: ...
    def revoke(self, reminder_id: str) -> int: ...
    def listing(self) -> Sequence[Reminder]: ...

    def __len__(self) -> int: ...
    def load(self, reminders: Iterable[Reminder]) -> None: ...
    def enqueue(self, drafts: Iterable[Draft], new_id: Callable[[], str]) -> None: ...
    def begin_turn(self) -> None: ...
    def withdraw(self, reminder_id: str) -> None: ...
    def ids_by_key(self) -> dict[str | None, str]: ...


SUBJECTS: Final[Mapping[str, Callable[[], Subject]]] = MappingProxyType({"ours": Indexed, "naive": NaiveList})

_serial: Final = count()
# In no order: neither memory nor the list should have what comes next at hand.
_random: Final = Random(7)  # noqa: S311 - picks places, keeps no secrets


def new_id() -> str:
    return f"0190a0c4-5f00-7000-8000-{next(_serial):012x}"


def a_key(place: int) -> str:
    return f"file_changed:src/module_{place}.py"


def a_draft(place: int, **changed: Any) -> Draft:  # noqa: ANN401 - any field of the draft
    """What a place of the workload asks for; every other one is finite, and outlives the benchmark."""
    standing = {
        "dedupe_key": a_key(place),
        "tags": ("workspace", f"group_{place % GROUPS}", f"tenth_{place % TENTHS}"),
        "ttl_turns": MAX_TTL_TURNS if place % 2 else None,
    }
    return Draft(body=BODY, **(standing | changed))


def a_reminder(place: int, **changed: Any) -> Reminder:  # noqa: ANN401 - any field of the draft
    """A reminder for a place; its successors differ in their id alone."""
    return mint(a_draft(place, **changed), reminder_id=ReminderId(new_id()), source=Source.IN_PIPELINE)


# A workload yields the calls to be timed; what it does before and after a `yield` is not.

Workload = Callable[[Subject, int, Iterable[int]], Iterator[Call]]


def _inject_new(subject: Subject, size: int, numbers: Iterable[int]) -> Iterator[Call]:
    for number in numbers:
        reminder = a_reminder(size + number)
        yield partial(subject.inject, reminder)
        subject.withdraw(reminder.id)


def _inject_colliding(subject: Subject, size: int, numbers: Iterable[int]) -> Iterator[Call]:
    for _ in numbers:
        yield partial(subject.inject, a_reminder(_random.randrange(size)))


def _accept_new(subject: Subject, size: int, numbers: Iterable[int]) -> Iterator[Call]:
    for number in numbers:
        reminder_id = new_id()
        yield partial(subject.accept, a_draft(size + number), reminder_id)
        subject.revoke(reminder_id)


def _accept_colliding(subject: Subject, size: int, numbers: Iterable[int]) -> Iterator[Call]:
    for _ in numbers:
        yield partial(subject.accept, a_draft(_random.randrange(size)), new_id())


def _nothing_due(subject: Subject, _size: int, numbers: Iterable[int]) -> Iterator[Call]:
    for _ in numbers:
        subject.begin_turn()
        yield subject.end_turn


def _tenth_due(subject: Subject, size: int, numbers: Iterable[int]) -> Iterator[Call]:
    tenth = range(0, size, TENTHS)
    for _ in numbers:
        subject.clear("tenth_0")
        # Loading shows them once already.
        subject.load([a_reminder(place, ttl_turns=2) for place in tenth])
        subject.begin_turn()
        yield subject.end_turn
        subject.load([a_reminder(place) for place in tenth])


def _clear(subject: Subject, size: int, numbers: Iterable[int]) -> Iterator[Call]:
    for _ in numbers:
        yield partial(subject.clear, "group_0")
        subject.load([a_reminder(place) for place in range(0, size, GROUPS)])


def _clear_absent(subject: Subject, _size: int, numbers: Iterable[int]) -> Iterator[Call]:
    for _ in numbers:
        yield partial(subject.clear, "absent")


def _revoke(subject: Subject, size: int, numbers: Iterable[int]) -> Iterator[Call]:
    ids = subject.ids_by_key()
    for _ in numbers:
        draft = a_draft(_random.randrange(size))
        gone, ids[draft.dedupe_key] = ids[draft.dedupe_key], new_id()
        yield partial(subject.revoke, gone)
        subject.enqueue((draft,), partial(ids.__getitem__, draft.dedupe_key))


def _listing(subject: Subject, _size: int, numbers: Iterable[int]) -> Iterator[Call]:
    for _ in numbers:
        yield subject.listing


ON_INBOX: Final[Mapping[Operation, Workload]] = MappingProxyType(
    {
        Operation.ACCEPT_NEW: _accept_new,
        Operation.ACCEPT_COLLIDING: _accept_colliding,
        Operation.REVOKE: _revoke,
    }
)
ON_LIVE: Final[Mapping[Operation, Workload]] = MappingProxyType(
    {
        Operation.INJECT_NEW: _inject_new,
        Operation.INJECT_COLLIDING: _inject_colliding,
        Operation.NOTHING_DUE: _nothing_due,
        Operation.TENTH_DUE: _tenth_due,
        Operation.CLEAR: _clear,
        Operation.CLEAR_ABSENT: _clear_absent,
        Operation.LISTING: _listing,
    }
)


def with_live(name: str, size: int) -> Subject:
    subject = SUBJECTS[name]()
    subject.load([a_reminder(place) for place in range(size)])
    return subject


def with_waiting(name: str, size: int) -> Subject:
    subject = SUBJECTS[name]()
    subject.enqueue((a_draft(place) for place in range(size)), new_id)
    return subject
