"""The one parser of reminder payloads.

A payload that is plainly in order is converted in one step. Any other goes through the reading field by field, which
alone decides what is accepted, and which can name the field, the value and the code.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import astuple

from sideband.core.draft import NO_CLAIMS, Draft
from sideband.core.fields import CALLER_ID, HOSTILE, INT64, MAX_CLAIM, read_fields
from sideband.core.jsontext import read_object
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.reminder import MAX_TTL_TURNS, Propagate, RoleHint
from sideband.core.seams import Mode
from sideband.core.surfaces import RULES, Rules, Surface, spelled


def parse(payload: object, surface: Surface, *, limits: Limits = DEFAULT_LIMITS) -> Draft:
    """What `payload` asks for, or the error that this surface answers with; nothing is changed either way."""
    return _converted(payload, _EXPRESS[surface], limits) or read_fields(payload, surface, limits)


def parse_json(text: bytes | str, surface: Surface, *, limits: Limits = DEFAULT_LIMITS) -> Draft:
    """The same for JSON text, in which moreover no key may come twice."""
    raw = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if len(raw) <= limits.frame_bytes:
        draft = _decoded(raw, _EXPRESS[surface], limits)
        if draft is not None:
            return draft
    return read_fields(read_object(raw, max_bytes=limits.frame_bytes), surface, limits)


# What follows only makes the common case fast; whatever is peculiar in any way is left to the reading by fields.

_Filled = Annotated[str, Meta(min_length=1)]
_Claim = Annotated[str, Meta(max_length=MAX_CLAIM)]
_FIELDS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "body": _Filled,
        "tags": tuple[_Filled, ...],
        "dedupe_key": _Filled,
        "ttl_turns": Annotated[int, Meta(ge=1, le=MAX_TTL_TURNS)] | float,
        "preserve_on_compact": bool,
        "propagate": Propagate,
        "role_hint": RoleHint,
        "mode": Mode,
        "id": _Filled,
        "source": _Claim,
        "fired_at_turn": Annotated[int, Meta(ge=-INT64, le=INT64 - 1)] | float,
        "originating_agent_id": _Claim,
    }
)
_SESSION: Final = Propagate.SESSION
_SYSTEM: Final = RoleHint.SYSTEM
_FINISH_STEP: Final = Mode.FINISH_STEP
_LISTS: Final = (list, tuple)
# As numbers: a number is found in bytes five times as fast as bytes are.
_BACKSLASH: Final = ord("\\")
_DELETE: Final = 0x7F
# What is hostile of the letters that take one byte each.
_CONTROLS: Final = bytes(code for code in range(128) if HOSTILE.match(chr(code)))


class _Express(msgspec.Struct, frozen=True, kw_only=True):
    """What one surface needs to convert a payload in one step."""

    shape: Any
    decode: Callable[[bytes], Any]
    wants_id: bool
    trims_body: bool


def _express(rules: Rules) -> _Express:
    # The same fields in the same order for all; what a surface does not have is one that nothing fits into.
    types = {name: type_ if name in rules.fields else UnsetType for name, type_ in _FIELDS.items()}
    shape = msgspec.defstruct(
        "Payload",
        [(name, type_) if name == "body" else (name, type_ | UnsetType, UNSET) for name, type_ in types.items()],
        rename={name: spelled(name, rules.case) for name in types},
        frozen=True,
        forbid_unknown_fields=True,
        gc=False,
    )
    return _Express(
        shape=shape,
        decode=msgspec.json.Decoder(shape).decode,
        wants_id=rules.wants_id,
        trims_body=rules.trims_body,
    )


class _ByNeed(dict[Surface, _Express]):
    """What each surface needs, from its first payload on: few programs have more than one or two of them."""

    def __missing__(self, surface: Surface) -> _Express:
        return self.setdefault(surface, _express(RULES[surface]))


_EXPRESS: Final = _ByNeed()


def _converted(payload: object, express: _Express, limits: Limits) -> Draft | None:
    # The conversion would also take a set for a list, and so an order that nobody wrote.
    if not (isinstance(payload, dict) and isinstance(payload.get("tags", ()), _LISTS)):
        return None
    try:
        values = astuple(msgspec.convert(payload, express.shape))
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None
    return _plain(values, express, limits, None) if _are_printable(values) else None


def _decoded(raw: bytes, express: _Express, limits: Limits) -> Draft | None:
    try:
        values = astuple(express.decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # Without an escape no string in JSON has a control character or a quote in it.
    if not (raw.isascii() and _BACKSLASH not in raw and _DELETE not in raw) and (
        b'\\"' in raw or b"\\\\" in raw or not _are_printable(values)
    ):
        return None
    return _plain(values, express, limits, raw.count(b'"') // 2)


def _are_printable(values: tuple[Any, ...]) -> bool:
    """Whether the body is harmless, all other text printable ASCII, and none of it of a type derived from text."""
    body, tags, key, _, _, _, _, _, caller_id, source, _, origin = values
    for text in (key, caller_id, source, origin, *(tags or ())):
        if text is not UNSET and not (type(text) is str and text.isascii() and text.isprintable()):
            return False
    if type(body) is not str:
        return False
    if body.isascii():
        # Bytes are looked through in half the time.
        return len(body.encode().translate(None, _CONTROLS)) == len(body)
    return body.isprintable() or not HOSTILE.search(body)


def _plain(values: tuple[Any, ...], express: _Express, limits: Limits, strings: int | None) -> Draft | None:
    """The draft of a printable payload without any other peculiarity, else None.

    `strings` is how many there were in its text, keys included: a key that came twice has left more of them there
    than there are in `values`.
    """
    body, tags, key, ttl, preserve, propagate, hint, mode, caller_id, source, turn, origin = values
    trimmed = body.strip()
    if (
        not trimmed
        or not (tags is UNSET or _are_plain(tags, limits))
        or not (key is UNSET or (len(key) <= limits.dedupe_key_bytes and " " not in key))
        or not (ttl is UNSET or type(ttl) is int)
        or not (turn is UNSET or type(turn) is int)
        or (express.wants_id if caller_id is UNSET else not CALLER_ID.fullmatch(caller_id))
    ):
        return None
    if strings is not None and strings != _strings_in(values):
        return None
    return Draft(
        body=trimmed if express.trims_body else body,
        tags=() if tags is UNSET else tags,
        dedupe_key=None if key is UNSET else key,
        ttl_turns=None if ttl is UNSET else ttl,
        preserve_on_compact=preserve is True,
        propagate=_SESSION if propagate is UNSET else propagate,
        role_hint=_SYSTEM if hint is UNSET else hint,
        mode=_FINISH_STEP if mode is UNSET else mode,
        caller_id=None if caller_id is UNSET else caller_id,
        claims=NO_CLAIMS if source is turn is origin is UNSET else _claims(source, turn, origin),
    )


def _strings_in(values: tuple[Any, ...]) -> int:
    _, tags, key, ttl, preserve, propagate, hint, mode, caller_id, source, turn, origin = values
    return (
        (2 if tags is UNSET else 3 + len(tags))
        + (0 if key is UNSET else 2)
        + (0 if ttl is UNSET else 1)
        + (0 if preserve is UNSET else 1)
        + (0 if propagate is UNSET else 2)
        + (0 if hint is UNSET else 2)
        + (0 if mode is UNSET else 2)
        + (0 if caller_id is UNSET else 2)
        + (0 if source is UNSET else 2)
        + (0 if turn is UNSET else 1)
        + (0 if origin is UNSET else 2)
    )


def _are_plain(tags: tuple[str, ...], limits: Limits) -> bool:
    joined = "".join(tags)
    # Together no longer than one may be: no need to measure each.
    return len(joined) <= limits.tag_bytes and " " not in joined and len(set(tags)) == len(tags) <= limits.tags


def _claims(source: object, turn: object, origin: object) -> Mapping[str, object]:
    claims: dict[str, object] = {}
    if source is not UNSET:
        claims["source"] = source
    if turn is not UNSET:
        claims["fired_at_turn"] = turn
    if origin is not UNSET:
        claims["originating_agent_id"] = origin
    return claims
