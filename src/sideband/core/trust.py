"""Trust: which level a producer has, what each level may ask for, and what the operator may grant on top.

The level comes from the channel that a producer uses, never from its payload. A value above the producer's ceiling is
lowered and not refused, so that a conforming peer keeps working; the session records the value that was asked for.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, assert_never

import msgspec

from sideband.core.errors import InvalidOption, NotInjectable, shown
from sideband.core.reminder import MAX_TTL_TURNS, Draft, Propagate, RoleHint
from sideband.core.seams import Mode

_Word = TypeVar("_Word", RoleHint, Mode, Propagate)


# Levels.


class Trust(IntEnum):
    """A lower number is trusted more. When a reminder is handed on, its trust can fall and never rises."""

    OPERATOR = 0
    CONTROLLER = 1
    PEER = 2
    SERVER = 3
    CONTENT = 4


class Channel(StrEnum):
    """How a producer reaches the session; this alone decides its level."""

    IN_PROCESS = "in_process"
    SESSION_CLIENT = "session_client"
    OPERATOR_TOKEN = "operator_token"  # noqa: S105 - names a channel, holds no secret
    TASK_OWNER = "task_owner"
    CONFIGURED_SERVER = "configured_server"
    CONTENT = "content"


LEVELS: Final[Mapping[Channel, Trust]] = MappingProxyType(
    {
        Channel.IN_PROCESS: Trust.OPERATOR,
        Channel.SESSION_CLIENT: Trust.CONTROLLER,
        Channel.OPERATOR_TOKEN: Trust.CONTROLLER,
        Channel.TASK_OWNER: Trust.PEER,
        Channel.CONFIGURED_SERVER: Trust.SERVER,
        Channel.CONTENT: Trust.CONTENT,
    }
)


# Provenance.

# Operator and controller share this namespace.
_OWN: Final = "own"
_WORDS: Final = {level: level.name.lower() for level in Trust}


class Provenance(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Where a reminder or message came from; the session keeps it with the record.

    `principal` is the name of the peer, server or client; None is this process. `provider_id` is the provider or hook,
    `via` the protocol. `claims` holds what the caller said about the origin; it is recorded and not relied on.
    `requested` holds the values that the ceiling lowered. `meta` is the `_meta` object of the request, which updates
    repeat to the sender. `hops` counts handoffs to sub-agents.
    """

    trust: Trust = Trust.OPERATOR
    principal: str | None = None
    provider_id: str | None = None
    via: str | None = None
    claims: dict[str, Any] = {}
    requested: dict[str, Any] = {}
    hops: int = 0
    meta: dict[str, Any] = {}

    @property
    def sender(self) -> str:
        """The owner of rate, pending count and ids. A peer and a server with the same name are two senders."""
        return f"{_WORDS[self.trust]}:{self.principal or ''}"

    @property
    def namespace(self) -> str:
        """The namespace of its dedupe keys; reminders in different namespaces never replace each other."""
        return namespace(self.trust, self.principal)


IN_PROCESS: Final = Provenance()


def namespace(trust: Trust, principal: str | None) -> str:
    """Operator and controller share one namespace; every other principal has its own."""
    return _OWN if trust <= Trust.CONTROLLER else f"{_WORDS[trust]}:{principal}"


def may_touch(actor: Provenance, owner: str) -> bool:
    """Whether `actor` may see, clear, revoke or replace what belongs to the namespace `owner`.

    Operator and controller may touch everything, any other producer only what it sent itself.
    """
    return actor.trust <= Trust.CONTROLLER or actor.namespace == owner


# Ceilings.


class TrustPolicy(StrEnum):
    """Whether ceilings apply. `seed` lifts all of them; limits on size and rate still hold, and so does authentication."""

    CEILINGS = "ceilings"
    SEED = "seed"


# Each vocabulary in rising order. A producer that may use a value may use all values before it.
ROLE_HINTS: Final = (RoleHint.USER_BLOCK, RoleHint.EPHEMERAL_CACHE, RoleHint.DEVELOPER, RoleHint.SYSTEM)

