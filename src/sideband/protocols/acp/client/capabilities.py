"""What an agent can do, as its reply to `initialize` says it, and how hints are lowered to fit.

A capability may stand in several places, because ACP has none for it yet. The first place that has an object counts.
Protocol version 1 marks a capability with true, version 2 with an object, which may be empty.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from sideband.core.reminder import Propagate, RoleHint
from sideband.protocols.acp.methods import PREFIX, member

_WordT = TypeVar("_WordT", bound=StrEnum)


class CapabilityPlace(StrEnum):
    """Where a capability was found; it decides by which name a method is called."""

    STANDARD = "standard"
    EXTENSION = "extension"
    PROPOSED = "proposed"
    HARN = "harn"


class PeerReminders(NamedTuple):
    """What an agent does with reminders: `inject` accepts them, `emit` reports their lifecycle."""

    place: CapabilityPlace
    inject: bool
    emit: bool
    propagate: tuple[Propagate, ...]
    role_hints: tuple[RoleHint, ...]

    @property
    def prefix(self) -> str:
        """What stands before the names of its methods."""
        return _prefix(self.place)


class PeerInject(NamedTuple):
    """How an agent accepts messages while a turn runs; no `modes` means that it does not say which."""

    place: CapabilityPlace
    modes: tuple[str, ...]
    steer_in_stream: tuple[str, ...]
    can_replace: bool

    @property
    def prefix(self) -> str:
        """What stands before the names of its methods."""
        return _prefix(self.place)


class PeerCapabilities(NamedTuple):
    """What an agent can do; None and False mean that it does not say so.

    `steers` is the support for `_session/steering`.
    """

    reminders: PeerReminders | None = None
    inject: PeerInject | None = None
    steers: bool = False
    loads: bool = False
    resumes: bool = False
    lists: bool = False
    closes: bool = False


# The places of each capability below the agent's capabilities, in the order in which they count.
_REMINDERS: Final = (
    (CapabilityPlace.STANDARD, ("sessionCapabilities", "reminders")),
    (CapabilityPlace.EXTENSION, ("_meta", "sideband", "reminders")),
    (CapabilityPlace.PROPOSED, ("reminders",)),
    (CapabilityPlace.HARN, ("_meta", "harn", "reminders")),
)
_INJECT: Final = (
    (CapabilityPlace.STANDARD, ("sessionCapabilities", "inject")),
    (CapabilityPlace.EXTENSION, ("_meta", "sideband", "inject")),
    (CapabilityPlace.PROPOSED, ("session", "inject")),
)


def read_capabilities(reply: Mapping[str, Any]) -> PeerCapabilities:
    """Read the reply to `initialize`; what is malformed counts as absent."""
    # Protocol version 2 has shorter names.
    agent = reply.get("agentCapabilities", reply.get("capabilities"))
    sessions = member(agent, "sessionCapabilities") or member(agent, "session")
    return PeerCapabilities(
        reminders=_reminders(agent, reply),
        inject=_inject(agent),
        steers=_is_yes(member(reply, "_meta", "steering", "supported")),
        loads=_is_yes(member(agent, "loadSession")),
        resumes=_is_yes(member(sessions, "resume")),
        lists=_is_yes(member(sessions, "list")),
        closes=_is_yes(member(sessions, "close")),
    )


def _reminders(agent: object, reply: Mapping[str, Any]) -> PeerReminders | None:
    for place, path in _REMINDERS:
        found = member(agent, *path)
        if place is CapabilityPlace.HARN:
            found = member(reply, *path) if found is None else found
            if _is_yes(found):
                # Agents from before the proposals only mark the support.
                found = {"inject": True, "emit": True, **(found if isinstance(found, dict) else {})}
        if isinstance(found, dict):
            return PeerReminders(
                place,
                _is_yes(found.get("inject")),
                _is_yes(found.get("emit")),
                _known(found.get("propagate"), Propagate) or (Propagate.SESSION,),
                _known(found.get("roleHints"), RoleHint) or (RoleHint.SYSTEM,),
            )
    return None


def _inject(agent: object) -> PeerInject | None:
    for place, path in _INJECT:
        found = member(agent, *path)
        if isinstance(found, dict):
            in_stream = found.get("steerInStream", found.get("steer_in_stream"))
            can_replace = _is_yes(member(found, "pending", "replace"))
            return PeerInject(place, _words(found.get("modes")), _words(in_stream), can_replace)
    return None


def _is_yes(value: object) -> bool:
    return value is True or isinstance(value, dict)


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, dict):
        return tuple(word for word, marker in value.items() if _is_yes(marker))
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()


def _known(value: object, vocabulary: type[_WordT]) -> tuple[_WordT, ...]:
    words = frozenset(_words(value))
    return tuple(word for word in vocabulary if word.value in words)


def _prefix(place: CapabilityPlace) -> str:
    return PREFIX if place is CapabilityPlace.EXTENSION else ""
