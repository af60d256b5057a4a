"""What a session may be called. Every store holds the same names: a program may change its store."""

from typing import Final

from sideband.core.errors import shown
from sideband.core.failures import NotStorable

# What an index of PostgreSQL can hold ends a little behind this.
LONGEST_NAME: Final = 2_000


def check_name(session_id: object) -> None:
    """Refuse a name that no store can hold, before others are held up by it."""
    if not isinstance(session_id, str):
        raise NotStorable(f"a session id is a text, and {shown(session_id)} is none")
    try:
        size = len(session_id.encode())
    except UnicodeEncodeError as error:
        raise NotStorable(f"a session id has to be text that can be encoded: {error}") from error
    if "\x00" in session_id or size > LONGEST_NAME:
        raise NotStorable(f"a session id has at most {LONGEST_NAME} bytes and no NUL; {shown(session_id)} does not fit")