MODES: Final = (Mode.AUDIT_ONLY, Mode.FINISH_STEP, Mode.INTERRUPT_IMMEDIATE)

REACHES: Final = (Propagate.NONE, Propagate.SESSION, Propagate.ALL)


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """The most that a producer gets. A value that is not in a tuple becomes the last entry of the tuple.

    With `max_ttl=None` a reminder may have any TTL or no TTL. Otherwise it always has one, of at most `max_ttl`.
    """

    role_hints: tuple[RoleHint, ...] = ROLE_HINTS
    modes: tuple[Mode, ...] = MODES
    propagate: tuple[Propagate, ...] = REACHES
    may_preserve: bool = True
    max_ttl: int | None = None


UNLIMITED: Final = Ceiling()

# `Trust.CONTENT` has no ceiling, because content is never accepted as a reminder.
CEILINGS: Final[Mapping[Trust, Ceiling]] = MappingProxyType(
    {
        Trust.OPERATOR: UNLIMITED,
        Trust.CONTROLLER: UNLIMITED,
        Trust.PEER: Ceiling(
            role_hints=(RoleHint.USER_BLOCK,),
            modes=(Mode.AUDIT_ONLY, Mode.FINISH_STEP),
            propagate=(Propagate.NONE,),
            may_preserve=False,
            max_ttl=3,
        ),
        Trust.SERVER: Ceiling(
            role_hints=(RoleHint.USER_BLOCK,),
            modes=(Mode.AUDIT_ONLY, Mode.FINISH_STEP),
            propagate=(Propagate.NONE,),
            may_preserve=False,
            max_ttl=2,
        ),
    }
)


# Grants.


class GrantField(StrEnum):
    """A field whose ceiling an operator may raise for one producer."""

    ROLE_HINT = "role_hint"
    MODE = "mode"
    PROPAGATE = "propagate"
    PRESERVE_ON_COMPACT = "preserve_on_compact"
    TTL_TURNS = "ttl_turns"


GrantFieldWord: TypeAlias = GrantField | Literal["role_hint", "mode", "propagate", "preserve_on_compact", "ttl_turns"]


def _is_ttl(value: object) -> bool:
    return value is None or (type(value) is int and 1 <= value <= MAX_TTL_TURNS)


