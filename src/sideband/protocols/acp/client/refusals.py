"""The refusals of an agent as the errors of this project, where the reason is known."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from sideband.core.errors import (
    MESSAGE_CHARACTERS,
    ReplaceNotSupported,
    UnknownSession,
    shown,
)
from sideband.protocols.acp.methods import PREFIX, member
from sideband.protocols.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from sideband.protocols.refusals import reported_error

_NOT_FOUND: Final = -32002
# Agents report an unknown session with each of these codes when one is loaded.
_UNKNOWN_WHEN_LOADED: Final = frozenset({_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR})
_LOADING: Final = frozenset({"session/load", "session/resume"})
# Methods whose parameters name nothing but the session that could be unknown.
_ABOUT_A_SESSION: Final = _LOADING | {
    "session/prompt",
    "session/close",
    "session/inject",
    "session/inject_reminder",
    "session/remind",
    "session/pending_injections",
    "_session/steering",
}


class NotSupportedByAgent(Exception):
    """The agent does not support what was asked of it, and nothing was changed."""

    code: ClassVar[str] = "SIDEBAND-507"

    def __init__(self, method: str, remedy: str) -> None:
        super().__init__(f"the agent does not support {method}: {remedy}")
        self.method = method


def refused_by_agent(error: RpcError, method: str, params: Mapping[str, Any]) -> Exception:
    """The error to raise for what an agent answered to a request; an `RpcError` if nothing is known of it."""
    plain = method.removeprefix(PREFIX)
    known = reported_error(member(error.data, "reason"), _words(error), error.data)
    if known is not None:
        return known
    if error.code == METHOD_NOT_FOUND:
        if plain == "session/replace_inject":
            return ReplaceNotSupported("the agent cannot replace a message; revoke it and send it anew")
        return NotSupportedByAgent(method, "it answered that it does not know the method")
    if (plain in _ABOUT_A_SESSION and error.code == _NOT_FOUND) or (
        plain in _LOADING and error.code in _UNKNOWN_WHEN_LOADED
    ):
        session_id = params.get("sessionId")
        return UnknownSession(
            f"the agent does not know session {shown(session_id)}: {_words(error)}",
            field="session_id",
            value=session_id,
        )
    words = _words(error)
    message = error.message if words == error.message else f"{error.message}: {words}"
    return RpcError(error.code, message, error.data)


def _words(error: RpcError) -> str:
    """What an agent says about an error: its own detail if there is one, because the message may be the code's name."""
    for name in ("detail", "details"):
        if isinstance(told := member(error.data, name), str):
            return told[:MESSAGE_CHARACTERS]
    return error.message[:MESSAGE_CHARACTERS]
