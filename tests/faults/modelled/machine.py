"""Everything that may happen to a session, done to a store and to a naive session; both must always agree."""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from sideband.core import snapshot
from sideband.core.apply import fold
from sideband.core.errors import NoRunningTurn, ReminderError
from sideband.core.events import Started
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import Reply, ToolCall, ToolStatus, result_message
from sideband.core.reminder import Propagate, RoleHint, Source
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.state import SessionState
from sideband.core.turn import Shown, repeatable_request
from sideband.ports import Journal
from sideband.render.plan import Plan
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from tests.decisions import saying
from tests.faults.laws import broken
from tests.faults.modelled.stores import House
from tests.faults.witness import Witness
from tests.naive_session import NaiveSession, Note, Refused, Who
from tests.naive_views import core_view, naive_view
from tests.unit.store.twins import told

KEYS: Final = ("k1", "k2")
THIS_PROCESS: Final = Who(0, None)
# The seams of a run; a daemon has others.
SEAMS: Final = (
    Seam.ITERATION_START,
    Seam.PRE_TOOL_DISPATCH,
    Seam.POST_TOOL_DISPATCH,
    Seam.ITERATION_END,
    Seam.LOOP_EXIT,
)
MESSAGE_MODES: Final = (InjectMode.QUEUE, InjectMode.STEER, InjectMode.INTERRUPT_IMMEDIATE, InjectMode.AUDIT_ONLY)
# The id of a message that was refused.
NONE: Final = "none"

ASKED: Final = st.fixed_dictionaries(
    {
        "mode": st.sampled_from([*Mode, Mode.FINISH_STEP]),
        "dedupe_key": st.sampled_from([None, *KEYS]),
        "ttl_turns": st.sampled_from([None, 1, 2, 3]),
        "preserve_on_compact": st.booleans(),
    }
)
# What a reminder has that does not say otherwise.
DEFAULTS: Final[Note] = {"tags": (), "propagate": Propagate.SESSION, "role_hint": RoleHint.SYSTEM}


def plan_for(state: SessionState) -> tuple[Plan, bool]:
    """A request that shows every live reminder, or repeats the open one."""
    shown = tuple(Shown(item.id, "user") for item in state.live)
    left = repeatable_request(state)
    return Plan(shown=shown, route="a route", fragments=() if left is None else left.fragments), left is not None


def is_running(machine: "SessionMachine") -> bool:
    return machine.naive.running


def is_idle(machine: "SessionMachine") -> bool:
    return not machine.naive.running


def may_ask(machine: "SessionMachine") -> bool:
    return machine.naive.running and not machine.naive.calls


def awaits_a_reply(machine: "SessionMachine") -> bool:
    return machine.naive.request is not None


def has_calls(machine: "SessionMachine") -> bool:
    return bool(machine.naive.calls)


def may_compact(machine: "SessionMachine") -> bool:
    return not machine.naive.calls and machine.naive.request is None


