"""What the card of a peer says: where the peer is reached, and what it does with reminders.

The capability may stand in several places: in the extension that A2A 1.0 allows, where the proposal puts it, and where
agents from before the proposal put it. The first place that has it counts.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from a2a.client.card_resolver import parse_agent_card
from a2a.types import AgentCard, AgentInterface
from google.protobuf.json_format import ParseError

from sideband.core.errors import shown
from sideband.core.reminder import Propagate, RoleHint
from sideband.protocols.a2a.card import SEED_PATH
from sideband.protocols.a2a.client.failures import PeerNotTrusted, PeerNotUnderstood
from sideband.protocols.a2a.client.http import at_host_of, origin_of
from sideband.protocols.a2a.client.refusals import member
from sideband.protocols.a2a.reminders import METHODS, URI

INJECT: Final = "tasks/inject_reminder"
JSONRPC: Final = "JSONRPC"
HTTP_JSON: Final = "HTTP+JSON"
# In the order in which they are chosen, whatever the order on the card: only JSON-RPC reports errors in one way.
_BINDINGS: Final = (JSONRPC, HTTP_JSON)
_LEGACY: Final = "0.3"
_CURRENT: Final = "1.0"

_WordT = TypeVar("_WordT", bound=StrEnum)


# Reminders.


class CardPlace(StrEnum):
    """Where on a card the capability was found."""

    EXTENSION = "extension"
    PROPOSED = "proposed"
    HARN = "harn"


class CardReminders(NamedTuple):
    """What a peer does with reminders: `inject` accepts them, `emit` reports their lifecycle.

    `methods` are those that it has; only the extension lists them, and the proposal has one.
    """

    place: CardPlace
    inject: bool
    emit: bool
    propagate: tuple[Propagate, ...] = (Propagate.SESSION,)
    role_hints: tuple[RoleHint, ...] = (RoleHint.SYSTEM,)
    methods: tuple[str, ...] = (INJECT,)


def read_reminders(card: Mapping[str, Any]) -> CardReminders | None:
    """What a card says of reminders; None if it says nothing. What is malformed counts as absent."""
    for place, found in _places(card):
        if isinstance(found, dict):
            methods = _words(found.get("methods")) if place is CardPlace.EXTENSION else ()
            return CardReminders(
                place,
                found.get("inject") is True,
                found.get("emit") is True,
                _known(found.get("propagate"), Propagate) or (Propagate.SESSION,),
                _known(found.get("roleHints"), RoleHint) or (RoleHint.SYSTEM,),
                methods or ((*METHODS,) if place is CardPlace.EXTENSION else (INJECT,)),
            )
    return None


def _places(card: Mapping[str, Any]) -> Iterator[tuple[CardPlace, object]]:
    capabilities = card.get("capabilities")
    extensions = member(capabilities, "extensions")
    for extension in extensions if isinstance(extensions, list) else ():
        if member(extension, "uri") == URI:
            # Params are optional: the URI alone promises the methods and the notifications.
            params = extension.get("params")
            yield CardPlace.EXTENSION, {"inject": True, "emit": True} if params is None else params
    yield CardPlace.PROPOSED, member(capabilities, "reminders")
    harn = member(capabilities, "_meta", "harn", "reminders")
    if harn is True or isinstance(harn, dict):
        # Agents from before the proposal only mark the support.
        yield CardPlace.HARN, {"inject": True, "emit": True, **(harn if isinstance(harn, dict) else {})}


def _words(value: object) -> tuple[str, ...]:
    return tuple(word for word in value if isinstance(word, str)) if isinstance(value, list) else ()


def _known(value: object, vocabulary: type[_WordT]) -> tuple[_WordT, ...]:
    words = frozenset(_words(value))
    return tuple(word for word in vocabulary if word.value in words)


# The card for the SDK, and the interface that is used.


def read_card(document: dict[str, Any], url: str) -> AgentCard:
    """The card of the agent at `url`, in any version; `PeerNotUnderstood` if it is not a card."""
    try:
        return parse_agent_card(_adapted(document, url))
    except (ParseError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise PeerNotUnderstood(f"the card of {url} is not one of A2A: {error}") from None


def _adapted(document: dict[str, Any], url: str) -> dict[str, Any]:
    card = copy.deepcopy(document)
    skills = card.get("skills")
    if isinstance(skills, list):
        # The proposal's own example has names only, which is no valid card.
        card["skills"] = [skill for skill in skills if isinstance(skill, dict)]
    address = card.get("url")
    if "supportedInterfaces" not in card and (address is None or str(address).endswith(SEED_PATH)):
        # The literal card of the proposal has its own address there, and none of an interface.
        card["url"] = f"{url}/"
    return card


class Interface(NamedTuple):
    """The interface of a peer that is used."""

    url: str
    binding: str
    version: str
    tenant: str

    @property
    def is_legacy(self) -> bool:
        """Whether it speaks version 0.3."""
        return self.version == _LEGACY


def choose_interface(card: AgentCard, origins: Collection[str], address: str) -> Interface:
    """The interface of the card to use: JSON-RPC before HTTP+JSON, and version 1 before 0.3.

    If it is on this machine, it is reached at the host of `address`, because that has several names. `PeerNotTrusted` if all that could be used are at other origins than these: the token would be sent there.
    """
    usable = [offered for offered in card.supported_interfaces if offered.protocol_binding in _BINDINGS]
    trusted = [offered for offered in usable if origin_of(at_host_of(address, offered.url)) in origins]
    if not usable:
        offered = ", ".join(sorted({one.protocol_binding for one in card.supported_interfaces})) or "no interface"
        raise PeerNotUnderstood(f"the peer offers {offered}; this client needs JSONRPC or HTTP+JSON")
    if not trusted:
        raise PeerNotTrusted(
            f"the card says that the agent is at {shown(usable[0].url)}, which is another origin than that of the card; "
            "if it belongs to the same agent, add that origin to allowed_origins"
        )
    chosen = min(trusted, key=_rank)
    version = _LEGACY if _is_legacy(chosen) else _CURRENT
    return Interface(at_host_of(address, chosen.url), chosen.protocol_binding, version, chosen.tenant)


def _rank(offered: AgentInterface) -> tuple[int, bool]:
    return _BINDINGS.index(offered.protocol_binding), _is_legacy(offered)


def _is_legacy(offered: AgentInterface) -> bool:
    return offered.protocol_version.startswith("0.")
