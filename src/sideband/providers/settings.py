"""Reading a provider's own settings: null is absent, a name may have an alias, and a wrong type is an error."""

from collections.abc import Mapping
from typing import Final, TypeGuard

from sideband.core.errors import InvalidOption, shown

# Beyond it a number counts nothing real, and arithmetic with it may fail.
_LARGEST: Final = 2**63


def find_number(config: Mapping[str, object], *names: str) -> float | None:
    """The first of the names that is present."""
    for name in names:
        value = config.get(name)
        if value is not None:
            if not is_number(value):
                raise InvalidOption(f"{name} must be a number, not {shown(value)}", field=name, value=value)
            return value
    return None


def read_number(config: Mapping[str, object], *names: str, default: float) -> float:
    """The same, or the default where none is present."""
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
    """A bool is none, nor is what cannot be reckoned with."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST < value < _LARGEST


def is_count(value: object) -> TypeGuard[int]:
    """A whole number that is not negative."""
    return isinstance(value, int) and is_number(value) and value >= 0
