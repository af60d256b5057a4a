"""What a process does that begins, changes and deletes sessions, and what it says of it."""

from functools import partial
from typing import Final

from sideband.core import turn
from sideband.core.accept import accept
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.reminder import Draft
from sideband.core.trust import IN_PROCESS
from sideband.runtime.session import Session
from sideband.runtime.store import Store
from tests.faults.scripted_agent import Say

PRIVATE: Final = "the sum is 4711"


def is_deleted(number: int) -> bool:
    """Whether the session of a number is deleted in the end."""
    return number % 2 == 1


async def keep_sessions(store: Store, say: Say, numbers: tuple[int, int]) -> None:
    """Do everything for these numbers; what a killed process has begun is gone on with."""
    for number in range(*numbers):
        name = f"s{number}"
        session = await store.find(name)
        if session is None:
            say("beginning", name)
            session = await store.begin(name, attributes={"title": PRIVATE})
        say("begun", name)
        await session.talk.write(partial(turn.record, records={"title": f"{PRIVATE}!"}))
        say("recorded", name)
        say("answered", name, await ask(session))
        if is_deleted(number):
            say("deleting", name)
            await store.delete(name)
            say("deleted", name)
        say("kept", number)


async def ask(session: Session) -> list[object]:
    """Send a reminder under an id of ours; every repeat gets the same reply."""
    draft = Draft(body=PRIVATE, caller_id="once")
    # The time is another one for every request, so that a reply shows whether it was kept.
    now = (await session.talk.journal.read(session.id, lambda _state: None)).at
    decide = partial(accept, draft=draft, provenance=IN_PROCESS, new_id="", limits=DEFAULT_LIMITS, now=now)
    accepted = await session.talk.write(decide, receipts=("once",))
    return [accepted.reminder_id, accepted.accepted_at, accepted.version]
