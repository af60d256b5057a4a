"""Permission for tool calls: the mode of the session decides what is asked, and the attached clients are asked.

Every attached controller is asked, also one that attaches while the question is open. The first answer counts, also if it
is recorded in the session by another program. When no controller is attached that could answer, the call is refused.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from sideband.core.messages import ToolCall
from sideband.protocols.acp.agent import modes, tool_calls
from sideband.protocols.acp.agent.attachment import Attachment
from sideband.protocols.acp.agent.tool_calls import Change
from sideband.protocols.frames import ConnectionLost
from sideband.protocols.jsonrpc import RpcError
from sideband.runtime.permission import is_yes, recorded_answer
from sideband.runtime.session import Session

ChangeOf: TypeAlias = Callable[[ToolCall], Awaitable[Change | None]]
"""What a call would do to a file."""

_OPTIONS: Final = (
    {"optionId": "allow_once", "name": "Allow", "kind": "allow_once"},
    {"optionId": "allow_always", "name": "Allow for this session", "kind": "allow_always"},
    {"optionId": "reject_once", "name": "Reject", "kind": "reject_once"},
)
_CANCELLED: Final = "cancelled"
_NO_CLIENT: Final = "no client is attached that could allow it"


class _Question:
    """A question that is open, and the clients that were asked. `answer` is the option that was chosen first."""

    def __init__(self, call: ToolCall, change: Change | None) -> None:
        self.call = call
        self.change = change
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.asked: dict[Attachment, asyncio.Task[None]] = {}

    def settle(self, chosen: str | None) -> None:
        if not self.answer.done():
            self.answer.set_result(chosen)


class SessionPermission:
    """Asks the clients of one session. `allowed` are the tools that the user has allowed for the session."""

    def __init__(self, session: Session, cwd: str, *, allowed: set[str], change_of: ChangeOf) -> None:
        self._session = session
        self._cwd = cwd
        self._allowed = allowed
        self._change_of = change_of
        self._clients: list[Attachment] = []
        self._questions: list[_Question] = []

    async def mode(self) -> str:
        """The mode of the session, which a client of another process may have set."""
        mode = (await self._session.records()).get("mode")
        return mode if isinstance(mode, str) and mode in modes.MODES else modes.ASK

    # Clients.

    def attach(self, client: Attachment) -> None:
        """Ask this client from now on, also what is being asked already."""
        self._clients.append(client)
        for question in self._questions:
            self._put(question, client)

    def detach(self, client: Attachment) -> None:
        """Ask this client nothing more, and withdraw what it was asked."""
        if client in self._clients:
            self._clients.remove(client)
        for question in self._questions:
            if (asking := question.asked.pop(client, None)) is not None:
                asking.cancel()
            self._refuse_unasked(question)

    # Questions.

    async def needs(self, call: ToolCall) -> bool:
        """Whether a call needs permission."""
        return call.name not in self._allowed and not modes.is_free(await self.mode(), call.name)

    async def ask(self, call: ToolCall) -> str | None:
        """Ask the clients; return None to allow the call, or the reason for refusing it."""
        mode = await self.mode()
        if not modes.MODES[mode].asks:
            return f"the session is in the mode {mode!r}, in which no file is changed and no command is run"
        question = _Question(call, await self._change_of(call))
        self._questions.append(question)
        recorded = asyncio.ensure_future(self._take_recorded(question))
        try:
            for client in self._clients:
                self._put(question, client)
            self._refuse_unasked(question)
            return self._read(await question.answer, call)
        finally:
            self._questions.remove(question)
            recorded.cancel()
            for asking in question.asked.values():
                asking.cancel()

    async def _take_recorded(self, question: _Question) -> None:
        """Take an answer that was given elsewhere, such as on the page of the studio."""
        text = await recorded_answer(self._session, question.call)
        question.settle("allow_once" if is_yes(text) else "reject_once")

    def _put(self, question: _Question, client: Attachment) -> None:
        question.asked[client] = asyncio.ensure_future(self._ask_one(question, client))

    def _refuse_unasked(self, question: _Question) -> None:
        if not question.asked:
            question.settle(None)

    async def _ask_one(self, question: _Question, client: Attachment) -> None:
        await client.until_announced(question.call.id)
        try:
            answer = await client.peer.request("session/request_permission", self._params(question, client))
        except (RpcError, ConnectionLost):
            # This client cannot ask its user.
            question.asked.pop(client, None)
            self._refuse_unasked(question)
            return
        outcome = answer.get("outcome") if isinstance(answer, dict) else None
        is_chosen = isinstance(outcome, dict) and outcome.get("outcome") == "selected"
        question.settle(str(outcome.get("optionId")) if is_chosen and isinstance(outcome, dict) else _CANCELLED)

    def _params(self, question: _Question, client: Attachment) -> dict[str, Any]:
        version = client.abilities.version
        about = tool_calls.announced(question.call, self._cwd) | {"status": "pending"}
        change = question.change
        diff = None if change is None else tool_calls.diff_content(change, version=version)
        if diff is not None:
            about["content"] = [diff]
        params: dict[str, Any] = {"sessionId": self._session.id, "options": _OPTIONS}
        if version == 1:
            return params | {"toolCall": about}
        return params | {"title": about["title"], "subject": {"type": "tool_call", "toolCall": about}}

    def _read(self, chosen: str | None, call: ToolCall) -> str | None:
        match chosen:
            case None:
                return _NO_CLIENT
            case "allow_once":
                return None
            case "allow_always":
                self._allowed.add(call.name)
                return None
            case "cancelled":
                return "the user closed the question without an answer"
            case _:
                return "the user has rejected it"
