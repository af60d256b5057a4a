"""What is handed over to an agent that keeps its own conversation: with which prompt, how often, and what is still owed."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core import snapshot
from sideband.core.apply import fold
from sideband.core.events import (
    AuditRecorded,
    Cancelled,
    Closed,
    Deduped,
    Deferred,
    Deleted,
    Expired,
    Fired,
    Idled,
    InjectAccepted,
    InjectDelivered,
    Injected,
    QueuedMessage,
    Recorded,
    Started,
)
from sideband.core.handover import (
    RECORD,
    Given,
    NotStarted,
    OpenedPrompt,
    Owed,
    close_prompt,
    compact_given,
    confirm,
    open_prompt,
    owed,
    take_next,
)
from sideband.core.seams import InjectMode, Mode
from sideband.core.turn import cancel, close, settle
from tests.builders import a_draft, a_reminder, a_text
from tests.sessions import CLIENT, Session


class Handing(Session):
    """A session whose prompts go to an agent elsewhere. `handed` is what the process remembers of the open prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.handed: set[str] = set()

    def tell(self, mode: InjectMode = InjectMode.QUEUE) -> str:
        message_id = self.new_id()
        item = QueuedMessage(message_id=message_id, content=tuple(a_text()), mode=mode, provenance=CLIENT)
        self.commit([InjectAccepted(item=item)])
        return message_id

    def open(self, *, in_front: bool = True) -> list[str]:
        """Start the turn of a prompt; the ids of what it hands over."""
        opened = self.decide(open_prompt(self.state, in_front=in_front))
        assert isinstance(opened, OpenedPrompt)
        self.handed = {item.id for item in opened.given}
        return [item.id for item in opened.given]

    def end(self) -> None:
        self.decide(close_prompt(self.state, handed=self.handed, status="completed"))

    def give_up(self) -> None:
        self.decide(settle(self.state, status="failed"))

    def take(self, *, tool_runs: bool = True) -> Given | None:
        return self.decide(take_next(self.state, tool_runs=tool_runs))


def fired(session: Session) -> list[tuple[str, int, bool]]:
    return [(event.reminder_id, event.turn, event.carried) for event in session.journal if isinstance(event, Fired)]


# The prompt.


def test_a_prompt_hands_over_reminders_then_messages_of_every_mode() -> None:
    session = Handing()
    queued, steer, interrupt = (
        session.tell(),
        session.tell(InjectMode.STEER),
        session.tell(InjectMode.INTERRUPT_IMMEDIATE),
    )
    later = session.accept(a_draft()).reminder_id
    sooner = session.accept(a_draft(mode=Mode.INTERRUPT_IMMEDIATE)).reminder_id
    session.inject(a_reminder("live"))
    assert session.open() == ["live", sooner, later, interrupt, steer, queued]
    assert owed(session.state).messages == (interrupt, steer, queued)
    session.end()
    assert owed(session.state) == Owed()
    assert session.open() == []


def test_a_reminder_that_is_replaced_by_the_same_drain_is_not_handed_over() -> None:
    session = Handing()
    session.inject(a_reminder("old", dedupe_key="build"), CLIENT)
    new = session.accept(a_draft(dedupe_key="build")).reminder_id
    assert session.open() == [new]
    assert [event.replaced_id for event in session.journal if isinstance(event, Deduped)] == ["old"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(lambda session: session.close(), NotStarted.CLOSED, id="closed"),
        pytest.param(lambda session: session.commit([Deleted()]), NotStarted.CLOSED, id="deleted"),
        pytest.param(lambda session: session.commit([Started()]), NotStarted.LEFT_OPEN, id="running"),
        pytest.param(lambda session: session.open(), NotStarted.LEFT_OPEN, id="a-turn-is-open"),
    ],
)
def test_no_turn_is_opened_in_a_session_that_is_over_or_was_left_open(
    change: Callable[[Handing], object], why: NotStarted
) -> None:
    session = Handing()
    session.accept(a_draft())
    change(session)
    before = list(session.journal)
    assert session.decide(open_prompt(session.state)) is why
    assert session.journal == before


def test_a_prompt_that_takes_nothing_in_front_still_is_a_turn() -> None:
    session = Handing()
    first = session.accept(a_draft(ttl_turns=3)).reminder_id
    session.open()
    session.end()
    second = session.accept(a_draft()).reminder_id
    assert session.open(in_front=False) == []
    session.end()
    assert session.open() == [second]
    assert fired(session) == [(first, 1, False), (first, 2, True), (first, 3, True), (second, 3, False)]