_GRANTABLE: Final[Mapping[GrantField, Callable[[object], bool]]] = MappingProxyType(
    {
        GrantField.ROLE_HINT: tuple(RoleHint).__contains__,
        GrantField.MODE: tuple(Mode).__contains__,
        GrantField.PROPAGATE: tuple(Propagate).__contains__,
        GrantField.PRESERVE_ON_COMPACT: lambda value: isinstance(value, bool),
        GrantField.TTL_TURNS: _is_ttl,
    }
)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The operator raises the ceiling of one field for one producer, identified by its level and its name.

    `value=None` is a grant of any TTL. `until` is the end of the grant in milliseconds since the epoch; None never ends.
    """

    trust: Trust
    principal: str
    field: GrantField
    value: str | int | bool | None
    until: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.principal, str):
            raise InvalidOption(
                f"principal must be the name of a peer or a server, not {shown(self.principal)}",
                field="principal",
                value=self.principal,
            )
        if self.until is not None and (type(self.until) is not int or abs(self.until) >= 2**63):
            raise InvalidOption(
                f"until must be milliseconds since the epoch or None, not {shown(self.until)}",
                field="until",
                value=self.until,
            )
        if self.field not in tuple(GrantField):
            fields = ", ".join(repr(field.value) for field in GrantField)
            raise InvalidOption(
                f"field must be one of {fields}, not {shown(self.field)}", field="field", value=self.field
            )
        if not _GRANTABLE[self.field](self.value):
            raise InvalidOption(
                f"{shown(self.value)} is not a value of {self.field}, so it cannot be granted",
                field="value",
                value=self.value,
            )


# What a producer gets.


def ceiling_for(
    provenance: Provenance,
    *,
    grants: Iterable[Grant] = (),
    policy: TrustPolicy = TrustPolicy.CEILINGS,
    now: int | None = None,
) -> Ceiling:
    """The ceiling of a producer's level, raised by the operator's grants.

    `now`, in milliseconds since the epoch, is compared with the end of grants. Without it, only grants without an end
    count.
    """
    if provenance.trust is Trust.CONTENT:
        raise NotInjectable(
            "text from tool output, files or pages is not accepted as a reminder; "
            "name the place in a reminder of your own and let the agent read it"
        )
    if policy is TrustPolicy.SEED:
        return UNLIMITED
    ceiling = CEILINGS[provenance.trust]
    for grant in grants:
        if (grant.trust, grant.principal) == (provenance.trust, provenance.principal) and _is_in_force(grant, now):
            ceiling = _raise_by(ceiling, grant)
    return ceiling


def _is_in_force(grant: Grant, now: int | None) -> bool:
    return grant.until is None or (now is not None and now < grant.until)


def _raise_by(ceiling: Ceiling, grant: Grant) -> Ceiling:
    match grant.field:
        case GrantField.ROLE_HINT:
            return msgspec.structs.replace(ceiling, role_hints=_higher_of(ceiling.role_hints, ROLE_HINTS, grant.value))
        case GrantField.MODE:
            return msgspec.structs.replace(ceiling, modes=_higher_of(ceiling.modes, MODES, grant.value))
        case GrantField.PROPAGATE:
            return msgspec.structs.replace(ceiling, propagate=_higher_of(ceiling.propagate, REACHES, grant.value))
        case GrantField.PRESERVE_ON_COMPACT:
            return msgspec.structs.replace(ceiling, may_preserve=ceiling.may_preserve or grant.value is True)
        case GrantField.TTL_TURNS:
            return msgspec.structs.replace(ceiling, max_ttl=_longer_of(ceiling.max_ttl, grant.value))
        case _:
            assert_never(grant.field)


def _higher_of(kept: tuple[_Word, ...], words: tuple[_Word, ...], granted: object) -> tuple[_Word, ...]:
    return max(kept, words[: words.index(granted) + 1], key=len)


def _longer_of(most: int | None, granted: object) -> int | None:
    return max(most, granted) if most is not None and isinstance(granted, int) else None


class Advertised(NamedTuple):
    """The values that a producer may ask for and would get unchanged."""

    role_hints: tuple[RoleHint, ...]
    modes: tuple[Mode, ...]
    propagate: tuple[Propagate, ...]


def advertised(ceiling: Ceiling) -> Advertised:
    """The values of each field that a ceiling does not lower, in the order of the vocabulary."""
    return Advertised(
        tuple(hint for hint in RoleHint if hint in ceiling.role_hints),
        tuple(mode for mode in Mode if mode in ceiling.modes),
        tuple(propagate for propagate in Propagate if propagate in ceiling.propagate),
    )


class Clamped(NamedTuple):
    """A draft within its ceiling, and the requested values of the fields that were lowered."""

    draft: Draft
    requested: dict[str, Any]


def clamp(draft: Draft, ceiling: Ceiling) -> Clamped:
    """Lower every field that is above the ceiling."""
    effective: dict[str, object] = {
        "role_hint": draft.role_hint if draft.role_hint in ceiling.role_hints else ceiling.role_hints[-1],
        "mode": draft.mode if draft.mode in ceiling.modes else ceiling.modes[-1],
        "propagate": draft.propagate if draft.propagate in ceiling.propagate else ceiling.propagate[-1],
        "preserve_on_compact": draft.preserve_on_compact and ceiling.may_preserve,
        "ttl_turns": draft.ttl_turns
        if ceiling.max_ttl is None
        else min(ceiling.max_ttl, draft.ttl_turns or ceiling.max_ttl),
    }
    lowered = {field: value for field, value in effective.items() if value != getattr(draft, field)}
    if not lowered:
        return Clamped(draft, {})
    requested = {field: getattr(draft, field) for field in lowered}
    return Clamped(msgspec.structs.replace(draft, **lowered), requested)
