"""What an agent asks of its client: permissions, files, terminals and extensions, answered by functions of the host."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from sideband.core.errors import InvalidOption, shown, suggestion
from sideband.protocols.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, Call, Later, RpcError

# An agent that asks more at once gets an error.
MAX_OPEN_REQUESTS: Final = 256

_TERMINAL: Final = frozenset(
    {"terminal/create", "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"}
)
_FILES: Final[Mapping[str, str]] = MappingProxyType(
    {"fs/read_text_file": "readTextFile", "fs/write_text_file": "writeTextFile"}
)


class PermissionRequest(NamedTuple):
    """An agent asks whether it may make a tool call; each of the `options` has an `optionId`, a `name` and a `kind`."""

    session_id: str
    tool_call: Mapping[str, Any]
    options: Sequence[Mapping[str, Any]]


AskPermission: TypeAlias = Callable[[PermissionRequest], Awaitable[str | None]]
AnswerRequest: TypeAlias = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any]]]


class AgentRequests:
    """Answers the requests of an agent; what the host has no function for is refused."""

    def __init__(self, ask_permission: AskPermission | None, answers: Mapping[str, AnswerRequest]) -> None:
        _check(answers)
        self._ask_permission = ask_permission
        self._answers = dict(answers)
        self._asking: dict[str, set[asyncio.Future[str | None]]] = {}
        self._open = 0

    def capabilities(self) -> dict[str, Any]:
        """What the client advertises: what it can answer."""
        files = {name: method in self._answers for method, name in _FILES.items()}
        return {"fs": files, "terminal": self._answers.keys() >= _TERMINAL}

    def answer(self, call: Call) -> Later:
        """Begin to answer a request."""
        if self._open >= MAX_OPEN_REQUESTS:
            raise RpcError(INTERNAL_ERROR, f"At most {MAX_OPEN_REQUESTS} requests may be open at once")
        if call.method == "session/request_permission":
            return self._later(self._permit(call.params))
        answer = self._answers.get(call.method)
        if answer is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {call.method[:100]}")
        return self._later(answer(call.params))

    def withdraw_questions(self, session_id: str) -> None:
        """Answer the open permission requests of a session with `cancelled`, as a client must after `session/cancel`."""
        for asking in self._asking.get(session_id, ()):
            asking.cancel()

    def _later(self, answer: Awaitable[Mapping[str, Any]]) -> Later:
        answering = asyncio.ensure_future(answer)
        self._open += 1
        answering.add_done_callback(self._close)
        return Later(answering)

    def _close(self, _answering: object) -> None:
        self._open -= 1

    async def _permit(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        given = params.get("options")
        options = [option for option in given if isinstance(option, dict)] if isinstance(given, list) else []
        chosen = None
        if self._ask_permission is not None:
            request = PermissionRequest(str(params.get("sessionId")), params.get("toolCall") or {}, options)
            asking = asyncio.ensure_future(self._ask_permission(request))
            await self._until_answered(request.session_id, asking)
            if asking.cancelled():
                return _CANCELLED
            chosen = asking.result()
        if chosen is None:
            return _refusal(options)
        if chosen not in [option.get("optionId") for option in options]:
            raise ValueError(f"ask_permission returned {shown(chosen)}, which is not the id of an option")
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    async def _until_answered(self, session_id: str, asking: asyncio.Future[str | None]) -> None:
        open_here = self._asking.setdefault(session_id, set())
        open_here.add(asking)
        try:
            # Not awaited directly, because the question may be withdrawn without this request being cancelled.
            await asyncio.wait({asking})
        finally:
            asking.cancel()
            open_here.discard(asking)
            if not open_here:
                self._asking.pop(session_id, None)


_CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}


def _refusal(options: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Refuse once, which leaves the turn running; an agent that offers no such option is told `cancelled`."""
    for option in options:
        if option.get("kind") == "reject_once":
            return {"outcome": {"outcome": "selected", "optionId": option.get("optionId")}}
    return _CANCELLED


def _check(answers: Mapping[str, AnswerRequest]) -> None:
    known = (*_FILES, *sorted(_TERMINAL))
    for method in answers:
        if method not in known and not method.startswith("_"):
            raise InvalidOption(
                f"answers: no agent calls {shown(method)}; {suggestion(method, known, kind='methods')}",
                field="answers",
                value=method,
            )
    if not _TERMINAL.isdisjoint(answers) and not answers.keys() >= _TERMINAL:
        missing = ", ".join(sorted(_TERMINAL - answers.keys()))
        raise InvalidOption(f"answers: terminals need all five methods; missing: {missing}", field="answers")
