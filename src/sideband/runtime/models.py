"""Which model a string names. What a model needs is loaded when it is asked for, and not before."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sideband.core.errors import InvalidOption, shown
from sideband.ports import Model

# Every transport there is, and what its strings look like.
TRANSPORTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "anthropic": "anthropic:NAME",
        "openai": "openai:NAME",
        "openai-chat": "openai-chat:NAME",
        "google": "google:NAME",
        "openai-compatible": "openai-compatible:NAME",
        "local": "local:",
        "scripted": "scripted:TEXT",
    }
)
# On these a model need not be named.
_NAMELESS: Final = frozenset({"local", "scripted"})


def read_model(model: str | Model) -> Model:
    """A model, or the one a string names: `anthropic:NAME`, for instance; `TRANSPORTS` has them all.

    `scripted:TEXT` answers TEXT to everything; `local:` is a small model on this machine, and `local:FILE` the one whose
    weights are in that file.
    """
    if not isinstance(model, str):
        return _is_model(model)
    transport, _, name = model.partition(":")
    if transport not in TRANSPORTS:
        raise InvalidOption(
            f"no model is reached by {shown(model)}; pass a model object, or one of "
            f"{', '.join(map(repr, TRANSPORTS.values()))}",
            field="model",
            value=model,
        )
    if not name and transport not in _NAMELESS:
        raise InvalidOption(
            f"{shown(model)} names no model; write {TRANSPORTS[transport]!r}", field="model", value=model
        )
    from sideband.runtime.services import named_model  # noqa: PLC0415 - see above

    return named_model(transport, name)


def _is_model(model: Model) -> Model:
    if callable(getattr(model, "plan", None)) and callable(getattr(model, "complete", None)):
        return model
    raise InvalidOption(
        f"a model has plan() and complete(), or is a string like {TRANSPORTS['anthropic']!r}; {shown(model)} is neither",
        field="model",
        value=model,
    )
