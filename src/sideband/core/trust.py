"""Who may say what with how much authority.

The level comes from the authenticated connection, never from the payload. Hints above a source's ceiling are
lowered, not refused, so that a conforming peer keeps working; what was asked for is kept beside what it got.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, assert_never

import msgspec

from sideband.core.draft import Draft
from sideband.core.errors import InvalidOption, NotInjectable, shown
from sideband.core.reminder import MAX_TTL_TURNS, Propagate, RoleHint
from sideband.core.seams import Mode

OWN: Final = "own"
_Word = TypeVar("_Word", RoleHint, Mode, Propagate)


class Trust(IntEnum):
    """A lower number is trusted more; levels only ever fall on the way."""

    OPERATOR = 0
    CONTROLLER = 1
    PEER = 2
    SERVER = 3
    CONTENT = 4


class Connection(StrEnum):
    """How a producer reaches the session; the level follows from this and from nothing it says."""

    IN_PROCESS = "in_process"
    SESSION_CLIENT = "session_client"
    OPERATOR_TOKEN = "operator_token"  # noqa: S105 - names a kind of connection
    TASK_OWNER = "task_owner"
    CONFIGURED_SERVER = "configured_server"
    CONTENT = "content"


LEVELS: Final[Mapping[Connection, Trust]] = MappingProxyType(
    {
        Connection.IN_PROCESS: Trust.OPERATOR,
        Connection.SESSION_CLIENT: Trust.CONTROLLER,
        Connection.OPERATOR_TOKEN: Trust.CONTROLLER,
        Connection.TASK_OWNER: Trust.PEER,
        Connection.CONFIGURED_SERVER: Trust.SERVER,
        Connection.CONTENT: Trust.CONTENT,
    }
)


class TrustPolicy(StrEnum):
    """`seed` lifts every ceiling on hints; size, rate and authentication always hold."""

    CEILINGS = "ceilings"
    SEED = "seed"


class GrantField(StrEnum):
    """What an operator may raise for one source."""

    ROLE_HINT = "role_hint"
    MODE = "mode"
    PROPAGATE = "propagate"
    PRESERVE_ON_COMPACT = "preserve_on_compact"
    TTL_TURNS = "ttl_turns"


# Each vocabulary from the word that asks for least to the one that asks for most: who may have one may have all below.
ROLE_HINTS: Final = (RoleHint.USER_BLOCK, RoleHint.EPHEMERAL_CACHE, RoleHint.DEVELOPER, RoleHint.SYSTEM)
MODES: Final = (Mode.AUDIT_ONLY, Mode.FINISH_STEP, Mode.INTERRUPT_IMMEDIATE)
REACHES: Final = (Propagate.NONE, Propagate.SESSION, Propagate.ALL)


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """The most a source gets. Each tuple rises, and its last entry is what a hint above it becomes.

    `max_ttl=None` allows any TTL and none at all; otherwise a TTL is required and at most that.
    """

    role_hints: tuple[RoleHint, ...] = ROLE_HINTS
    modes: tuple[Mode, ...] = MODES
    propagate: tuple[Propagate, ...] = REACHES
    may_preserve: bool = True
    max_ttl: int | None = None


UNLIMITED: Final = Ceiling()

# In-process code and the session's own client are not limited; content is not injectable at all.
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
    """One field raised for one source by the operator; a TTL of None allows any, until=None never ends.

    A source is a level and a name: a peer and a server of one name are two.
    """

    trust: Trust
    principal: str
    field: GrantField
    value: str | int | bool | None
    until: int | None = None

    def __post_init__(self) -> None:
        if self.field not in tuple(GrantField):
            raise InvalidOption(f"there is no {shown(self.field)} to grant", field="field", value=self.field)
        if not _GRANTABLE[self.field](self.value):
            raise InvalidOption(
                f"{self.field} cannot be granted as {shown(self.value)}", field="value", value=self.value
            )


# There is one for every reminder, and no cycle leads through it: the garbage collector need not visit them.
class Provenance(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a session keeps beside a reminder: who it came from, on which level, and what it asked for.

    `principal=None` is this process; `provider_id` names the provider or hook; `via` the bridge it came over;
    `claims` is what the caller said of itself, kept and never believed; `hops` counts hand-overs to sub-agents.
    """

    trust: Trust = Trust.OPERATOR
    principal: str | None = None
    provider_id: str | None = None
    via: str | None = None
    claims: dict[str, Any] = {}
    requested: dict[str, Any] = {}
    hops: int = 0

    @property
    def sender(self) -> str:
        """Whose limits and ids these are: a peer and a server of one name are two senders."""
        return f"{self.trust.name.lower()}:{self.principal or ''}"

    @property
    def namespace(self) -> str:
        """Where its dedupe keys live; sources in different namespaces never displace each other."""
        return namespace(self.trust, self.principal)


