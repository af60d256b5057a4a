"""Permission to call a tool, answered by a named record of the session, so that any process can take the answer."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from sideband.core.errors import UnknownMessage
from sideband.core.messages import ToolCall
from sideband.core.state import SessionState
from sideband.runtime.session import Session

ANSWER_RECORD: Final = "permission:"
"""The beginning of the names of the records with answers, see `answer_record`."""

ALLOWED_RECORD: Final = "allowed:"
"""The beginning of the names of the records with tools that are called without a question."""

# Tools that change nothing, so that they need no permission.
READING_TOOLS: Final = frozenset({"read_file", "list_dir", "search"})
YES: Final = "yes"
NO: Final = "no"
_YES: Final = frozenset({YES, "y", "ok", "okay", "allow", "true"})


def answer_record(turn: int, call_id: str) -> str:
    """The record with the answer for a tool call of this turn; a later call may have the same id."""
    return f"{ANSWER_RECORD}{turn}:{call_id}"


def unanswered(permissions: Collection[str], records: Mapping[str, Any], turn: int) -> list[str]:
    """The tool calls whose permission has not been answered. The run may not have read an answer yet."""
    return [call_id for call_id in permissions if answer_record(turn, call_id) not in records]


async def answer(session: Session, request_id: str, *, allow: bool, always: bool = False) -> None:
    """Answer a question for permission; `allow` with `always` lets the session call this tool without further questions.

    `UnknownMessage` if the question is not open, `SessionBusy` if it was answered already: the first answer counts.
    """

    def look(state: SessionState) -> tuple[bool, int, dict[str, bool]]:
        name = f"{ALLOWED_RECORD}{state.open_calls.get(request_id, {}).get('name', '')}"
        is_new = allow and always and name != ALLOWED_RECORD and name not in state.records
        return request_id in state.permissions, state.live.turn, {name: True} if is_new else {}

    is_open, turn, allowed = (await session.talk.journal.read(session.id, look)).value
    if not is_open:
        raise UnknownMessage(request_id)
    await session.record({answer_record(turn, request_id): YES if allow else NO, **allowed}, only_new=True)


async def recorded_answer(session: Session, call: ToolCall) -> str:
    """The text that was recorded as the answer to the question for this call; wait until there is one."""
    # Kept, because the journal forgets an event to which nothing refers.
    wake = session.talk.journal.wake(session.id)
    name = answer_record(session.talk.state.live.turn, call.id)
    while True:
        wake.clear()
        given = session.talk.state.records.get(name)
        if isinstance(given, str):
            return given.strip()
        await wake.wait()


def is_yes(text: str) -> bool:
    """Whether a text allows what was asked for."""
    return text.lower().rstrip(".!") in _YES


class RecordedPermission:
    """Asks before a tool runs that may change something, and waits for the record with the answer.

    `refuser` names the one who answers, for the model. Tools that were allowed for always run without
    a question.
    """

    def __init__(self, session: Session, *, refuser: str) -> None:
        self._session = session
        self._refuser = refuser

    def needs(self, call: ToolCall) -> bool:
        is_allowed = self._session.talk.state.records.get(f"{ALLOWED_RECORD}{call.name}") is True
        return call.name not in READING_TOOLS and not is_allowed

    async def ask(self, call: ToolCall) -> str | None:
        state = self._session.talk.state
        before = answer_record(state.live.turn, "")
        # The answers of earlier turns. That of this one stays, so that a second message does not answer once more.
        read = {one: None for one in state.records if one.startswith(ANSWER_RECORD) and not one.startswith(before)}
        if read:
            await self._session.record(read)
        text = await recorded_answer(self._session, call)
        if is_yes(text):
            return None
        return f"{self._refuser} refused it" if text == NO else f"{self._refuser} refused it: {text}"
