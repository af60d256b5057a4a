"""What a conversation ends with, and what a request needs there to be accepted."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from sideband.core.ledger import Form, Fragment, Scope
from sideband.render.profile import Profile, Wire

GO_ON: Final = "Continue."

USER_AND_MODEL: Final = (Wire.ANTHROPIC, Wire.GEMINI)
"""Wires that know only a user and a model: tool results are the user's, and the user has to speak last."""


class Tail(StrEnum):
    """What a conversation ends with; a summary in front of it is no part of it."""

    EMPTY = "empty"
    USER = "user"
    RESULTS = "results"
    ASSISTANT = "assistant"


TAILS: Final[Mapping[str, Tail]] = MappingProxyType(
    {"user": Tail.USER, "tool": Tail.RESULTS, "assistant": Tail.ASSISTANT, "system": Tail.EMPTY}
)
"""By the role of the last message."""


def tail_of(messages: Sequence[Mapping[str, Any]]) -> Tail:
    """What these messages end with."""
    return TAILS[messages[-1]["role"]] if messages else Tail.EMPTY


def go_on(profile: Profile, tail: Tail, anchor: int) -> tuple[Fragment, ...]:
    """A turn of the user, where the model would otherwise be asked to speak behind itself or behind nobody."""
    user_speaks_last = profile.wire in USER_AND_MODEL or not profile.consecutive_assistant
    # No wire takes a conversation in which nobody speaks.
    if tail in (Tail.USER, Tail.RESULTS) or (anchor and not user_speaks_last):
        return ()
    return (Fragment(anchor=anchor, form=Form.MESSAGE, role="user", scope=Scope.KEPT, text=GO_ON),)
