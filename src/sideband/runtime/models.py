"""Models by name, such as `anthropic:NAME`. The SDK of a model is imported when the model is made."""

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from sideband.core.errors import InvalidOption, shown
from sideband.ports import Model, ModelError
from sideband.render.profiles import Placement, PlacementWord, Wire, read_placement

# Every transport, and the form of its model strings.
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

# Transports whose model string needs no name.
_NAMELESS: Final = frozenset({"local", "scripted"})

# The settings of transports that do not have all of them.
_SETTINGS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {"local": frozenset({"placement"}), "scripted": frozenset()}
)


def read_model(
    model: str | Model,
    *,
    placement: PlacementWord | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> Model:
    """The given model, or the model that a string names, such as `anthropic:NAME`; `TRANSPORTS` lists the forms.

    `placement`, `base_url` and `api_key` are for a model that a string names; a model object has its own.

    `scripted:TEXT` answers TEXT to everything. `local:` is a small model on this machine, and `local:FILE` a model with
    the weights in that file. For more control, construct the model yourself.
    """
    settings = {"placement": read_placement(placement), "base_url": base_url, "api_key": api_key}
    given = {name: value for name, value in settings.items() if value is not None}
    for name in ("base_url", "api_key"):
        if not isinstance(text := given.get(name, ""), str):
            # The value is not shown, because it may be a key.
            raise InvalidOption(f"{name} must be a text, not a value of the type {type(text).__name__}", field=name)
    if not isinstance(model, str):
        if given:
            raise InvalidOption(
                f"{', '.join(given)} can only be given with the name of a model; pass it to the model object instead",
                field=next(iter(given)),
            )
        return _checked(model)
    transport, _, name = model.partition(":")
    if transport not in TRANSPORTS:
        raise InvalidOption(
            f"{shown(model)} does not name a model; pass a model object, or one of "
            f"{', '.join(map(repr, TRANSPORTS.values()))}",
            field="model",
            value=model,
        )
    if not name and transport not in _NAMELESS:
        raise InvalidOption(
            f"{shown(model)} has no name after the colon; write {TRANSPORTS[transport]!r}", field="model", value=model
        )

    return named_model(transport, name, **given)


def _checked(model: Model) -> Model:
    if callable(getattr(model, "plan", None)) and callable(getattr(model, "complete", None)):
        return model
    raise InvalidOption(
        f"model must be a string like {TRANSPORTS['anthropic']!r} or have plan() and complete(), not {shown(model)}",
        field="model",
        value=model,
    )


URL_VARIABLE: Final = "OPENAI_COMPATIBLE_URL"

KEY_VARIABLE: Final = "OPENAI_COMPATIBLE_KEY"

WEIGHTS: Final = ".gguf"

# The module in `sideband.models`, and its class, for each wire.
_CLASSES: Final[Mapping[Wire, tuple[str, str]]] = MappingProxyType(
    {
        Wire.ANTHROPIC: ("anthropic", "AnthropicModel"),
        Wire.OPENAI_RESPONSES: ("openai", "ResponsesModel"),
        Wire.OPENAI_CHAT: ("openai", "ChatModel"),
        Wire.GENERIC: ("openai", "ChatModel"),
        Wire.GEMINI: ("gemini", "GeminiModel"),
    }
)


def named_model(transport: str, name: str, **given: Any) -> Model:  # noqa: ANN401 - checked by `read_model`
    """The model with this name, on one of `TRANSPORTS`; `given` are settings of its constructor."""
    for setting in given.keys() - _SETTINGS.get(transport, given.keys()):
        raise InvalidOption(f"a {transport} model has no {setting}; leave it out", field=setting)
    match transport:
        case "scripted":
            from sideband.models.scripted import ScriptedModel  # noqa: PLC0415 - imported when it is needed

            return ScriptedModel(the_end=name or "Done.")
        case "local":
            return _local(name, **given)
    from sideband.runtime.profiles import load_profiles  # noqa: PLC0415 - imported when it is needed

    profile = load_profiles().of(f"{transport}:{name}")
    if transport == "openai-compatible":
        given |= _compatible(given.get("base_url"), given.get("api_key"))
    model: Model = _model_class(profile.wire)(profile, model=name, **given)
    return model


def _local(name: str, **given: Placement) -> Model:
    from sideband.runtime.profiles import BUNDLED, load_profiles  # noqa: PLC0415 - imported when it is needed

    if name not in ("", BUNDLED) and not name.endswith(WEIGHTS):
        raise InvalidOption(
            f"there is no local model {shown(name)}; write 'local:' or 'local:FILE{WEIGHTS}'", field="model", value=name
        )
    weights = Path(name).expanduser() if name.endswith(WEIGHTS) else None
    if weights is not None and not weights.is_file():
        raise InvalidOption(
            f"the file with the weights of the model, {str(weights)!r}, does not exist", field="model", value=name
        )
    known_as = BUNDLED if weights is None else weights.stem.lower()
    local: Model = _imported("local").LocalModel(
        load_profiles().of(f"local:{known_as}"), model=known_as, weights=weights, **given
    )
    return local


def _compatible(base_url: str | None, api_key: str | None) -> dict[str, Any]:
    url = base_url or os.environ.get(URL_VARIABLE)
    if not url:
        raise ModelError(
            "the address of the OpenAI-compatible server is not set: pass base_url, or set the environment variable "
            f"{URL_VARIABLE}"
        )
    # The host alone, because the address may contain a password and this name appears in messages.
    service = f"the server at {_host(url)}"
    key = api_key or os.environ.get(KEY_VARIABLE) or "none"
    from sideband.models.client import check_key  # noqa: PLC0415 - imported when it is needed

    check_key(service, key, None if api_key else KEY_VARIABLE)
    return {"base_url": url, "api_key": key, "service": service}


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = None
    if not is_address:
        raise ModelError(
            f"base_url or {URL_VARIABLE} is not the address of a server: set it to one like http://127.0.0.1:8080/v1"
        )
    return parts.netloc.rpartition("@")[2]


def _model_class(wire: Wire) -> Any:  # noqa: ANN401 - a model class, not imported here because its SDK is slow to import
    module, name = _CLASSES[wire]
    return getattr(_imported(module), name)


def _imported(module: str) -> Any:  # noqa: ANN401 - the same
    try:
        return import_module(f"sideband.models.{module}")
    except ModuleNotFoundError as error:
        raise ModelError(
            f"{error.name} is not installed, and this model needs it: pip install 'sideband[models]'"
        ) from error
    except ImportError as error:
        # The package is installed, in a version that lacks what is imported.
        raise ModelError(
            f"this model needs another version of its package: pip install -U 'sideband[models]' ({error})"
        ) from error
