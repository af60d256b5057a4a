"""A client or a peer of a session, with the methods of `Session`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sideband.core import accept
from sideband.core.accept import Accepted, RevokeStatus, Selector
from sideband.core.messages import read_content
from sideband.core.reminder import Draft
from sideband.core.seams import InjectMode
from sideband.core.trust import Provenance
from sideband.runtime.session import Session


class Bridge:
    """Speaks for one principal; what it asks for is decided as for everybody."""

    def __init__(self, session: Session, who: Provenance) -> None:
        self._talk = session.talk
        self._who = who

    async def remind(self, body: str, **options: Any) -> Accepted:  # noqa: ANN401 - the fields of a draft
        draft, new_id = Draft(body=body, **options), self._talk.new_id()
        return await self._talk.journal.commit(
            self._talk.session_id,
            lambda state: accept.accept(state, draft, self._who, new_id=new_id, limits=self._talk.limits),
            receipts=() if draft.caller_id is None else (draft.caller_id,),
        )

    async def inject(self, content: Sequence[Mapping[str, Any]], *, mode: str = InjectMode.STEER) -> str:
        new_id, blocks = self._talk.new_id(), read_content(content, self._talk.limits)
        return await self._talk.journal.commit(
            self._talk.session_id,
            lambda state: accept.accept_message(
                state, blocks, InjectMode(mode), self._who, new_id=new_id, limits=self._talk.limits
            ),
        )

    async def revoke(self, item_id: str) -> RevokeStatus:
        return await self._talk.journal.commit(
            self._talk.session_id, lambda state: accept.revoke(state, item_id, self._who)
        )

    async def replace_message(self, message_id: str, content: Sequence[Mapping[str, Any]]) -> None:
        blocks = read_content(content, self._talk.limits)
        await self._talk.journal.commit(
            self._talk.session_id, lambda state: accept.replace_message(state, message_id, blocks, self._who)
        )

    async def clear(self, **selected: str) -> int:
        selector = Selector(**selected)
        return await self._talk.journal.commit(
            self._talk.session_id, lambda state: accept.clear(state, selector, self._who)
        )
