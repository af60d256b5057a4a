"""A request that a dead process has left open: sent again as it was, or void."""

import asyncio
from collections.abc import Iterable

from sideband.core.events import (
    Event,
    Fired,
    InjectAccepted,
    InjectDelivered,
    Injected,
    RequestCommitted,
    Started,
    TurnVoided,
)
from sideband.core.items import QueuedMessage
from sideband.core.ledger import Form, Fragment, Scope
from sideband.core.lifecycle import OpenRequest, Shown
from sideband.core.reminder import Reminder, ReminderId
from sideband.core.seams import InjectMode
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS
from sideband.loop.conversation import Conversation
from sideband.loop.decisions import Opened
from sideband.ports import Plan
from sideband.testing import CountingIds, MemoryStore

NOTE = Reminder(id=ReminderId("r"), body="note")
FRAGMENT = Fragment(anchor=1, form=Form.TEXT, role="user", scope=Scope.VOLATILE, text="note", reminders=("r",))


def a_conversation() -> Conversation:
    return Conversation(MemoryStore(), "main", new_id=CountingIds("id"))


def told(text: str) -> Iterable[Event]:
    """A user message that starts a turn."""
    message = QueuedMessage(message_id=text, content=(), mode=InjectMode.QUEUE, provenance=IN_PROCESS)
    return (InjectAccepted(item=message), Started(), InjectDelivered(message_id=text, content=()))


class Building:
    """Builds requests for one route, and remembers what it was asked to send again."""

    def __init__(self, route: str) -> None:
        self.route = route
        self.asked: list[tuple[Fragment, ...] | None] = []

    def __call__(self, state: SessionState, left: OpenRequest | None) -> Plan:
        self.asked.append(None if left is None else left.fragments)
        shown = tuple(Shown(item.id, "user") for item in state.live)
        return Plan(shown=shown, route=self.route, fragments=(FRAGMENT,) if left is None else left.fragments)


async def left_open(*, route: str = "here") -> tuple[Conversation, Opened]:
    talk = a_conversation()
    await talk.commit(lambda _: told("hello"))
    await talk.commit(lambda _: (Injected(reminder=NOTE, provenance=IN_PROCESS),))
    return talk, await talk.open_request(Building(route))


def written(talk: Conversation) -> list[Event]:
    assert isinstance(talk.journal, MemoryStore)
    return [logged.event for logged in talk.journal.journal]


def test_with_nothing_said_since_the_same_request_leaves_again() -> None:
    async def scene() -> None:
        talk, first = await left_open()
        await talk.recover(may_repeat=lambda _name: False)
        build = Building("here")
        again = await talk.open_request(build)
        assert build.asked == [(FRAGMENT,)]
        assert (again.turn, again.attempt, again.plan.fragments) == (first.turn, 2, (FRAGMENT,))
        assert written(talk)[-1] == RequestCommitted(turn=1, attempt=2)
        assert sum(isinstance(event, Fired) for event in written(talk)) == 1

    asyncio.run(scene())


def test_after_a_word_of_the_user_it_is_void_and_planned_again() -> None:
    async def scene() -> None:
        talk, _ = await left_open()
        await talk.recover(may_repeat=lambda _name: False)
        await talk.commit(lambda _: told("and another thing"))
        build = Building("here")
        again = await talk.open_request(build)
        assert build.asked == [None]
        assert (again.turn, again.attempt) == (1, 1)
        assert TurnVoided(turn=1) in written(talk)
        assert sum(isinstance(event, Fired) for event in written(talk)) == 2

    asyncio.run(scene())


def test_on_another_route_it_is_void_and_planned_again() -> None:
    async def scene() -> None:
        talk, _ = await left_open()
        build = Building("there")
        again = await talk.open_request(build)
        assert build.asked == [(FRAGMENT,), None]
        assert (again.turn, again.attempt) == (1, 1)
        assert TurnVoided(turn=1) in written(talk)

    asyncio.run(scene())


def test_a_model_without_routes_is_never_asked_to_repeat_itself() -> None:
    async def scene() -> None:
        talk, _ = await left_open(route="")
        build = Building("")
        await talk.open_request(build)
        assert build.asked == [None]

    asyncio.run(scene())
