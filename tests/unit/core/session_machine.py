"""Every operation on a session, in any order, applied to the core and to a naive session."""

from collections.abc import Callable

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

from sideband.core.events import DropReason
from sideband.core.reminder import Propagate, RoleHint
from sideband.core.seams import InjectMode, Mode, Seam
from sideband.core.trust import Trust
from tests.naive_session import Note, Who
from tests.unit.core.core_and_naive import Pair
from tests.unit.core.state_checks import ends

OPERATOR, EDITOR, PANEL = Who(0, None), Who(1, "editor"), Who(1, "panel")
# A peer and a server share a name, which must not make them one sender. Operator and controllers are drawn more often.
EVERYBODY = (OPERATOR, OPERATOR, EDITOR, EDITOR, PANEL, Who(2, "ann"), Who(2, "bob"), Who(3, "ann"))

WATCHER = EVERYBODY[-1]

whos = st.sampled_from(EVERYBODY)
controllers = st.sampled_from([EDITOR, EDITOR, PANEL, OPERATOR, WATCHER])
seams = st.sampled_from([*Seam, Seam.ITERATION_START, Seam.LOOP_EXIT])
hops = st.sampled_from([Trust.OPERATOR, Trust.OPERATOR, Trust.PEER, Trust.SERVER])
places = st.integers(0, 5)
texts = st.sampled_from(["hi", "ho", "oh"])
# Whether the sender has a token left.
tokens = st.sampled_from([True, True, True, False])
caller_ids = st.sampled_from([None, None, "c1", "c2"])
asks = st.fixed_dictionaries(
    {
        "body": st.sampled_from(["red", "green", "x" * 30]),
        "tags": st.sampled_from([(), ("t1",), ("t2",), ("t1", "t2")]),
        "dedupe_key": st.sampled_from([None, "k1", "k1", "k2"]),
        "ttl_turns": st.sampled_from([None, 1, 2, 3, 5]),
        "preserve_on_compact": st.booleans(),
        "propagate": st.sampled_from(Propagate),
        "role_hint": st.sampled_from(RoleHint),
        "mode": st.sampled_from(Mode),
    }
)
selectors = st.fixed_dictionaries(
    {}, optional={"tag": st.sampled_from(["t1", "t2"]), "dedupe_key": st.sampled_from(["k1", "k2"])}
)


def is_open(machine: "SessionMachine") -> bool:
    state = machine.session.core.state
    return not state.closed and not state.deleted


def is_between_requests(machine: "SessionMachine") -> bool:
    return is_open(machine) and not awaits_a_reply(machine)


def awaits_a_reply(machine: "SessionMachine") -> bool:
    return machine.session.core.state.request is not None


def has_something_waiting(machine: "SessionMachine") -> bool:
    return len(machine.session.core.state.inbox) > 0


def has_something_live(machine: "SessionMachine") -> bool:
    return len(machine.session.core.state.live) > 0


