"""The `reminders` option of a loop, which chooses providers, and the settings of each provider in it."""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeGuard

import msgspec

from sideband.core.errors import InvalidOption, ReminderError, UnknownOption, shown, suggestion

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class ProviderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`switches` turn providers on (`id`) and off (`-id`), from left to right; `config` has settings by provider id."""

    enabled: bool = True
    switches: tuple[str, ...] = ()
    config: Mapping[str, Mapping[str, Any]] = NOTHING


_KEYS: Final = ("enabled", "providers", "config")


def read_options(options: Mapping[str, Any]) -> ProviderOptions:
    """Parse `options["reminders"]`; absent, None and True mean the defaults."""
    given = options.get("reminders")
    if given is None or isinstance(given, bool):
        return ProviderOptions(enabled=given is not False)
    if not isinstance(given, Mapping):
        raise _invalid("reminders", given, "True, False or a mapping")
    for key in given:
        if key not in _KEYS:
            raise UnknownOption(
                f"reminders has no option {shown(key)}; {suggestion(key, _KEYS, kind='options')}",
                field="reminders",
                value=key,
            )
    return ProviderOptions(
        enabled=_enabled(given.get("enabled")),
        switches=_switches(given.get("providers")),
        config=_config(given.get("config")),
    )


def config_for(options: Mapping[str, Any], provider_id: str) -> dict[str, Any]:
    """The settings of one provider; empty if it has none."""
    return dict(read_options(options).config.get(provider_id, NOTHING))


# What a loop checks when it starts.


class Setting(NamedTuple):
    """A setting of a provider: the values that it `admits`, and how an error describes them."""

    wanted: str
    admits: Callable[[object], bool]


def check_ids(options: ProviderOptions, known: Collection[str]) -> None:
    """Refuse a provider that does not exist, in `providers` or in `config`."""
    for switch in options.switches:
        check_id(switch.removeprefix("-"), known, field="providers")
    for provider_id in options.config:
        check_id(provider_id, known, field="config")


def check_id(provider_id: object, known: Collection[str], *, field: str) -> None:
    """Refuse the id of a provider that does not exist; `field` is the option that names it."""
    if provider_id not in known:
        hint = suggestion(provider_id, known, kind="providers")
        raise UnknownOption(
            f"reminders.{field} names {shown(provider_id)}, but no provider has this id; "
            f"{hint if hint.endswith('?') else f'{hint}.'} Register a provider of your own before the loop starts",
            field=f"reminders.{field}",
            value=provider_id,
        )


def check_settings(provider_id: str, config: Mapping[Any, object], settings: Mapping[str, Setting]) -> None:
    """Refuse an unknown setting of a provider, or one with a wrong value; null counts as absent."""
    for key, value in config.items():
        field = f"reminders.config.{provider_id}"
        setting = settings.get(key)
        if setting is None:
            raise UnknownOption(
                f"{field} has no setting {shown(key)}; {suggestion(key, settings, kind='settings')}",
                field=field,
                value=key,
            )
        if value is not None and not setting.admits(value):
            raise _invalid(f"{field}.{key}", value, setting.wanted)


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
        raise _invalid("reminders.providers", entry, "provider ids, each with or without a leading minus sign")
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


# Larger numbers count nothing real, and arithmetic with them may fail.
_LARGEST: Final = 2**63


def find_number(config: Mapping[str, object], *names: str) -> float | None:
    """The number under the first of the names that is present; null counts as absent."""
    for name in names:
        value = config.get(name)
        if value is not None:
            if not is_number(value):
                raise InvalidOption(f"{name} must be a number, not {shown(value)}", field=name, value=value)
            return value
    return None


def read_number(config: Mapping[str, object], *names: str, default: float) -> float:
    """`find_number`, or the default if no name is present."""
    found = find_number(config, *names)
    return default if found is None else found


def read_flag(config: Mapping[str, object], name: str, *, default: bool) -> bool:
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidOption(f"{name} must be true or false, not {shown(value)}", field=name, value=value)
    return value


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether the value is a finite number of reasonable size; a bool is not a number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST


def is_count(value: object) -> TypeGuard[int]:
    """Whether the value is an integer that is not negative."""
    return isinstance(value, int) and is_number(value) and value >= 0


def is_whole(value: object) -> TypeGuard[int]:
    """Whether the value is an integer of reasonable size."""
    return isinstance(value, int) and is_number(value)


def is_flag(value: object) -> bool:
    return isinstance(value, bool)


A_NUMBER: Final = Setting("a number", is_number)
A_COUNT_FROM_ONE: Final = Setting("a whole number of at least 1", lambda value: is_count(value) and value >= 1)
A_WHOLE_NUMBER: Final = Setting("a whole number", is_whole)
A_FLAG: Final = Setting("true or false", is_flag)
