#!/usr/bin/env python3
"""Fail if the coverage of a package, lines and branches together, is below its floor.

Reads the JSON report of coverage:

    python tools/coverage_floor.py build/coverage.json
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Final

import msgspec

PURE_FLOORS: Final[Mapping[str, int]] = MappingProxyType(
    {"sideband.core": 100, "sideband.recall": 100, "sideband.render": 100, "sideband.providers": 100}
)
FLOOR_ELSEWHERE: Final = 90


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of one file. The branch counts have no default: a report without them is refused."""

    covered_lines: int
    num_statements: int
    covered_branches: int
    num_branches: int


class MeasuredFile(msgspec.Struct, frozen=True, kw_only=True):
    summary: Summary
    missing_lines: tuple[int, ...]
    missing_branches: tuple[tuple[int, int], ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of coverage's report that are needed; `files` is keyed by path."""

    files: dict[str, MeasuredFile]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of a package, and its floor."""

    package: str
    floor: int
    covered: int
    total: int
    gaps: tuple[str, ...]

    @property
    def reached(self) -> bool:
        return self.covered * 100 >= self.floor * self.total

    @property
    def percent(self) -> str:
        """Rounded down, so that 100.00 means complete coverage."""
        hundredths = self.covered * 10_000 // self.total if self.total else 10_000
        return f"{hundredths // 100}.{hundredths % 100:02}"


def package_of(path: str) -> str:
    """The package or module directly below `sideband` that a file belongs to; `sideband` for its own `__init__`."""
    below = PurePath(path).with_suffix("").parts
    below = below[below.index("sideband") + 1 :]
    return "sideband" if below == ("__init__",) else f"sideband.{below[0]}"


def ranges(lines: Iterable[int]) -> Iterator[str]:
    """Join consecutive line numbers into ranges: 3, 4, 5, 9 become `3-5` and `9`."""
    for _, run in groupby(enumerate(lines), lambda pair: pair[1] - pair[0]):
        numbers = [line for _, line in run]
        yield str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def gap(path: str, measured: MeasuredFile) -> str:
    """The uncovered lines and branches of a file. Coverage gives a branch that leaves the function a negative line."""
    jumps = [f"{start}->{end if end > 0 else 'exit'}" for start, end in measured.missing_branches]
    parts = []
    if measured.missing_lines:
        parts.append(f"lines {', '.join(ranges(measured.missing_lines))}")
    if jumps:
        parts.append(f"branches {', '.join(jumps)}")
    return f"{path}: {'; '.join(parts)}"


def standings(report: Report) -> tuple[Standing, ...]:
    """The standing of every package of the report, by name."""
    packages: dict[str, dict[str, MeasuredFile]] = {}
    for path, measured in sorted(report.files.items()):
        packages.setdefault(package_of(path), {})[path] = measured
    return tuple(
        Standing(
            package=package,
            floor=PURE_FLOORS.get(package, FLOOR_ELSEWHERE),
            covered=sum(file.summary.covered_lines + file.summary.covered_branches for file in files.values()),
            total=sum(file.summary.num_statements + file.summary.num_branches for file in files.values()),
            gaps=tuple(gap(path, file) for path, file in files.items() if file.missing_lines or file.missing_branches),
        )
        for package, files in sorted(packages.items())
    )


def complaints(found: Sequence[Standing]) -> Iterator[str]:
    """The reasons why the check fails, one line each."""
    for package in sorted(PURE_FLOORS.keys() - {standing.package for standing in found}):
        yield f"{package} has a floor of {PURE_FLOORS[package]} % and is not in the report"
    for standing in found:
        if not standing.reached:
            yield f"{standing.package} is covered to {standing.percent} %, its floor is {standing.floor} %"
            yield from (f"  {gap}" for gap in standing.gaps)


def main(arguments: Sequence[str]) -> int:
    """Return 0 if every floor is reached, 1 if one is not, and 2 if the report cannot be read."""
    if len(arguments) != 1:
        sys.stderr.write("usage: coverage_floor.py REPORT.json\n")
        return 2
    try:
        report = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Report)
    except (OSError, msgspec.DecodeError) as error:
        sys.stderr.write(f"error: no report with branch coverage in {arguments[0]}: {error}\n")
        return 2
    found = standings(report)
    failed = list(complaints(found))
    for line in failed:
        sys.stdout.write(f"{line}\n")
    if not failed:
        sys.stdout.write(f"coverage: all {len(found)} packages reach their floors\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