def test_a_reminder_that_the_agent_has_forgotten_does_not_age_in_a_turn_that_cannot_repeat_it() -> None:
    session = Handing()
    kept = session.accept(a_draft(ttl_turns=3, preserve_on_compact=True)).reminder_id
    session.open()
    session.end()
    session.decide(compact_given(session.state))
    assert session.open(in_front=False) == []
    assert isinstance(session.journal[-1], Deferred)
    session.end()
    assert session.open() == [kept]
    session.end()
    assert not session.live_ids


def test_audit_records_are_made_when_the_agent_has_answered() -> None:
    session = Handing()
    session.accept(a_draft(mode=Mode.AUDIT_ONLY))
    session.tell(InjectMode.AUDIT_ONLY)
    assert session.open() == []
    session.end()
    recorded = [event for event in session.journal if isinstance(event, AuditRecorded | InjectDelivered)]
    assert len(recorded) == 2
    assert isinstance(session.journal[-1], Idled)


def test_a_turn_that_was_cancelled_elsewhere_ends_without_a_commit() -> None:
    session = Handing()
    session.open()
    session.commit([Cancelled()])
    before = list(session.journal)
    session.end()
    assert session.journal == before


def test_what_a_turn_handed_over_that_was_cancelled_elsewhere_is_not_handed_over_again() -> None:
    session = Handing()
    reminder_id = session.accept(a_draft(ttl_turns=1)).reminder_id
    message_id = session.tell()
    assert session.open() == [reminder_id, message_id]
    session.decide(cancel(session.state))
    session.end()
    assert session.open() == []
    session.end()
    assert fired(session) == [(reminder_id, 1, False), (reminder_id, 1, False)]
    assert session.live_ids == []
    assert owed(session.state) == Owed()


def test_a_session_that_was_closed_elsewhere_gets_no_record() -> None:
    session = Handing()
    session.tell()
    session.open()
    session.decide(close(session.state))
    before = list(session.journal)
    session.end()
    assert session.journal == before


def test_a_turn_that_was_voided_elsewhere_leaves_an_idle_session() -> None:
    session = Handing()
    session.open()
    session.give_up()
    session.commit([Started()])
    session.end()
    assert not session.state.running


@pytest.mark.parametrize("value", ["text", {"messages": 3}])
def test_a_record_that_is_not_ours_says_nothing(value: object) -> None:
    session = Handing()
    session.commit([Recorded(name=RECORD, value=value)])
    assert owed(session.state) == Owed()


# While the turn runs.


def test_interrupts_come_first_and_everything_else_only_while_a_tool_runs() -> None:
    session = Handing()
    session.open()
    later = session.accept(a_draft()).reminder_id
    steer = session.tell(InjectMode.STEER)
    interrupt = session.tell(InjectMode.INTERRUPT_IMMEDIATE)
    taken = [session.take(tool_runs=False), session.take(tool_runs=False), session.take(), session.take()]
    assert [None if item is None else item.id for item in taken] == [interrupt, None, later, steer]
    assert owed(session.state).messages == (interrupt, steer)
    assert session.take() is None


def test_what_the_agent_takes_is_shown_in_the_running_turn() -> None:
    session = Handing()
    session.open()
    reminder_id = session.accept(a_draft(ttl_turns=1)).reminder_id
    session.take()
    (injected,) = (event for event in session.journal if isinstance(event, Injected))
    assert injected.reminder.fired_at_turn == 1
    session.decide(confirm(session.state, reminder_id))
    session.decide(confirm(session.state, reminder_id))
    session.end()
    assert fired(session) == [(reminder_id, 1, False)]
    assert [event.reminder_id for event in session.journal if isinstance(event, Expired)] == [reminder_id]
    assert owed(session.state) == Owed()


def test_a_message_that_the_agent_takes_is_not_owed_any_more() -> None:
    session = Handing()
    session.open()
    steer = session.tell(InjectMode.STEER)
    session.take()
    session.decide(confirm(session.state, steer))
    assert owed(session.state) == Owed()


def test_a_reminder_that_was_put_back_waits_while_the_agent_runs_a_command() -> None:
    session = Handing()
    session.open()
    reminder_id = session.accept(a_draft()).reminder_id
    session.take()
    session.end()
    assert session.open(in_front=False) == []
    session.end()
    assert session.open() == [reminder_id]


