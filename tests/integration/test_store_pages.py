"""The pages on stores and reliability match the code: limits, defaults, errors, commands and paths."""

import re
from typing import Final

import pytest

from sideband.cli.app import app
from sideband.core import errors
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.trust import Trust
from sideband.render.budget import MOST_TOKENS, WINDOW_SHARE
from sideband.store.postgres import PostgresSettings
from sideband.store.sqlite import SqliteSettings
from tests.programs import ROOT

STORES: Final = (ROOT / "docs" / "stores.md").read_text(encoding="utf-8")
RELIABILITY: Final = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
COMMAND: Final = re.compile(r"^\.venv/bin/sideband (.*?)(?:\s+#.*)?$", re.MULTILINE)


def row(name: str) -> str:
    """The default of a limit as the page has it."""
    (found,) = [line for line in STORES.splitlines() if line.startswith(f"| `{name}`")]
    return found.split(" | ")[1]


def test_every_limit_in_force_is_on_the_page_and_no_other() -> None:
    table = STORES.partition("| limit | default |")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}
    # How far reminders travel is told on the page about sub-agents.
    assert named == {*DEFAULT_LIMITS.__struct_fields__} - {"hops"}


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("body_bytes", [DEFAULT_LIMITS.body_bytes[Trust.CONTROLLER], DEFAULT_LIMITS.body_bytes[Trust.PEER]]),
        ("tags", [DEFAULT_LIMITS.tags, DEFAULT_LIMITS.tag_bytes, DEFAULT_LIMITS.dedupe_key_bytes]),
        ("meta_bytes", [DEFAULT_LIMITS.meta_bytes, DEFAULT_LIMITS.meta_depth]),
        ("pending_per_session", [DEFAULT_LIMITS.pending_per_session]),
        ("pending_per_source", [*DEFAULT_LIMITS.pending_per_source.values()]),
        ("reserved_for_interrupts", [DEFAULT_LIMITS.reserved_for_interrupts]),
        ("frame_bytes", [DEFAULT_LIMITS.frame_bytes]),
        ("content_bytes", [DEFAULT_LIMITS.content_bytes]),
        ("facts", [DEFAULT_LIMITS.facts]),
        ("subscriber_events", [DEFAULT_LIMITS.subscriber_events]),
    ],
)
def test_the_defaults_on_the_page_are_those_in_force(name: str, numbers: list[int]) -> None:
    assert [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?!\w)", row(name))] == numbers


def test_the_rates_on_the_page_are_those_in_force() -> None:
    controller, peer = (DEFAULT_LIMITS.accept_rate[level] for level in (Trust.CONTROLLER, Trust.PEER))
    assert DEFAULT_LIMITS.accept_rate[Trust.SERVER] == peer
    assert row("accept_rate") == (
        f"{controller.per_second:g} per second in bursts of {controller.burst} for a controller, "
        f"{peer.per_second * 60:g} per minute in bursts of {peer.burst} for peers and servers"
    )


def test_what_reminders_may_take_of_a_request_is_on_the_page() -> None:
    assert f"{MOST_TOKENS:,} tokens, or {100 // WINDOW_SHARE} % of the model's window" in STORES


def test_what_is_kept_is_what_the_settings_say() -> None:
    for settings in (SqliteSettings(), PostgresSettings()):
        assert f"After {settings.snapshot_events:,} events a session gets a snapshot" in STORES
        assert f"keeps the last {settings.kept_events:,} events" in STORES
        assert f"lapses after {settings.lease_seconds:g} s" in STORES
    assert (
        f"every {SqliteSettings().poll_seconds * 1_000:g} ms, or every {PostgresSettings().poll_seconds:g} s" in STORES
    )


def test_every_error_on_the_page_is_one() -> None:
    table = STORES.partition("| error | what it means |")[2]
    named = [name for line in table.splitlines()[2:] for name in re.findall(r"^\| `(\w+)`(?:, `(\w+)`)?", line)]
    assert len(named) > 5
    for name in (part for pair in named for part in pair if part):
        assert issubclass(getattr(errors, name), errors.StoreError)


@pytest.mark.parametrize("command", [*COMMAND.findall(STORES)])
def test_every_command_on_the_page_can_be_given(command: str) -> None:
    function, _, _ = app.parse_args(command.split(), exit_on_error=False, print_error=False)
    assert function.__name__ == command.split(maxsplit=1)[0]


def test_the_promises_are_sixteen_in_their_order() -> None:
    numbers = [int(found) for found in re.findall(r"^\| (\d+) \|", RELIABILITY, re.MULTILINE)]
    assert numbers == list(range(1, 17))


def test_every_place_that_the_page_on_reliability_names_is_there() -> None:
    named = {*re.findall(r"`?(tests/[\w/]+)`?", RELIABILITY)}
    assert len(named) > 5
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
