"""A client or a peer of a session, with the words that `Session` has for those in its process."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sideband.core import inbox, lifecycle
from sideband.core.draft import Draft
from sideband.core.errors import UnknownMessage
from sideband.core.events import Event
from sideband.core.inbox import RevokeStatus
from sideband.core.reminder import ReminderId
from sideband.core.seams import InjectMode
from sideband.core.state import SessionState
from sideband.core.trust import Provenance
from sideband.runtime.session import Accepted, Session


class Bridge:
    """Speaks for one principal; what it asks for is decided as for everybody."""

    def __init__(self, session: Session, who: Provenance) -> None:
        self._talk = session.talk
        self._who = who

    async def remind(self, body: str, **options: Any) -> Accepted:  # noqa: ANN401 - the fields of a draft
        answers: list[inbox.Accepted] = []

        def decide(state: SessionState) -> Iterable[Event]:
            answers.append(
                inbox.accept(
                    state.inbox,
                    Draft(body=body, **options),
                    self._who,
                    new_id=self._talk.new_id(),
                    closed=state.closed,
                    live=len(state.live),
                )
            )
            return answers[-1].events

        await self._talk.accept(decide)
        return Accepted(ReminderId(answers[-1].reminder_id), answers[-1].deduped_count)

    async def inject(self, content: Sequence[Mapping[str, Any]], *, mode: str = InjectMode.STEER) -> str:
        blocks = [dict(block) for block in content]
        message_id = self._talk.new_id()
        await self._talk.accept(
            lambda state: inbox.accept_message(
                state.inbox,
                blocks,
                InjectMode(mode),
                self._who,
                new_id=message_id,
                running=state.running and state.attended,
                closed=state.closed,
            )
        )
        return message_id

    async def revoke(self, item_id: str) -> RevokeStatus:
        answers: list[RevokeStatus] = []

        def decide(state: SessionState) -> Iterable[Event]:
            try:
                revocation = inbox.revoke_message(state.inbox, item_id, self._who)
            except UnknownMessage:
                revocation = inbox.revoke_reminder(state.inbox, item_id, self._who)
            answers.append(revocation.status)
            return revocation.events

        await self._talk.accept(decide)
        return answers[-1]

    async def replace(self, message_id: str, content: Sequence[Mapping[str, Any]]) -> None:
        blocks = [dict(block) for block in content]
        await self._talk.accept(lambda state: inbox.replace_message(state.inbox, message_id, blocks, self._who))

    async def clear(self, **selected: str) -> int:
        selector = lifecycle.Selector(**selected)
        return len(await self._talk.accept(lambda state: lifecycle.clear(state.live, selector, self._who)))
