"""The one parser of reminder payloads: every producer's payload becomes a draft here, or an error with its code."""

from sideband.core.draft import Draft
from sideband.core.fields import read_fields
from sideband.core.jsontext import read_object
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.surfaces import Surface


def parse(payload: object, surface: Surface, *, limits: Limits = DEFAULT_LIMITS) -> Draft:
    """Read `payload` by the rules of `surface`; a mistake raises the error that this surface answers with."""
    return read_fields(payload, surface, limits)


def parse_json(text: bytes | str, surface: Surface, *, limits: Limits = DEFAULT_LIMITS) -> Draft:
    """Read JSON text, in which a repeated key is also a mistake."""
    return read_fields(read_object(text, max_bytes=limits.frame_bytes), surface, limits)
