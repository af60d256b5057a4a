"""Reminder payloads in the spelling of each surface, and the result of parsing them."""

import pytest

from sideband.core.errors import ReminderError
from sideband.core.parse import parse
from sideband.core.reminder import Draft
from sideband.core.surfaces import RULES, Surface, spelled

IN_PROCESS = (Surface.PIPELINE, Surface.SESSION, Surface.HOOK, Surface.PROVIDER)
BRIDGES = (Surface.ACP, Surface.ACP_LEGACY, Surface.A2A, Surface.A2A_METADATA, Surface.HTTP)


def a_payload(surface: Surface, **fields: object) -> dict[str, object]:
    """A payload this surface takes, with `fields` in its spelling."""
    rules = RULES[surface]
    required: dict[str, object] = {"body": "x", "id": "r1"} if rules.wants_id else {"body": "x"}
    return required | {spelled(field, rules.case): value for field, value in fields.items()}


def parsed(surface: Surface, **fields: object) -> Draft:
    """The draft of a payload with `fields`."""
    return parse(a_payload(surface, **fields), surface)


def refusal(surface: Surface, **fields: object) -> ReminderError:
    """The error that a payload with `fields` raises."""
    with pytest.raises(ReminderError) as refused:
        parsed(surface, **fields)
    return refused.value