IN_PROCESS: Final = Provenance()


def namespace(trust: Trust, principal: str | None) -> str:
    """Operator and controller share one namespace; every other principal has its own."""
    return OWN if trust <= Trust.CONTROLLER else f"{trust.name.lower()}:{principal}"


def may_touch(actor: Provenance, owner: Provenance) -> bool:
    """The session's own side may clear and revoke anything, everybody else only what is theirs."""
    return actor.namespace in (OWN, owner.namespace)


def ceiling_for(
    provenance: Provenance,
    *,
    grants: Iterable[Grant] = (),
    policy: TrustPolicy = TrustPolicy.CEILINGS,
    now: int | None = None,
) -> Ceiling:
    """What this source gets: its level's ceiling with the operator's grants on top.

    `now` is compared with the end of grants that have one; without it only unending grants count.
    """
    if provenance.trust is Trust.CONTENT:
        raise NotInjectable("text found in content is never a reminder; point at it and let the agent read it")
    if policy is TrustPolicy.SEED:
        return UNLIMITED
    ceiling = CEILINGS[provenance.trust]
    for grant in grants:
        if (grant.trust, grant.principal) == (provenance.trust, provenance.principal) and _in_force(grant, now):
            ceiling = _raised(ceiling, grant)
    return ceiling


def _in_force(grant: Grant, now: int | None) -> bool:
    return grant.until is None or (now is not None and now < grant.until)


def _raised(ceiling: Ceiling, grant: Grant) -> Ceiling:
    match grant.field:
        case GrantField.ROLE_HINT:
            return msgspec.structs.replace(ceiling, role_hints=_higher(ceiling.role_hints, ROLE_HINTS, grant.value))
        case GrantField.MODE:
            return msgspec.structs.replace(ceiling, modes=_higher(ceiling.modes, MODES, grant.value))
        case GrantField.PROPAGATE:
            return msgspec.structs.replace(ceiling, propagate=_higher(ceiling.propagate, REACHES, grant.value))
        case GrantField.PRESERVE_ON_COMPACT:
            return msgspec.structs.replace(ceiling, may_preserve=ceiling.may_preserve or grant.value is True)
        case GrantField.TTL_TURNS:
            return msgspec.structs.replace(ceiling, max_ttl=_longer(ceiling.max_ttl, grant.value))
        case _:
            assert_never(grant.field)


def _higher(kept: tuple[_Word, ...], words: tuple[_Word, ...], granted: object) -> tuple[_Word, ...]:
    return max(kept, words[: words.index(granted) + 1], key=len)


def _longer(most: int | None, granted: object) -> int | None:
    return max(most, granted) if most is not None and isinstance(granted, int) else None


class Advertised(NamedTuple):
    """What a caller is told it may ask for: exactly what it would get."""

    role_hints: tuple[RoleHint, ...]
    modes: tuple[Mode, ...]
    propagate: tuple[Propagate, ...]


def advertised(ceiling: Ceiling) -> Advertised:
    """The words of each hint that this ceiling leaves as they are, in the order of the vocabulary."""
    return Advertised(
        tuple(hint for hint in RoleHint if hint in ceiling.role_hints),
        tuple(mode for mode in Mode if mode in ceiling.modes),
        tuple(propagate for propagate in Propagate if propagate in ceiling.propagate),
    )


class Clamped(NamedTuple):
    """A draft within its ceiling, and the values it asked for where they were lowered."""

    draft: Draft
    requested: dict[str, Any]


def clamp(draft: Draft, ceiling: Ceiling) -> Clamped:
    """Lower every hint above the ceiling, and say which."""
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
