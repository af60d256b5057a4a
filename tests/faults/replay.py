"""Reporting: the command that runs a found fault again, and how much was tried."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import pytest

Tried: TypeAlias = Callable[[str, int], None]
"""Records how many of something were tried."""
_TRIED: Final = "tried: "


@contextmanager
def replayable(layer: str, place: str, seed: int) -> Iterator[None]:
    """Add to a failure the command that runs it again."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"play it again: python -m tests.faults.again {layer} {place} {seed}")
        raise


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Tried:
    """For tests that count what they try; the end of the run reports the totals."""

    def note(what: str, count: int) -> None:
        request.node.user_properties.append((f"{_TRIED}{what}", count))

    return note


def pytest_terminal_summary(terminalreporter: Any) -> None:  # noqa: ANN401 - pytest does not export its type
    """Report the totals of all test processes."""
    counts: Counter[str] = Counter()
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if getattr(report, "when", None) == "call":
            counts.update({name: count for name, count in report.user_properties if name.startswith(_TRIED)})
    for name, count in sorted(counts.items()):
        terminalreporter.write_line(f"{name} {count:,}")
