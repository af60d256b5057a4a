"""The table of surfaces is total, and names are spelled one way in each case."""

import pytest

from sideband.core.reminder import Reminder
from sideband.core.surfaces import CLAIMS, LIFECYCLE, RULES, Case, Surface, spelled


def test_every_surface_has_its_rules() -> None:
    assert RULES.keys() == set(Surface)


@pytest.mark.parametrize("surface", Surface)
def test_every_surface_takes_the_lifecycle_and_nothing_a_record_or_a_request_does_not_have(surface: Surface) -> None:
    fields = RULES[surface].fields
    assert set(LIFECYCLE) <= set(fields) <= {*Reminder.__struct_fields__, "mode", "_meta"}
    assert len(fields) == len(set(fields))


def test_what_is_asked_for_and_what_is_claimed_are_the_record_without_its_id() -> None:
    assert {*LIFECYCLE, *CLAIMS, "id"} == set(Reminder.__struct_fields__)


@pytest.mark.parametrize(
    ("field", "camel"),
    [
        ("body", "body"),
        ("dedupe_key", "dedupeKey"),
        ("preserve_on_compact", "preserveOnCompact"),
        ("originating_agent_id", "originatingAgentId"),
        ("_meta", "_meta"),
    ],
)
def test_a_field_is_spelled_in_the_case_of_its_surface(field: str, camel: str) -> None:
    assert (spelled(field, Case.SNAKE), spelled(field, Case.CAMEL)) == (field, camel)
