"""The agent card: what the agent is, where it is reached, and what callers may do with reminders."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from sideband import __version__
from sideband.core.trust import Advertised, advertised
from sideband.protocols.a2a.auth import Caller
from sideband.protocols.a2a.messages import ExtensionParams
from sideband.protocols.a2a.reminders import METHODS, RAW_URI, URI

SEED_PATH: Final = "/.well-known/a2a-agent"
"""Where the proposal puts its card, which A2A 1.0 does not allow."""

_BEARER: Final = "bearer"
_ABOUT: Final = "Takes reminders for a running task, and reports their lifecycle in the metadata of status updates."
_ABOUT_RAW: Final = "Also reports the lifecycle of reminders as JSON-RPC notifications on the event stream."
_MODES: Final = ("text/plain", "application/json", "image/png", "image/jpeg", "application/pdf")


class AgentProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What the card says of the agent. `url` is the address of its root, without a slash at the end."""

    name: str = "sideband"
    description: str = "An agent that takes system reminders while it works."
    url: str
    version: str = __version__
    skills: Sequence[str] = ("agent",)


def agent_card(profile: AgentProfile, caller: Caller, *, needs_token: bool, pushes: bool) -> AgentCard:
    """The card for a caller: it says what this caller may do with reminders."""
    card = AgentCard(
        name=profile.name,
        description=profile.description,
        version=profile.version,
        supported_interfaces=[
            AgentInterface(url=f"{profile.url}/", protocol_binding="JSONRPC", protocol_version="1.0"),
            AgentInterface(url=profile.url, protocol_binding="HTTP+JSON", protocol_version="1.0"),
            AgentInterface(url=f"{profile.url}/", protocol_binding="JSONRPC", protocol_version="0.3"),
            AgentInterface(url=profile.url, protocol_binding="HTTP+JSON", protocol_version="0.3"),
        ],
        capabilities=AgentCapabilities(
            streaming=True, push_notifications=pushes, extended_agent_card=True, extensions=_extensions(caller)
        ),
        default_input_modes=_MODES,
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(id=skill, name=skill, description=profile.description, tags=[skill]) for skill in profile.skills
        ],
    )
    if needs_token:
        card.security_schemes[_BEARER].CopyFrom(
            SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))
        )
        card.security_requirements.append(SecurityRequirement(schemes={_BEARER: StringList()}))
    return card


def seed_card(profile: AgentProfile, caller: Caller) -> dict[str, Any]:
    """The card in the literal form of the proposal."""
    may = advertised(caller.ceiling)
    return {
        "name": profile.name,
        "url": f"{profile.url}{SEED_PATH}",
        "skills": list(profile.skills),
        "capabilities": {
            "reminders": {
                "inject": True,
                "emit": True,
                "propagate": list(may.propagate),
                "roleHints": list(may.role_hints),
            }
        },
    }


def extension_params(may: Advertised) -> dict[str, Any]:
    """The params of the extension: what a caller may ask for and would get unchanged."""
    params = ExtensionParams(
        inject=True,
        emit=True,
        propagate=may.propagate,
        role_hints=may.role_hints,
        modes=may.modes,
        methods=tuple(METHODS),
    )
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(params))
    return plain


def _extensions(caller: Caller) -> list[AgentExtension]:
    ours = AgentExtension(uri=URI, description=_ABOUT, required=False)
    ours.params.update(extension_params(advertised(caller.ceiling)))
    return [ours, AgentExtension(uri=RAW_URI, description=_ABOUT_RAW, required=False)]
