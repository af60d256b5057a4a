"""Builders of valid objects; a test sets only the fields it is about."""

from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from sideband.core.reminder import Draft, Reminder, ReminderId


def a_reminder(reminder_id: str = "r1", **fields: object) -> Reminder:
    """A reminder with the required fields and `fields`."""
    return msgspec.structs.replace(Reminder(id=ReminderId(reminder_id), body="The build is red."), **fields)


def a_draft(**fields: object) -> Draft:
    """A draft with the required fields and `fields`."""
    return msgspec.structs.replace(Draft(body="The build is red."), **fields)


def a_text(text: str = "Stop at the next test.") -> list[dict[str, Any]]:
    """The content of a user message that is one piece of text."""
    return [{"type": "text", "text": text}]


def counting_ids(prefix: str = "id-") -> Callable[[], str]:
    """Numbered ids: `id-1`, `id-2` and so on."""
    numbers = count(1)
    return lambda: f"{prefix}{next(numbers)}"
