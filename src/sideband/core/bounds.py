"""What a configured number has to be, and how that is said."""

import sys
from typing import Final, NamedTuple

from sideband.core.errors import InvalidOption, shown

_LARGEST: Final = sys.float_info.max


class Bound(NamedTuple):
    """A whole number or any, at least or above something, None where that is allowed."""

    least: int
    whole: bool = True
    above: bool = False
    optional: bool = False

    def check(self, name: str, value: object, *, field: str | None = None) -> None:
        """Refuse a value that is out of it; `field` is what the option is called where `name` says more."""
        if not self.admits(value):
            raise InvalidOption(f"{name} must be {self}, not {shown(value)}", field=field or name, value=value)

    def admits(self, value: object) -> bool:
        if value is None:
            return self.optional
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        # Whole ones are only counted to; any other is reckoned with, and has to be one that this can be done with.
        if not self.whole and not abs(value) <= _LARGEST:
            return False
        return value > self.least if self.above else value >= self.least

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        bound = f"above {self.least}" if self.above else f"of at least {self.least}"
        return f"{kind} {bound}{' or None' if self.optional else ''}"
