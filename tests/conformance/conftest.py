"""Ties conformance tests to the manifest: a wrong id fails its test, and a failing test shows the rule it broke."""

from collections.abc import Generator

import pytest

from tests.conformance.requirements import BY_ID
from tests.unit.store.conftest import durable, no_server_stays, postgres, sqlite, twin

__all__ = ["durable", "no_server_stays", "postgres", "sqlite", "twin"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for identifier in _marked(item):
        rule = BY_ID.get(identifier)
        if rule is None:
            pytest.fail(f"{identifier} is not in the requirements manifest", pytrace=False)
        if rule.deferred is not None:
            pytest.fail(f"{identifier} waits for {rule.deferred}; take it out of WAITING first", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    broken = [BY_ID[identifier] for identifier in _marked(item) if identifier in BY_ID]
    if report.failed and broken:
        report.sections.append(("Requirements", "\n".join(f"{rule.id}: {rule.text}" for rule in broken)))
    return report


def _marked(item: pytest.Item) -> list[str]:
    return [identifier for marker in item.iter_markers("requirement") for identifier in marker.args]
