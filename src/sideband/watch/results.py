"""The results of a test suite: which file each test is in, and what has changed since the run before."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from sideband.watch.junit import ReportedCase

# What a file that could not be imported is listed as, instead of its tests.
COLLECTION: Final = "collection"


class CaseId(NamedTuple):
    """A test: its file, or its class if the file is not known, and its name in it."""

    file: str
    name: str


# The first line of the failure of each test; None for a test that did not fail.
Results: TypeAlias = Mapping[CaseId, str | None]


class FileDelta(NamedTuple):
    """Which tests of one file have started to fail, with the first line of each failure, and which have stopped."""

    file: str
    failing: Mapping[str, str]
    passing: Sequence[str]


def results_of(cases: Iterable[ReportedCase], folder: Path) -> Results:
    """The results by test; a test that is reported more than once fails if one of its reports does."""
    identify = _identifier(folder)
    results: dict[CaseId, str | None] = {}
    for case in cases:
        identity = identify(case)
        if results.get(identity) is None:
            results[identity] = case.failure
    return results


def _identifier(folder: Path) -> Callable[[ReportedCase], CaseId]:
    files: dict[str, tuple[str, str] | None] = {}

    def located(dotted: str) -> tuple[str, str] | None:
        """The file of a dotted name like `tests.test_api.TestLogin`, and what of the name is within the file."""
        if dotted not in files:
            parts = dotted.split(".")
            found = (("/".join(parts[:count]) + ".py", ".".join(parts[count:])) for count in range(len(parts), 0, -1))
            # `Path.is_file` raises an error for a name that is too long.
            exists = os.path.isfile
            files[dotted] = next((place for place in found if exists(folder / place[0])), None)
        return files[dotted]

    def identify(case: ReportedCase) -> CaseId:
        place = located(case.classname or case.name)
        if not case.classname and place is not None and not place[1]:
            return CaseId(place[0], COLLECTION)
        if case.file:
            file = Path(case.file)
            named = file.relative_to(folder) if file.is_relative_to(folder) else file
            within = place[1] if place is not None else ""
            return CaseId(named.as_posix(), f"{within}.{case.name}" if within else case.name)
        if place is None:
            return CaseId(case.classname or case.name, case.name)
        return CaseId(place[0], f"{place[1]}.{case.name}" if place[1] else case.name)

    return identify


def deltas(known: dict[CaseId, bool], results: Results) -> list[FileDelta]:
    """What has changed for each file, by name; `known` says which tests failed before, and is updated.

    A test that did not run keeps its state. A test that is not known did not fail.
    """
    files = {identity.file for identity in results}
    collected = {CaseId(file, COLLECTION): None for file in files if known.get(CaseId(file, COLLECTION))}
    failing: dict[str, dict[str, str]] = {}
    passing: dict[str, list[str]] = {}
    for identity, failure in {**collected, **results}.items():
        failed_before = known.get(identity, False)
        known[identity] = failure is not None
        if failure is not None and not failed_before:
            failing.setdefault(identity.file, {})[identity.name] = failure
        elif failure is None and failed_before:
            passing.setdefault(identity.file, []).append(identity.name)
    changed = sorted(failing.keys() | passing.keys())
    return [FileDelta(file, failing.get(file, {}), passing.get(file, [])) for file in changed]