class SessionMachine(RuleBasedStateMachine):
    """One session under every rule, and a second one that hands its reminders to it.

    Rules are chosen evenly, so frequent operations do more in one rule, and rare ones share a rule.
    """

    reminders = Bundle("reminders")
    messages = Bundle("messages")

    def __init__(self) -> None:
        super().__init__()
        self.session, self.parent = Pair("child"), Pair("parent")
        self.asked: dict[str, tuple[Note, Who]] = {}

    @initialize(target=reminders, told=st.lists(asks, max_size=3), runs=st.booleans(), text=st.none() | texts)
    def begin_with(self, told: list[Note], runs: bool, text: str | None) -> MultipleResults[str]:  # noqa: FBT001 - drawn by name
        if text is not None:
            self.session.begin_session(text, cwd="/src")
        if runs:
            self.session.begin()
        return multiple(*(self.session.inject(ask) for ask in told))

    # The inbox.

    @rule(target=reminders, told=st.lists(st.tuples(asks, whos, caller_ids, tokens), min_size=1, max_size=3))
    def accept(self, told: list[tuple[Note, Who, str | None, bool]]) -> MultipleResults[str]:
        return multiple(*(self._accept(*each) for each in told))

    def _accept(self, ask: Note, who: Who, caller_id: str | None, has_token: bool) -> str:  # noqa: FBT001 - drawn
        if caller_id is not None:
            self.asked.setdefault(caller_id, (ask, who))
        return self.session.accept(ask, who, caller_id, has_token=has_token)

    @rule(taken=reminders, ask=asks, who=whos, change=st.sampled_from(["all", "ask", "who", "nothing"]))
    def accept_again(self, taken: str, ask: Note, who: Who, change: str) -> None:
        """The same id again, with the same or another payload and sender."""
        # A caller's id cannot contain the mark of a version.
        if "~" in taken:
            return
        old_ask, old_who = self.asked.get(taken, (ask, who))
        new_ask = ask if change in ("all", "ask") else old_ask
        self._accept(new_ask, who if change in ("all", "who") else old_who, taken, has_token=change != "nothing")

    @rule(target=reminders, told=st.lists(st.tuples(asks, tokens), min_size=1, max_size=3), drains=st.booleans())
    def accept_versions(self, told: list[tuple[Note, bool]], drains: bool) -> MultipleResults[str]:  # noqa: FBT001 - drawn by name
        """One server sends several payloads under one id; the first may be live when the others come."""
        accepted = []
        for ask, has_token in told:
            accepted.append(self.session.accept(ask, WATCHER, "v1", versioned=True, has_token=has_token))
            if drains:
                self.session.drain(Seam.ITERATION_START)
                drains = False
        return multiple(*accepted)

    @rule(
        target=messages,
        told=st.lists(st.tuples(texts, st.sampled_from(InjectMode), controllers, tokens), min_size=1, max_size=2),
    )
    def accept_message(self, told: list[tuple[str, InjectMode, Who, bool]]) -> MultipleResults[str]:
        return multiple(
            *(self.session.accept_message(text, mode, who, has_token=token) for text, mode, who, token in told)
        )

    @rule(item=reminders | messages, who=whos)
    def revoke(self, item: str, who: Who) -> None:
        self.session.revoke(item, who)

    @precondition(has_something_waiting)
    @rule(place=places, who=whos)
    def revoke_what_waits(self, place: int, who: Who) -> None:
        waiting = self.session.core.queued_ids
        self.session.revoke(waiting[place % len(waiting)], who)

    @rule(item=reminders | messages, text=texts, who=whos)
    def replace(self, item: str, text: str, who: Who) -> None:
        """Replace it as a message and as a reminder; one of the two refuses."""
        self.session.replace(item, text, who)
        self.session.replace_reminder(item, text, who)

    @precondition(has_something_waiting)
    @rule(seam=seams, closing=st.booleans())
    def drain(self, seam: Seam, closing: bool) -> None:  # noqa: FBT001 - drawn by name
        self.session.drain(seam, closing=closing)

    @rule(told=st.lists(st.tuples(asks, st.sampled_from([OPERATOR, EDITOR])), max_size=4))
    def interrupt(self, told: list[tuple[Note, Who]]) -> None:
        """An interrupt arrives before each batch of tools but the last."""
        for ask, who in told:
            self.session.accept({**ask, "mode": Mode.INTERRUPT_IMMEDIATE}, who)
            self.session.dispatch_a_batch()
        self.session.dispatch_a_batch()

    @precondition(is_between_requests)
    @rule(too_much=st.sets(places), is_last=st.booleans())
    def iterate(self, too_much: set[int], is_last: bool) -> None:  # noqa: FBT001 - drawn by name
        """The seams in the order of the loop."""
        self.session.drain(Seam.ITERATION_START)
        self.session.turn(too_much=too_much)
        self.session.dispatch_a_batch()
        self.session.drain(Seam.POST_TOOL_DISPATCH)
        self.session.drain(Seam.ITERATION_END, closing=is_last)
        if is_last:
            self.session.drain(Seam.LOOP_EXIT)
            self.session.start()

    # What is live.

    @precondition(is_open)
    @rule(target=reminders, ask=asks)
    def inject(self, ask: Note) -> str:
        return self.session.inject(ask)

    @precondition(is_open)
    @rule(told=st.lists(st.tuples(asks, whos, st.sampled_from([0, 0, 1, 7, 8])), max_size=3), hop=hops)
    def inherit(self, told: list[tuple[Note, Who, int]], hop: Trust) -> None:
        for ask, who, travelled in told:
            self.parent.inject(ask, who, travelled=travelled)
            self.parent.turn(too_much=set())
        self.session.inherit_from(self.parent, hop=hop)

    @precondition(lambda self: has_something_live(self) or has_something_waiting(self))
    @rule(place=st.none() | places, selector=selectors, who=whos, revokes=st.booleans())
    def clear(self, place: int | None, selector: dict[str, str], who: Who, revokes: bool) -> None:  # noqa: FBT001 - drawn by name
        """Clear by a selector, or one item by its id, which may be revoked as well."""
        ids = [*self.session.core.queued_ids, *self.session.core.live_ids, "unknown"]
        chosen = ids[(place or 0) % len(ids)]
        self.session.clear({**selector, **({} if place is None and selector else {"id": chosen})}, who)
        if revokes:
            self.session.revoke(chosen, who)

    @rule(item=reminders, at_the_door=st.booleans())
    def drop(self, item: str, at_the_door: bool) -> None:  # noqa: FBT001 - drawn by name
        if at_the_door:
            self.session.turn_away(item)
        else:
            self.session.drop(item)

    # Turns and compactions.

    @precondition(is_between_requests)
    @rule(too_much=st.sets(places))
    def send_request(self, too_much: set[int]) -> None:
        self.session.send_request(too_much=too_much)

    @precondition(awaits_a_reply)
    @rule(how=st.sampled_from([Pair.take_reply, Pair.take_reply, Pair.retry, Pair.void]))
    def go_on_with_the_request(self, how: Callable[[Pair], None]) -> None:
        how(self.session)

    @precondition(lambda self: is_between_requests(self) and has_something_live(self))
    @rule(too_much=st.sets(places))
    def take_a_turn(self, too_much: set[int]) -> None:
        self.session.turn(too_much=too_much)

    @precondition(has_something_live)
    @rule(archived=st.integers(0, 2))
    def compact(self, archived: int) -> None:
        self.session.compact(archived=archived)

    # The run.

    @precondition(is_open)
    @rule(word=st.sampled_from(["start", "begin", "cancel", "cancel and deliver", "ask", "answer"]))
    def control(self, word: str) -> None:
        if word == "start":
            self.session.start()
        elif not self.session.core.state.running:
            self.session.begin()
        elif word in ("ask", "answer"):
            self.session.permission(answered=word == "answer")
        else:
            self.session.cancel(hold=word == "cancel")
            self.session.start()

    @precondition(lambda self: is_open(self) and len(self.session.core.journal) > 80)
    @rule(reason=st.sampled_from([DropReason.SESSION_CLOSED, DropReason.TASK_FINISHED]))
    def close(self, reason: DropReason) -> None:
        self.session.close(reason)

    # The session.

    @rule(name=st.sampled_from(["owner", "cwd"]), value=st.sampled_from([None, "ann", "bob"]))
    def record(self, name: str, value: str | None) -> None:
        self.session.record(name, value)

    @precondition(lambda self: len(self.session.core.journal) > 60)
    @rule(text=texts, begins=st.booleans())
    def delete(self, text: str, begins: bool) -> None:  # noqa: FBT001 - drawn by name
        self.session.delete()
        self.asked.clear()
        if begins:
            self.session.begin_session(text, owner="ann")

    # What must hold.

    @invariant()
    def both_are_alike(self) -> None:
        self.session.check_both_are_alike()

    @invariant()
    def each_has_ended_at_most_once(self) -> None:
        self.session.check_each_ended_once()

    @invariant()
    def each_key_is_live_at_most_once(self) -> None:
        self.session.check_each_key_is_live_once()

    @invariant()
    def the_journal_tells_it_all(self) -> None:
        self.session.check_the_journal_tells_it_all()

    def teardown(self) -> None:
        if is_open(self):
            self.session.close()
        self.session.check_both_are_alike()
        self.session.check_each_ended_once()
        assert ends(self.session.core.journal).keys() == self.session.naive.known.keys()
