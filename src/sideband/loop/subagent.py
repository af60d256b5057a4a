"""What a sub-agent (worker) gets from its parent, and what is left of its conversation if it starts over."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from sideband.core.messages import text_of
from sideband.core.propagation import Handed, propagate, seed_child
from sideband.core.state import Decided, SessionState
from sideband.core.trust import Trust
from sideband.core.turn import recorded
from sideband.loop.conversation import Conversation


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What a parent hands to a child: the task, and the reminders that propagate."""

    task: str
    reminder_propagation: tuple[Handed, ...] = ()


async def envelope(parent: Conversation, task: str) -> Envelope:
    """The envelope for a child that is started now."""
    # Read from the journal, because another process may have sent reminders that this one has not seen yet.
    handoff, _ = await parent.journal.read(
        parent.session_id, partial(propagate, agent_id=parent.session_id, limits=parent.limits)
    )
    return Envelope(task=task, reminder_propagation=handoff.reminder_propagation)


async def receive(child: Conversation, handed: Envelope, *, records: Mapping[str, Any]) -> None:
    """Make the propagated reminders live in the child, before its first turn, and set these records of it."""

    def decide(state: SessionState) -> Decided[None]:
        reminders = handed.reminder_propagation
        seeded = seed_child(state, reminders, sub_agent_id=child.session_id, hop=Trust.OPERATOR)
        return Decided((*seeded.events, *recorded(state, records)), None)

    await child.commit(decide)


def digest(state: SessionState, *, messages: int = 4, characters: int = 400) -> str:
    """The beginnings of the last messages, for a worker that is resumed without its conversation."""
    lines = [f"{message['role']}: {text_of(message)[:characters]}" for message in state.messages[-messages:]]
    return "\n".join(lines)