def test_what_the_agent_takes_after_the_turn_is_shown_in_the_next_one_without_being_handed_over_again() -> None:
    session = Handing()
    session.open()
    reminder_id = session.accept(a_draft()).reminder_id
    session.take()
    session.end()
    session.decide(confirm(session.state, reminder_id))
    assert session.open() == []
    session.end()
    assert fired(session) == [(reminder_id, 1 + 1, False)]


def test_a_reminder_that_ended_on_its_way_is_not_shown() -> None:
    session = Handing()
    session.open()
    reminder_id = session.accept(a_draft(dedupe_key="k")).reminder_id
    session.take()
    session.inject(a_reminder("newer", dedupe_key="k"), CLIENT)
    session.decide(confirm(session.state, reminder_id))
    assert fired(session) == []


@pytest.mark.parametrize("end", [Idled(), Closed()])
def test_nothing_is_taken_without_a_turn(end: Idled | Closed) -> None:
    session = Handing()
    session.accept(a_draft(mode=Mode.INTERRUPT_IMMEDIATE))
    assert session.take() is None
    session.open()
    session.accept(a_draft(mode=Mode.INTERRUPT_IMMEDIATE))
    session.commit([end])
    assert session.take() is None


def test_a_compaction_changes_nothing_in_a_closed_session() -> None:
    session = Handing()
    session.close()
    before = list(session.journal)
    session.decide(compact_given(session.state))
    assert session.journal == before


# What holds for every history.


class History:
    """Keeps what was accepted, what the agent got, and what is `settled`: its prompt or its steer was answered."""

    def __init__(self) -> None:
        self.session = Handing()
        self.accepted: set[str] = set()
        self.got: set[str] = set()
        self.settled: set[str] = set()
        self.is_asked = False

    def _gets(self, *ids: str) -> None:
        assert not self.settled & set(ids), "handed over again"
        self.got.update(ids)

    def remind(self) -> None:
        self.accepted.add(self.session.accept(a_draft()).reminder_id)

    def remind_preserved(self) -> None:
        self.accepted.add(self.session.accept(a_draft(preserve_on_compact=True)).reminder_id)

    def interrupt(self) -> None:
        self.accepted.add(self.session.accept(a_draft(mode=Mode.INTERRUPT_IMMEDIATE)).reminder_id)

    def queue(self) -> None:
        self.accepted.add(self.session.tell())

    def steer(self) -> None:
        self.accepted.add(self.session.tell(InjectMode.STEER))

    def prompt(self, *, in_front: bool = True) -> None:
        if not self.is_asked:
            self._gets(*self.session.open(in_front=in_front))
            self.is_asked = True

    def command(self) -> None:
        self.prompt(in_front=False)

    def answer(self) -> None:
        if self.is_asked:
            self.settled |= self.session.handed
            self.session.end()
            self.is_asked = False

    def cancel(self) -> None:
        """Another program cancels the turn; the agent answers later."""
        self.session.decide(cancel(self.session.state))

    def refuse(self) -> None:
        self.session.give_up()
        self.is_asked = False

    def die(self) -> None:
        """The process dies, and the next one finds its turn open."""
        self.session.handed = set()
        self.refuse()

    def take(self) -> Given | None:
        taken = self.session.take()
        if taken is not None:
            self._gets(taken.id)
        return taken

    def take_and_confirm(self) -> None:
        taken = self.take()
        if taken is not None:
            self.session.decide(confirm(self.session.state, taken.id))
            self.settled.add(taken.id)

    def compact(self) -> None:
        self.session.decide(compact_given(self.session.state))
        self.settled -= set(self.session.live_ids)
        self.session.handed -= set(self.session.live_ids)


STEPS = (
    *(History.remind, History.remind_preserved, History.interrupt, History.queue, History.steer),
    *(History.prompt, History.command, History.answer, History.cancel, History.refuse, History.die),
    *(History.take, History.take_and_confirm, History.compact),
)


@given(st.lists(st.sampled_from(STEPS), max_size=40))
def test_the_agent_gets_everything_and_twice_only_what_was_not_answered(steps: list[Callable[[History], None]]) -> None:
    history = History()
    for step in steps:
        step(history)
    history.refuse()
    for _ in range(2):
        history.prompt()
        history.answer()
    session = history.session
    assert history.accepted <= history.got
    assert owed(session.state) == Owed()
    assert snapshot.encode(fold(session.journal)) == snapshot.encode(session.state)
