"""What is said of a fault that was found: how to look for it again, and how much was tried."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import pytest

Tried: TypeAlias = Callable[[str, int], None]
"""Notes how many of what were tried."""
_TRIED: Final = "tried: "


@contextmanager
def replayable(layer: str, place: str, seed: int) -> Iterator[None]:
    """Whatever is found inside says by which command it can be looked for again."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"play it again: python -m tests.faults.again {layer} {place} {seed}")
        raise


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Tried:
    """For tests that try something very often; the end of the run says how often that was in all."""

    def note(what: str, count: int) -> None:
        request.node.user_properties.append((f"{_TRIED}{what}", count))

    return note


def pytest_terminal_summary(terminalreporter: Any) -> None:  # noqa: ANN401 - pytest does not export its type
    """How much was tried in all, also where several processes have shared the work."""
    counts: Counter[str] = Counter()
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if getattr(report, "when", None) == "call":
            counts.update({name: count for name, count in report.user_properties if name.startswith(_TRIED)})
    for name, count in sorted(counts.items()):
        terminalreporter.write_line(f"{name} {count:,}")