class SessionMachine(RuleBasedStateMachine):
    """One session, run with its lease."""

    reminders = Bundle("reminders")
    messages = Bundle("messages")

    house: ClassVar[House]

    def __init__(self) -> None:
        super().__init__()
        self.session_id = self.house.move_in()
        self.naive = NaiveSession(DEFAULT_LIMITS)
        self.witness = Witness()
        self.number = 0
        self.session: Session
        self._enter()

    @property
    def journal(self) -> Journal:
        assert self.house.journal is not None
        return self.house.journal

    def _enter(self) -> None:
        self.session = self.house.run(Store(self.journal).session(self.session_id))

    def _count(self) -> int:
        self.number += 1
        return self.number

    def _check(self, store: Coroutine[Any, Any, object], naive: Callable[[], object]) -> None:
        """The store replies what the naive session replies, or refuses for the same reason."""
        reply: object
        expected: object
        try:
            reply = self.house.run(store)
        except ReminderError as error:
            reply = error.reason
        try:
            expected = naive()
        except Refused as error:
            expected = error.reason
        assert reply == expected

    # The inbox.

    @rule(target=reminders, asked=st.lists(ASKED, min_size=1, max_size=3))
    def remind(self, asked: list[Note]) -> MultipleResults[str]:
        return multiple(*(self._remind(ask) for ask in asked))

    def _remind(self, ask: Note) -> str:
        text = f"Fact {self._count()}."
        accepted = self.house.run(self.session.remind(text, **ask))
        reply = self.naive.accept(
            {"body": text, **DEFAULTS, **ask},
            THIS_PROCESS,
            new_id=accepted.reminder_id,
            source=Source.IN_PIPELINE,
            now=accepted.accepted_at,
        )
        assert (accepted.reminder_id, accepted.deduped_count) == (reply.id, reply.deduped_count)
        self.witness.hear("accepted", reply.id, text)
        return reply.id

    @rule(target=messages, mode=st.sampled_from(MESSAGE_MODES))
    def inject(self, mode: InjectMode) -> str:
        text = f"Message {self._count()}."
        try:
            message_id = self.house.run(self.session.inject(text, mode=mode))
        except NoRunningTurn:
            with pytest.raises(Refused, match="no_running_turn"):
                self.naive.accept_message(text, mode, THIS_PROCESS, new_id=NONE)
            return NONE
        self.naive.accept_message(text, mode, THIS_PROCESS, new_id=message_id)
        self.witness.hear("accepted", message_id, text)
        return message_id

    @rule(item_id=reminders | messages)
    def revoke(self, item_id: str) -> None:
        if item_id != NONE:
            kind = self.naive.known[item_id]["kind"]
            self._check(self.session.revoke(item_id), lambda: self.naive.revoke(item_id, kind, THIS_PROCESS))

    @rule(item_id=reminders | messages)
    def replace(self, item_id: str) -> None:
        text = f"Version {self._count()}."
        if item_id != NONE and self.naive.known[item_id]["kind"] == "user":
            done = self.session.replace_message(item_id, text)
            self._check(done, lambda: self.naive.replace(item_id, text, THIS_PROCESS))
        elif item_id != NONE:
            done = self.session.replace_reminder(item_id, text)
            self._check(done, lambda: self.naive.replace_reminder(item_id, text, THIS_PROCESS))

    @initialize(runs=st.booleans())
    def perhaps_begin(self, runs: bool) -> None:  # noqa: FBT001 - drawn by name
        if runs:
            self.begin()

    @precondition(is_idle)
    @rule()
    def begin(self) -> None:
        talk = self.session.talk
        talk.lease = self.house.run(self.journal.acquire(self.session_id, "machine"))
        if not self.house.run(talk.start_queued(even_held=True)):
            self.house.run(talk.commit(saying(Started())))
        if not self.naive.start(even_held=True):
            self.naive.begin()

    @precondition(is_running)
    @rule(seam=st.sampled_from(SEAMS), closing=st.booleans())
    def drain(self, seam: Seam, closing: bool) -> None:  # noqa: FBT001 - drawn by name
        closing = closing and seam is Seam.ITERATION_END and may_compact(self)
        talk = self.session.talk
        taken = self.house.run(talk.drain(seam, closing=closing, calls=talk.open_calls()))
        assert list(taken) == self.naive.drain(seam, closing=closing)
        if not self.naive.running and talk.lease is not None:
            self.house.run(self.journal.release(talk.lease))
            talk.lease = None

    # Turns.

    @rule(key=st.sampled_from(KEYS))
    def clear(self, key: str) -> None:
        cleared = self.naive.clear({"dedupe_key": key}, THIS_PROCESS)
        assert self.house.run(self.session.clear(dedupe_key=key)) == cleared

    @precondition(may_ask)
    @rule()
    def ask(self) -> None:
        opened, _ = self.house.run(self.session.talk.open_request(plan_for))
        assert (opened.turn, opened.attempt) == self.naive.ask()

    @precondition(awaits_a_reply)
    @rule(calls=st.integers(0, 2))
    def answer(self, calls: int) -> None:
        text = f"Reply {self._count()}."
        ids = [f"c{self.number}-{place}" for place in range(calls)]
        reply = Reply(text=text, tool_calls=tuple(ToolCall(id=call_id, name="work") for call_id in ids))
        assert self.house.run(self.session.talk.close_turn(reply))
        self.naive.commit_turn(text, ids)

    @precondition(awaits_a_reply)
    @rule()
    def void(self) -> None:
        self.house.run(self.session.talk.void_turn())
        self.naive.void_turn()

    @precondition(has_calls)
    @rule(place=st.integers(0, 1))
    def finish_a_call(self, place: int) -> None:
        calls = self.session.talk.open_calls()
        call = calls[place % len(calls)]
        self.witness.hear("ran", call.id)
        self.house.run(self.session.talk.record(call, result_message(call, ToolStatus.OK, "done")))
        self.naive.record_result(call.id, "ok")

    @precondition(may_compact)
    @rule(keep=st.integers(0, 4))
    def compact(self, keep: int) -> None:
        before = tuple(self.session.talk.state.messages)
        after = before[max(0, len(before) - keep) :]
        begun_at = self.session.talk.state.live.next_place
        archived = self.house.run(self.session.talk.compact(before, after, begun_at=begun_at))
        assert archived == self.naive.compact_to(keep)

    @rule()
    def crash(self) -> None:
        """The process dies, and another one takes over the session."""
        self.house.crash()
        self._enter()
        assert core_view(self.session.talk.state) == naive_view(self.naive)
        self.house.run(self.session.talk.recover())
        self.naive.recover()

    # Rules are chosen evenly, so what most of a session consists of is done in one rule.

    @precondition(may_ask)
    @rule(asked=st.lists(ASKED, max_size=2), calls=st.integers(0, 2), crashes=st.booleans())
    def take_a_turn(self, asked: list[Note], calls: int, crashes: bool) -> None:  # noqa: FBT001 - drawn by name
        for ask in asked:
            self._remind(ask)
        self.drain(Seam.ITERATION_START, closing=False)
        self.ask()
        if crashes:
            self.come_back(asked, says=calls == 2)
        self.answer(calls)

    @precondition(has_calls)
    @rule(asked=st.lists(ASKED, max_size=1))
    def dispatch(self, asked: list[Note]) -> None:
        """An interrupt may come before the tools run."""
        for ask in asked:
            self._remind({**ask, "mode": Mode.INTERRUPT_IMMEDIATE})
        self.drain(Seam.PRE_TOOL_DISPATCH, closing=False)
        while self.naive.calls:
            self.finish_a_call(0)

    @precondition(may_ask)
    @rule(times=st.integers(1, 4), ask=ASKED)
    def be_interrupted(self, times: int, ask: Note) -> None:
        """One batch after the other; after three skipped batches the tools run all the same."""
        for _ in range(times):
            self.take_a_turn([], 1, crashes=False)
            self.dispatch([ask])

    @precondition(awaits_a_reply)
    @rule(asked=st.lists(ASKED, max_size=2), says=st.booleans())
    def come_back(self, asked: list[Note], says: bool) -> None:  # noqa: FBT001 - drawn by name
        """A request is left open. It is repeated only if no message is added before the next one."""
        self.crash()
        for ask in asked:
            self._remind(ask)
        if says:
            self.inject(InjectMode.QUEUE)
        self.begin()
        self.drain(Seam.ITERATION_START, closing=False)
        self.ask()

    # What must hold.

    @invariant()
    def the_store_and_the_naive_session_agree(self) -> None:
        assert core_view(self.session.talk.state) == naive_view(self.naive)

    def teardown(self) -> None:
        events = [entry.event for entry in self.house.run(told(self.journal, session_id=self.session_id))]
        assert snapshot.encode(self.session.talk.state) == snapshot.encode(fold(events))
        found = broken(events, self.witness)
        # This machine voids turns at any time.
        assert [law for law in found if not law.startswith("a_request_is_void_only")] == []
