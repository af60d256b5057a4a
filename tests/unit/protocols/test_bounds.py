"""The generated schemas are the outer bound of the parser, and for MCP the one that its proposal draws."""

from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from sideband.core.errors import ReminderError
from sideband.core.parse import parse
from sideband.core.surfaces import Surface
from tests.unit.protocols.payloads import json_values, payloads
from tests.unit.protocols.schemas import SCHEMAS, validator
from tests.unit.protocols.sketch import SKETCH, TELLING, a_notification


def accepted(payload: object, surface: Surface) -> None:
    try:
        parse(payload, surface)
    except ReminderError:
        reject()


@given(payloads(Surface.ACP, may_be_null=True))
def test_what_the_parser_accepts_over_acp_fits_the_schema(payload: dict[str, Any]) -> None:
    accepted(payload, Surface.ACP)
    validator("acp/inject_reminder").validate({"sessionId": "s"} | payload)


@given(payloads(Surface.ACP_LEGACY, may_be_null=True), st.sampled_from([{}, {"sessionId": "s"}, {"sessionId": None}]))
def test_what_the_parser_accepts_in_snake_case_fits_the_schema_in_all_its_places(
    payload: dict[str, Any], session: dict[str, Any]
) -> None:
    accepted(payload, Surface.ACP_LEGACY)
    legacy = validator("acp/remind")
    legacy.validate(session | payload)
    legacy.validate(session | {"reminder": payload})
    legacy.validate(session | {"_meta": {"harn": {"reminder": payload}}})


@given(payloads(Surface.A2A, may_be_null=True))
def test_what_the_parser_accepts_over_a2a_fits_the_schema(payload: dict[str, Any]) -> None:
    accepted(payload, Surface.A2A)
    validator("a2a/inject_reminder").validate({"taskId": "t", "reminder": payload})


@given(payloads(Surface.A2A_METADATA, may_be_null=True))
def test_what_the_parser_accepts_in_metadata_fits_the_schema(payload: dict[str, Any]) -> None:
    accepted(payload, Surface.A2A_METADATA)
    validator("a2a/send_metadata").validate({"harn": {"reminder": payload}})


@given(payloads(Surface.MCP, may_be_null=False))
def test_what_the_parser_accepts_over_mcp_fits_the_schema(payload: dict[str, Any]) -> None:
    accepted(payload, Surface.MCP)
    validator("mcp/reminder").validate(a_notification(payload))


def test_null_for_an_optional_field_is_read_over_mcp_though_its_schema_knows_only_absence() -> None:
    payload = {"id": "r-1", "body": "x", "dedupeKey": None}
    assert parse(payload, Surface.MCP).dedupe_key is None
    assert not validator("mcp/reminder").is_valid(a_notification(payload))


# The MCP schema against the one that its proposal sketches.


sketched_reminders = st.fixed_dictionaries(
    {}, optional={field: st.sampled_from(values) | json_values for field, values in TELLING.items()}
)
notifications = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "1.0", 2.0]) | json_values,
        "method": st.sampled_from(["notifications/reminder", "notifications/message"]) | json_values,
        "params": st.fixed_dictionaries(
            {"reminder": st.just({"id": "r-1", "body": "x"}) | sketched_reminders | json_values},
            optional={"_meta": json_values, "other": json_values},
        )
        | json_values,
        "id": json_values,
    },
)


def decide_alike(notification: object) -> bool:
    return validator("mcp/reminder").is_valid(notification) == SKETCH.is_valid(notification)


@pytest.mark.parametrize("field", TELLING)
def test_the_schema_of_mcp_draws_every_bound_where_its_sketch_does(field: str) -> None:
    complete = {"id": "r-1", "body": "x"}
    assert [value for value in TELLING[field] if not decide_alike(a_notification(complete | {field: value}))] == []


@pytest.mark.parametrize("field", ["jsonrpc", "method", "params", "reminder", "id", "body"])
def test_the_schema_of_mcp_requires_what_its_sketch_requires(field: str) -> None:
    notification = a_notification({"id": "r-1", "body": "x"})
    for place in (notification, notification["params"], notification["params"]["reminder"]):
        place.pop(field, None)
    assert not SKETCH.is_valid(notification)
    assert decide_alike(notification)


@given(sketched_reminders.map(a_notification) | notifications)
def test_the_schema_of_mcp_decides_as_its_sketch_does(notification: object) -> None:
    assert decide_alike(notification)


def test_the_schema_of_mcp_has_the_title_of_its_sketch() -> None:
    assert SCHEMAS["mcp/reminder.schema.json"]["title"] == "ReminderNotification"
