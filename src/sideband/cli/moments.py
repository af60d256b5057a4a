"""Moments as people and programs read them."""

from datetime import UTC, datetime
from typing import Final

# The end of the year 9999: behind it there are no dates.
LATEST_MS: Final = 253_402_300_799_999


def moment(ms: int, *, timespec: str = "milliseconds") -> str:
    """Milliseconds since the epoch in RFC 3339."""
    found = datetime.fromtimestamp(max(0, min(ms, LATEST_MS)) / 1_000, UTC)
    return found.isoformat(timespec=timespec).replace("+00:00", "Z")
