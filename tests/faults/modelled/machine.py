"""Everything that may happen to a session, done to a store and to the model at once; both must always agree."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

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
from sideband.core.drain import start
from sideband.core.errors import ReminderError
from sideband.core.events import Started
from sideband.core.lifecycle import OpenRequest, Shown
from sideband.core.seams import Seam
from sideband.core.state import SessionState, fold
from sideband.ports import Journal, Plan, Reply, ToolCall, ToolStatus
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from tests.faults.laws import broken
from tests.faults.modelled.homes import House
from tests.faults.modelled.model import TAKES, Model, Thing
from tests.faults.modelled.views import expected, known
from tests.faults.witness import Witness
from tests.unit.store.twins import told

KEYS: Final = ("k1", "k2")
REMINDER_MODES: Final = ("interrupt_immediate", "finish_step", "audit_only")
# The word of a message, and the class it waits in.
MESSAGE_MODES: Final[Mapping[str, str | None]] = {
    "queue": None,
    "steer": "finish_step",
    "interrupt_immediate": "interrupt_immediate",
    "audit_only": "audit_only",
}


ASKED: Final = st.fixed_dictionaries(
    {
        "mode": st.sampled_from([*REMINDER_MODES, "finish_step"]),
        "key": st.sampled_from([None, *KEYS]),
        "ttl": st.sampled_from([None, 1, 2, 3]),
        "stays": st.booleans(),
    }
)


def build(state: SessionState, left: OpenRequest | None) -> Plan:
    """A request that shows all there is; the one that was left is the same again."""
    shown = tuple(Shown(item.id, "user") for item in state.live)
    return Plan(shown=shown, route="a route", fragments=() if left is None else left.fragments)


def is_running(machine: "SessionMachine") -> bool:
    return machine.model.running


def is_idle(machine: "SessionMachine") -> bool:
    return not machine.model.running


def may_ask(machine: "SessionMachine") -> bool:
    return machine.model.running and not machine.model.calls


def awaits_a_reply(machine: "SessionMachine") -> bool:
    return machine.model.request is not None


def has_calls(machine: "SessionMachine") -> bool:
    return bool(machine.model.calls)


def may_compact(machine: "SessionMachine") -> bool:
    return not machine.model.calls and machine.model.request is None


class SessionMachine(RuleBasedStateMachine):
    """One session; whoever runs it has it on lease."""

    reminders = Bundle("reminders")
    messages = Bundle("messages")

    house: ClassVar[House]

    def __init__(self) -> None:
        super().__init__()
        self.session_id = self.house.move_in()
        self.model = Model()
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

    def _answer(self, doing: Callable[[], Any]) -> Any:  # noqa: ANN401 - an answer, or the word of a refusal
        try:
            return self.house.run(doing())
        except ReminderError as refusal:
            return refusal.reason

    # The inbox.

    @rule(target=reminders, asked=st.lists(ASKED, min_size=1, max_size=3))
    def remind(self, asked: list[dict[str, Any]]) -> MultipleResults[str]:
        return multiple(*(self._remind(**ask) for ask in asked))

    def _remind(self, *, mode: str, key: str | None, ttl: int | None, stays: bool) -> str:
        text = f"Fact {self._count()}."
        options = {"dedupe_key": key, "ttl_turns": ttl, "preserve_on_compact": stays, "mode": mode}
        accepted = self.house.run(self.session.remind(text, **options))
        thing = Thing(accepted.reminder_id, text, mode, key=key, ttl=ttl, stays=stays)
        assert self.model.remind(thing) == accepted.deduped_count
        self.witness.hear("accepted", accepted.reminder_id, text)
        return accepted.reminder_id

    @rule(target=messages, mode=st.sampled_from([*MESSAGE_MODES]))
    def inject(self, mode: str) -> str:
        text = f"Message {self._count()}."
        answer: str = self._answer(lambda: self.session.inject(text, mode=mode))
        thing = Thing(answer, text, MESSAGE_MODES[mode], is_message=True)
        if self.model.inject(thing) != "accepted":
            assert answer == "no_running_turn"
            return "nobody's"
        self.witness.hear("accepted", answer, text)
        return answer

    @rule(item_id=reminders | messages)
    def revoke(self, item_id: str) -> None:
        if item_id != "nobody's":
            answer = self._answer(lambda: self.session.revoke(item_id))
            assert str(answer) == self.model.revoke(item_id)

    @rule(item_id=messages)
    def replace(self, item_id: str) -> None:
        if item_id != "nobody's":
            text = f"Version {self._count()}."
            answer = self._answer(lambda: self.session.replace(item_id, text)) or "replaced"
            assert answer == self.model.replace(item_id, text)

    @initialize(runs=st.booleans())
    def perhaps_begin(self, runs: bool) -> None:  # noqa: FBT001 - drawn by name
        if runs:
            self.begin()

    @precondition(is_idle)
    @rule()
    def begin(self) -> None:
        talk = self.session.talk
        talk.lease = self.house.run(self.journal.acquire(self.session_id, "machine"))
        self.house.run(talk.commit(lambda state: start(state.inbox, running=False, queue_held=False) or (Started(),)))
        self.model.begin()

    @precondition(is_running)
    @rule(seam=st.sampled_from([*TAKES]), closing=st.booleans())
    def drain(self, seam: str, closing: bool) -> None:  # noqa: FBT001 - drawn by name
        closing = closing and seam == Seam.ITERATION_END and may_compact(self)
        talk = self.session.talk
        taken = self.house.run(talk.drain(Seam(seam), closing=closing, calls=talk.open_calls()))
        assert [item.id for item in taken] == self.model.drain(seam, closing=closing)
        if not self.model.running and talk.lease is not None:
            self.house.run(self.journal.release(talk.lease))
            talk.lease = None

    # Turns.

    @rule(key=st.sampled_from(KEYS))
    def clear(self, key: str) -> None:
        assert self.house.run(self.session.clear(dedupe_key=key)) == self.model.clear(key)

    @precondition(may_ask)
    @rule()
    def ask(self) -> None:
        opened = self.house.run(self.session.talk.open_request(build))
        assert (opened.turn, opened.attempt) == self.model.ask()

    @precondition(awaits_a_reply)
    @rule(calls=st.integers(0, 2))
    def answer(self, calls: int) -> None:
        text = f"Reply {self._count()}."
        ids = [f"c{self.number}-{place}" for place in range(calls)]
        reply = Reply(text=text, tool_calls=tuple(ToolCall(id=call_id, name="work") for call_id in ids))
        assert self.house.run(self.session.talk.close_turn(reply))
        self.model.answer(text, ids)

    @precondition(awaits_a_reply)
    @rule()
    def void(self) -> None:
        self.house.run(self.session.talk.void_turn())
        self.model.request = None

    @precondition(has_calls)
    @rule(place=st.integers(0, 1))
    def finish_a_call(self, place: int) -> None:
        calls = self.session.talk.open_calls()
        call = calls[place % len(calls)]
        self.witness.hear("ran", call.id)
        self.house.run(self.session.talk.record(call, ToolStatus.OK, "done"))
        self.model.result(call.id, "ok")

    @precondition(may_compact)
    @rule(keep=st.integers(0, 4))
    def compact(self, keep: int) -> None:
        before = tuple(self.session.talk.state.messages)
        after = before[max(0, len(before) - keep) :]
        assert self.house.run(self.session.talk.compact(before, after)) == self.model.compact(keep)

    @rule()
    def crash(self) -> None:
        """The process dies; another one goes on."""
        self.house.crash()
        self._enter()
        assert known(self.session.talk.state) == expected(self.model)
        self.house.run(self.session.talk.recover(may_repeat=lambda _name: False))
        self.model.recover()

    # What happens often, at once: rules are chosen evenly, and most of a session is this.

    @precondition(may_ask)
    @rule(asked=st.lists(ASKED, max_size=2), calls=st.integers(0, 2), crashes=st.booleans())
    def take_a_turn(self, asked: list[dict[str, Any]], calls: int, crashes: bool) -> None:  # noqa: FBT001 - drawn by name
        for ask in asked:
            self._remind(**ask)
        self.drain("iteration_start", closing=False)
        self.ask()
        if crashes:
            self.come_back(asked, says=calls == 2)
        self.answer(calls)

    @precondition(has_calls)
    @rule(asked=st.lists(ASKED, max_size=1))
    def dispatch(self, asked: list[dict[str, Any]]) -> None:
        """An interrupt may come before the tools run."""
        for ask in asked:
            self._remind(**{**ask, "mode": "interrupt_immediate"})
        self.drain("pre_tool_dispatch", closing=False)
        while self.model.calls:
            self.finish_a_call(0)

    @precondition(may_ask)
    @rule(times=st.integers(1, 4), ask=ASKED)
    def be_interrupted(self, times: int, ask: dict[str, Any]) -> None:
        """One batch after the other; in the end tools have their turn all the same."""
        for _ in range(times):
            self.take_a_turn([], 1, crashes=False)
            self.dispatch([ask])

    @precondition(awaits_a_reply)
    @rule(asked=st.lists(ASKED, max_size=2), says=st.booleans())
    def come_back(self, asked: list[dict[str, Any]], says: bool) -> None:  # noqa: FBT001 - drawn by name
        """A request is left open; what comes in meanwhile may or may not be a reason to ask anew."""
        self.crash()
        for ask in asked:
            self._remind(**ask)
        if says:
            self.inject("queue")
        self.begin()
        self.drain("iteration_start", closing=False)
        self.ask()

    # What must hold.

    @invariant()
    def the_store_and_the_model_agree(self) -> None:
        assert known(self.session.talk.state) == expected(self.model)

    def teardown(self) -> None:
        events = [entry.event for entry in self.house.run(told(self.journal, session_id=self.session_id))]
        assert snapshot.encode(self.session.talk.state) == snapshot.encode(fold(events))
        found = broken(events, self.witness)
        # Here a turn may be void whenever somebody feels like it.
        assert [law for law in found if not law.startswith("a_request_is_void_only")] == []
