"""The names of the reminder extension on MCP, and how each side declares and reads it.

A server declares `emit` at three places with the same settings, because SDKs remove different ones of them. A client
declares that it receives reminders in `experimental` or by the extension.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sideband.core.reminder import Propagate, RoleHint
from sideband.protocols.mcp.messages import EmitCapability

EXTENSION: Final = "sideband/reminders"
"""The key of the extension in `capabilities.extensions`."""
NAME: Final = "reminders"
"""The key at the top level of the capabilities, in `experimental`, and in the filter of `subscriptions/listen`."""
VERSION: Final = 1

NOTIFICATION: Final = "notifications/reminder"
LISTEN: Final = "reminders/listen"

CHANNEL: Final = "claude/channel"
"""The key of Claude Code's channels in `capabilities.experimental`."""
CHANNEL_NOTIFICATION: Final = "notifications/claude/channel"

CLIENT: Final = "client"
"""The key of the extension's settings in which a client names itself, so that a server recognises its requests."""


def emit_settings(
    *,
    propagate: Sequence[Propagate] = (Propagate.SESSION, Propagate.NONE),
    role_hints: Sequence[RoleHint] = (RoleHint.SYSTEM, RoleHint.DEVELOPER),
) -> dict[str, Any]:
    """What a server declares: that it sends reminders, and the hints that it uses."""
    declared = EmitCapability(emit=True, propagate=tuple(propagate), role_hints=tuple(role_hints), version=VERSION)
    settings: dict[str, Any] = msgspec.to_builtins(declared)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def with_emit(capabilities: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The capabilities of a server with the declaration of reminders at all three places."""
    return {
        **capabilities,
        NAME: dict(settings),
        "experimental": {**_object(capabilities, "experimental"), NAME: dict(settings)},
        "extensions": {**_object(capabilities, "extensions"), EXTENSION: dict(settings)},
    }


def declares_emit(capabilities: object) -> bool:
    """Whether a server declares that it sends reminders: as an extension, in `experimental`, at the top level, or in
    `_meta.harn`. The first of these places that is present decides.
    """
    places = (("extensions", EXTENSION), ("experimental", NAME), (NAME,), ("_meta", "harn", NAME))
    for place in places:
        settings = _member(capabilities, *place)
        if settings is not None:
            return _member(settings, "emit") is True
    return False


def declares_channel(capabilities: object) -> bool:
    """Whether a server declares that it sends channel notifications."""
    return _member(capabilities, "experimental", CHANNEL) is not None


def receive_settings(client: str) -> dict[str, Any]:
    """What a client declares as the settings of the extension; `client` is a random name of its own."""
    return {"receive": True, CLIENT: client}


def declares_receive(capabilities: object) -> bool:
    """Whether a client declares that it receives reminders."""
    settings = _member(capabilities, "extensions", EXTENSION)
    if settings is not None:
        return _member(settings, "receive") is not False
    return _member(capabilities, "experimental", NAME, "receive") is True


def client_name(capabilities: object) -> str | None:
    """The name by which a client can be recognised in all its requests; None if it declares none."""
    name = _member(capabilities, "extensions", EXTENSION, CLIENT)
    return name if isinstance(name, str) and name else None


def _object(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _member(value: object, *names: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value under these names, one inside the other; None if there is none."""
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
