"""Which model routes keep a role hint; a model is written `transport:model`."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from sideband.core.reminder import RoleHint

# The hints that name a shape of one wire; every other hint has a place everywhere.
SHAPED_HINTS: Final = frozenset({RoleHint.USER_BLOCK, RoleHint.EPHEMERAL_CACHE})

KEEPS_SHAPES: Final[Mapping[str, bool]] = MappingProxyType(
    {
        "anthropic": True,
        "anthropic-bedrock": True,
        "anthropic-foundry": True,
        "anthropic-vertex": True,
        "openai": False,
        "openai-chat": False,
        "google": False,
        "openai-compatible": False,
        "local": False,
        "scripted": False,
    }
)


# On these a model need not be named.
NAMELESS: Final = frozenset({"local", "scripted"})


class UnknownRoute(ValueError):
    def __init__(self, model: str) -> None:
        transports = ", ".join(KEEPS_SHAPES)
        super().__init__(f"a model is written transport:model, not {model!a}; transports are {transports}")


def is_route(model: str) -> bool:
    """A name without a transport that we know says nothing about the wire."""
    transport, colon, name = model.partition(":")
    return bool(colon and (name or transport in NAMELESS)) and transport in KEEPS_SHAPES


def loses_hint(hint: object, models: Iterable[str]) -> str | None:
    """The first of the models when all are known and none keeps the hint, else None."""
    routes = [model for model in models if is_route(model)]
    if hint not in SHAPED_HINTS or not routes or any(KEEPS_SHAPES[model.partition(":")[0]] for model in routes):
        return None
    return routes[0]
