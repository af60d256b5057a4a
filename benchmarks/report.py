"""What a part of the benchmark hands back, and how it is printed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

MIB: Final = 1024**2
_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured value, for programs that compare runs."""

    name: str
    value: float
    unit: str = "ns"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """`note` says what the figures are; the first column is text, the others are numbers."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def lines(self) -> Iterator[str]:
        yield self.title
        yield self.note
        yield from aligned((self.columns, *self.rows))


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is promised: at most the limit, or `at_least`; `measured=None` where it could not be measured."""

    name: str
    limit: float
    measured: float | None
    unit: str = "x"
    at_least: bool = False

    @property
    def met(self) -> bool:
        if self.measured is None:
            return False
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        return "met" if self.met else "MISSED"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the benchmark; `remarks` say what was left out and why."""

    part: str
    tables: tuple[Table, ...] = ()
    targets: tuple[Target, ...] = ()
    figures: tuple[Figure, ...] = ()
    remarks: tuple[str, ...] = ()


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """What programs get to read of a run; the figures of a `quick` one mean nothing."""

    environment: str
    quick: bool
    figures: dict[str, tuple[Figure, ...]]
    targets: tuple[Target, ...]


def target_lines(targets: Sequence[Target]) -> Iterator[str]:
    yield "Targets"
    yield from aligned((("target", "limit", "measured", ""), *map(_target_cells, targets)))


def _target_cells(target: Target) -> tuple[str, ...]:
    written = _WRITTEN[target.unit]
    limit = f"{'>=' if target.at_least else '<='} {written(target.limit)}"
    return (target.name, limit, "-" if target.measured is None else written(target.measured), target.verdict)


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns under each other: the first to the left, the others to the right; a rule below the first row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, (first, *others) in enumerate(rows):
        cells = (first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)))
        yield "  ".join(cells).rstrip()
        if number == 0:
            yield "  ".join("-" * width for width in widths)


def duration(nanoseconds: float) -> str:
    """With a unit that leaves one to three digits before the point."""
    size, unit = next(((size, unit) for size, unit in _UNITS if nanoseconds >= size), _UNITS[-1])
    return f"{_three_digits(nanoseconds / size)} {unit}"


def times(ratio: float) -> str:
    return f"{_three_digits(ratio)}x"


def size(in_bytes: float) -> str:
    return f"{in_bytes / MIB:.1f} MiB"


def cost(ratio: float) -> str:
    """A ratio near 1, of which the small part is the point."""
    return f"{ratio:.4f}"


def error(ratio: float) -> str:
    return f"{ratio:.1e}"


def rate(per_second: float) -> str:
    return f"{per_second:,.0f}/s"


_WRITTEN: Final[Mapping[str, Callable[[float], str]]] = MappingProxyType(
    {"x": times, "ns": duration, "bytes": size, "cost": cost, "error": error, "/s": rate}
)


def _three_digits(value: float) -> str:
    return f"{value:,.2f}" if value < 9.995 else f"{value:,.1f}" if value < 99.95 else f"{value:,.0f}"
