"""The `reminders` option of a loop: which providers it wants, and how they are set."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sideband.core.errors import InvalidOption, ReminderError, UnknownOption, shown

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class ReminderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`switches` turn providers on (`id`) and off (`-id`), from left to right; `config` is by provider id."""

    enabled: bool = True
    switches: tuple[str, ...] = ()
    config: Mapping[str, Mapping[str, Any]] = NOTHING


_KEYS: Final = ("enabled", "providers", "config")


def read_options(options: Mapping[str, Any]) -> ReminderOptions:
    """What `options["reminders"]` asks for; absent, None and True are the defaults."""
    given = options.get("reminders")
    if given is None or isinstance(given, bool):
        return ReminderOptions(enabled=given is not False)
    if not isinstance(given, Mapping):
        raise _invalid("reminders", given, "True, False or a mapping")
    for key in given:
        if key not in _KEYS:
            raise UnknownOption(
                f"reminders has no option {shown(key)}; known are {', '.join(_KEYS)}", field="reminders", value=key
            )
    return ReminderOptions(
        enabled=_enabled(given.get("enabled")),
        switches=_switches(given.get("providers")),
        config=_config(given.get("config")),
    )


def config_for(options: Mapping[str, Any], provider_id: str) -> dict[str, Any]:
    """The settings of one provider; without any, an empty mapping."""
    return dict(read_options(options).config.get(provider_id, NOTHING))


def _enabled(value: object) -> bool:
    if value is not None and not isinstance(value, bool):
        raise _invalid("reminders.enabled", value, "true or false")
    return value is not False


def _switches(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise _invalid("reminders.providers", value, "a list of provider ids")
    return tuple(_switch(entry) for entry in value)


def _switch(entry: object) -> str:
    switch = entry.strip() if isinstance(entry, str) else ""
    if not switch.removeprefix("-"):
        raise _invalid("reminders.providers", entry, "provider ids, each with a minus sign in front or without")
    return switch


def _config(value: object) -> Mapping[str, Mapping[str, Any]]:
    if value is None:
        return NOTHING
    if not isinstance(value, Mapping):
        raise _invalid("reminders.config", value, "a mapping from provider ids to their settings")
    for provider_id, settings in value.items():
        if not (settings is None or isinstance(settings, Mapping)):
            raise _invalid(f"reminders.config.{_name(provider_id)}", settings, "a mapping")
    return {provider_id: settings for provider_id, settings in value.items() if settings is not None}


def _name(provider_id: object) -> str:
    return provider_id if isinstance(provider_id, str) and provider_id.isidentifier() else shown(provider_id)


def _invalid(field: str, value: object, wanted: str) -> ReminderError:
    return InvalidOption(f"{field} must be {wanted}, not {shown(value)}", field=field, value=value)
