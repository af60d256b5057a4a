"""Stores that commands read, and what is in them."""

from typing import Final

from sideband.core.events import Idled, Started
from sideband.core.trust import Provenance, Trust
from sideband.runtime.system import new_id
from tests.builders import a_draft
from tests.decisions import saying
from tests.unit.store.twins import PostgresTwin, Sender, SqliteTwin, Twin

# Put together here, so that no scanner takes this file for a leak.
SECRET: Final = "ghp_" + "a1B2" * 8
BODY: Final = f"The deploy token is {SECRET}."
OPERATOR: Final = Provenance(trust=Trust.OPERATOR)


def address(twin: Twin) -> str:
    """What is written on the command line."""
    assert isinstance(twin, SqliteTwin | PostgresTwin)
    return twin.url if isinstance(twin, PostgresTwin) else f"sqlite:///{twin.path}"


async def fill(twin: Twin, *, reminders: int = 3, session_id: str = "s") -> None:
    """Reminders with secrets in their bodies and keys, in a session that has run once."""
    async with twin.open() as store:
        sender = Sender(store, OPERATOR)
        sender.new_id = new_id
        await store.commit(session_id, saying(Started()))
        for number in range(reminders):
            draft = a_draft(body=BODY, dedupe_key=f"token:{SECRET}:{number}", tags=(SECRET,))
            await sender.send(draft, session_id=session_id)
        await store.commit(session_id, saying(Idled()))


async def prune(twin: Twin, *, keep: int, session_id: str = "s") -> None:
    assert isinstance(twin, SqliteTwin | PostgresTwin)
    async with twin.open() as store:
        await store.prune(session_id, keep_events=keep)
