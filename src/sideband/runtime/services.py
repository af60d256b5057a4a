"""The model that a string names, with what it takes to reach it. Loaded when one is asked for, and not before."""

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from sideband.core.errors import InvalidOption, shown
from sideband.models.keys import check_key
from sideband.models.scripted import ScriptedModel
from sideband.ports import Model, ModelError
from sideband.render.profile import Wire
from sideband.runtime.profiles import BUNDLED, load_profiles

URL_VARIABLE: Final = "OPENAI_COMPATIBLE_URL"
KEY_VARIABLE: Final = "OPENAI_COMPATIBLE_KEY"
WEIGHTS: Final = ".gguf"

# The module below `sideband.models` and the class in it that speak a wire.
_SPEAKERS: Final[Mapping[Wire, tuple[str, str]]] = MappingProxyType(
    {
        Wire.ANTHROPIC: ("anthropic", "AnthropicModel"),
        Wire.OPENAI_RESPONSES: ("openai", "ResponsesModel"),
        Wire.OPENAI_CHAT: ("openai", "ChatModel"),
        Wire.GENERIC: ("openai", "ChatModel"),
        Wire.GEMINI: ("gemini", "GeminiModel"),
    }
)


def named_model(transport: str, name: str) -> Model:
    """The model of this name, on a transport that there is."""
    match transport:
        case "scripted":
            return ScriptedModel(the_end=name or "Done.")
        case "local":
            return _local(name)
    profile = load_profiles().of(f"{transport}:{name}")
    options = _compatible() if transport == "openai-compatible" else {}
    speaker: Model = _speaker(profile.wire)(profile, model=name, **options)
    return speaker


def _local(name: str) -> Model:
    if name not in ("", BUNDLED) and not name.endswith(WEIGHTS):
        raise InvalidOption(
            f"{shown(name)} is no local model; write 'local:', or 'local:FILE{WEIGHTS}'", field="model", value=name
        )
    weights = Path(name).expanduser() if name.endswith(WEIGHTS) else None
    if weights is not None and not weights.is_file():
        raise InvalidOption(f"there is no file {str(weights)!r} with the weights of a model", field="model", value=name)
    known_as = BUNDLED if weights is None else weights.stem.lower()
    local: Model = _loaded("local").LocalModel(load_profiles().of(f"local:{known_as}"), model=known_as, weights=weights)
    return local


def _compatible() -> dict[str, Any]:
    url = os.environ.get(URL_VARIABLE)
    if not url:
        raise ModelError(f"an OpenAI-compatible server needs an address: set the environment variable {URL_VARIABLE}")
    # An address may hold a password, which is nobody's business who reads a message.
    service = f"the server at {_host(url)}"
    key = os.environ.get(KEY_VARIABLE) or "none"
    check_key(service, key, KEY_VARIABLE)
    return {"base_url": url, "api_key": key, "service": service}


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = None
    if not is_address:
        raise ModelError(f"{URL_VARIABLE} is no address of a server: set it to one like http://127.0.0.1:8080/v1")
    return parts.netloc.rpartition("@")[2]


def _speaker(wire: Wire) -> Any:  # noqa: ANN401 - one of the model classes, none of which may be loaded here
    module, name = _SPEAKERS[wire]
    return getattr(_loaded(module), name)


def _loaded(module: str) -> Any:  # noqa: ANN401 - the same
    try:
        return import_module(f"sideband.models.{module}")
    except ModuleNotFoundError as error:
        raise ModelError(
            f"{error.name} is not installed, and this model needs it: pip install 'sideband[models]'"
        ) from error
    except ImportError as error:
        # It is there, but of another version.
        raise ModelError(f"this model needs another version: pip install -U 'sideband[models]' ({error})") from error
