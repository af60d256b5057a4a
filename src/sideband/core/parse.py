"""The one parser of reminder payloads.

It reads a payload field by field, by the rules of the surface it came from (`surfaces.py`). Every error names the field,
the value and a diagnostic code.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeGuard, TypeVar

import msgspec

from sideband.core.errors import InvalidOption, InvalidReminder, UnknownOption, UnknownPropagate, UnsupportedMode, shown
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.reminder import MAX_TTL_TURNS, Draft, Propagate, Reminder, ReminderId, RoleHint, Source
from sideband.core.seams import InjectMode, Mode
from sideband.core.serialize import lost_number
from sideband.core.surfaces import CLAIMS, LIFECYCLE, RULES, Case, Rules, Surface, spelled

CALLER_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")

# Control characters except \n, \r and \t; lone surrogates; and the marks that reorder text on a screen.
HOSTILE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")

MAX_CLAIM_BYTES: Final = 256

INT64: Final = 2**63

_WordT = TypeVar("_WordT", bound=StrEnum)


# Payloads.


def parse(payload: object, surface: Surface, *, limits: Limits = DEFAULT_LIMITS) -> Draft:
    """Read `payload` by the rules of `surface`, or raise the error that this surface has for the mistake."""
    rules, fields = _TABLES[surface]
    if not isinstance(payload, Mapping):
        raise rules.invalid(f"a reminder must be an object, not {shown(payload)}", value=payload)
    unknown = [key for key in payload if key not in fields]
    if unknown and not rules.skips_unknown:
        _refuse_unknown(unknown[0], surface)
    given: dict[str, Any] = {"ignored": tuple(map(shown, unknown))} if unknown else {}
    for name, value in payload.items():
        if value is not None and name in fields:
            field, read = fields[name]
            given[field] = read(value, name, rules, limits)
    for name in ("body", "id") if rules.wants_id else ("body",):
        if name not in given:
            raise rules.invalid(f"{name} is required and missing", field=name)
    if "id" in given:
        given["caller_id"] = given.pop("id")
    if "_meta" in given:
        meta = given["meta"] = given.pop("_meta")
        if "id" not in rules.fields:
            given["caller_id"] = _idempotency_key(meta, rules, limits)
    if not given.keys().isdisjoint(CLAIMS):
        given["claims"] = {name: given.pop(name) for name in CLAIMS if name in given}
    return Draft(**given)


def _idempotency_key(meta: Mapping[str, Any], rules: Rules, limits: Limits) -> str | None:
    """The caller's id on surfaces that have it in `_meta` and not in the record."""
    ours = meta.get("sideband")
    key = ours.get("idempotencyKey") if isinstance(ours, Mapping) else None
    return None if key is None else _id(key, "_meta.sideband.idempotencyKey", rules, limits)


def _refuse_unknown(key: object, surface: Surface) -> None:
    rules = RULES[surface]
    name = key if isinstance(key, str) else shown(key)
    if key == "content" and rules.invalid is InvalidReminder:
        raise InvalidReminder(
            "a reminder has no 'content', which belongs to session/inject; send 'body'", field=name, value=name
        )
    other = {spelled(field, case): spelled(field, rules.case) for field in rules.fields for case in Case}
    hint = (
        f"did you mean {other[name]!r}?" if name in other else f"the options are {', '.join(_TABLES[surface].fields)}"
    )
    raise UnknownOption(f"{surface.value} has no option {shown(key)}; {hint}", field=name, value=key)


# The fields.


def _text(value: object, name: str, rules: Rules) -> str:
    if not isinstance(value, str):
        raise rules.invalid(f"{name} must be a string, not {shown(value)}", field=name, value=value)
    hostile = HOSTILE.search(value)
    if hostile:
        raise rules.invalid(
            f"{name} contains the character U+{ord(hostile.group()):04X} at {hostile.start()}, which is not accepted",
            field=name,
            value=value,
        )
    # The journal cannot encode a subclass of str.
    return str.__str__(value)


def _bounded(text: str, name: str, rules: Rules, *, most: int) -> str:
    size = len(text.encode())
    if size > most:
        raise rules.invalid(
            f"{name} has {size:,} bytes, at most {most} are accepted: {shown(text)}", field=name, value=text
        )
    return text


def _body(value: object, name: str, rules: Rules, _limits: Limits) -> str:
    body = _text(value, name, rules)
    if not body.strip():
        raise rules.invalid(f"{name} must not be blank, got {shown(body)}", field=name, value=body)
    return body.strip() if rules.trims_body else body


def _tags(value: object, name: str, rules: Rules, limits: Limits) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise rules.invalid(f"{name} must be a list of strings, not {shown(value)}", field=name, value=value)
    if len(value) > limits.tags:
        raise rules.invalid(
            f"{name} has {len(value)} entries, at most {limits.tags} are accepted", field=name, value=value
        )
    tags: dict[str, None] = {}
    for place, entry in enumerate(value):
        spot = f"{name}[{place}]"
        tag = _bounded(_text(entry, spot, rules).strip(), spot, rules, most=limits.tag_bytes)
        if not tag:
            raise rules.invalid(f"{spot} must not be blank, got {shown(entry)}", field=spot, value=entry)
        tags[tag] = None
    return tuple(tags)


def _dedupe_key(value: object, name: str, rules: Rules, limits: Limits) -> str | None:
    return _bounded(_text(value, name, rules).strip(), name, rules, most=limits.dedupe_key_bytes) or None


def _int(value: object, name: str, rules: Rules) -> int:
    if rules.integral_floats and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise rules.invalid(f"{name} must be a whole number, not {shown(value)}", field=name, value=value)
    if not -INT64 <= value < INT64:
        raise rules.invalid(f"{name} does not fit into a 64-bit integer", field=name, value=value)
    return int(value)


def _ttl_turns(value: object, name: str, rules: Rules, _limits: Limits) -> int:
    ttl = _int(value, name, rules)
    if not 1 <= ttl <= MAX_TTL_TURNS:
        raise rules.invalid(f"{name} must be between 1 and {MAX_TTL_TURNS:,}, not {ttl}", field=name, value=value)
    return ttl


def _fired_at_turn(value: object, name: str, rules: Rules, _limits: Limits) -> int:
    return _int(value, name, rules)


def _preserve_on_compact(value: object, name: str, rules: Rules, _limits: Limits) -> bool:
    if not isinstance(value, bool):
        raise rules.invalid(f"{name} must be true or false, not {shown(value)}", field=name, value=value)
    return value


def _word(value: object, words: type[_WordT]) -> _WordT | None:
    return words(value) if isinstance(value, str) and value in words.__members__.values() else None


def _propagate(value: object, name: str, _rules: Rules, _limits: Limits) -> Propagate:
    word = _word(value, Propagate)
    if word is None:
        raise UnknownPropagate(value, field=name)
    return word


def _role_hint(value: object, name: str, rules: Rules, _limits: Limits) -> RoleHint:
    word = _word(value, RoleHint)
    if word is None:
        words = ", ".join(repr(hint.value) for hint in RoleHint)
        raise rules.invalid(f"{name} must be one of {words}, not {shown(value)}", field=name, value=value)
    return word


def read_mode(value: object, name: str = "mode") -> Mode:
    """The delivery mode of a reminder; any other value raises `UnsupportedMode`."""
    word = _word(value, Mode)
    if word is None:
        is_old = isinstance(value, str) and value == "wait_for_completion"
        hint = "; it was renamed to 'audit_only'" if is_old else ""
        words = ", ".join(repr(mode.value) for mode in Mode)
        raise UnsupportedMode(f"{name} must be one of {words}, not {shown(value)}{hint}", field=name, value=value)
    return word


def read_inject_mode(value: object, name: str = "mode") -> InjectMode:
    """The delivery mode of a user message; any other value raises `UnsupportedMode`."""
    word = _word(value, InjectMode)
    if word is None:
        words = ", ".join(repr(mode.value) for mode in InjectMode)
        raise UnsupportedMode(f"{name} must be one of {words}, not {shown(value)}", field=name, value=value)
    return word


def _mode(value: object, name: str, rules: Rules, _limits: Limits) -> Mode:
    return read_mode(_text(value, name, rules), name)


def _id(value: object, name: str, rules: Rules, _limits: Limits) -> str:
    caller_id = _text(value, name, rules)
    if CALLER_ID.fullmatch(caller_id) is None:
        raise rules.invalid(
            f"{name} must be 1 to 128 letters, digits or '._:-', not {shown(value)}", field=name, value=value
        )
    return caller_id


def _claim(value: object, name: str, rules: Rules, _limits: Limits) -> str:
    return _bounded(_text(value, name, rules), name, rules, most=MAX_CLAIM_BYTES)


def _meta(value: object, name: str, rules: Rules, limits: Limits) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise rules.invalid(f"{name} must be an object, not {shown(value)}", field=name, value=value)
    if depth(value, limit=limits.meta_depth) > limits.meta_depth:
        raise rules.invalid(f"{name} is nested more than {limits.meta_depth} levels deep", field=name, value=value)
    try:
        # Deterministic order fails for keys that cannot be sorted, as the fingerprint of the request would later.
        raw = msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError, OverflowError) as error:
        raise rules.invalid(f"{name} cannot be written as JSON: {error}", field=name, value=value) from None
    if len(raw) > limits.meta_bytes:
        raise rules.invalid(
            f"{name} has {len(raw):,} bytes, at most {limits.meta_bytes:,} are accepted", field=name, value=value
        )
    if (wrong := lost_number(value, raw)) is not None:
        raise rules.invalid(f"{name} cannot be written as JSON, which has no {wrong}", field=name, value=value)
    return value


def read_body(value: object, surface: Surface, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """The body of a reminder by the rules of `surface`."""
    return _body(value, "body", RULES[surface], limits)


def read_meta(value: object, surface: Surface, *, limits: Limits = DEFAULT_LIMITS) -> Mapping[str, object]:
    """The `_meta` object of a request by the rules of `surface`."""
    return _meta(value, "_meta", RULES[surface], limits)


def read_item_id(value: object, name: str) -> str:
    """The id of a reminder, a message or a session that a request names."""
    if not isinstance(value, str):
        raise InvalidOption(f"{name} must be a string, not {shown(value)}", field=name, value=value)
    return value


def depth(value: object, *, limit: int) -> int:
    """The nesting depth of `value`; counting stops at `limit` + 1."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        node, level = stack.pop()
        if isinstance(node, Mapping | list | tuple):
            deepest = max(deepest, level)
            if level <= limit:
                inner = node.values() if isinstance(node, Mapping) else node
                stack.extend((child, level + 1) for child in inner)
    return deepest


_Reader = Callable[[object, str, Rules, Limits], object]

_READERS: Final[Mapping[str, _Reader]] = MappingProxyType(
    {
        "body": _body,
        "tags": _tags,
        "dedupe_key": _dedupe_key,
        "ttl_turns": _ttl_turns,
        "preserve_on_compact": _preserve_on_compact,
        "propagate": _propagate,
        "role_hint": _role_hint,
        "mode": _mode,
        "id": _id,
        "source": _claim,
        "fired_at_turn": _fired_at_turn,
        "originating_agent_id": _claim,
        "_meta": _meta,
    }
)


class _Field(NamedTuple):
    """How one surface reads a field."""

    name: str
    read: _Reader


def _fields(rules: Rules) -> Mapping[str, _Field]:
    return {spelled(name, rules.case): _Field(name, _READERS[name]) for name in rules.fields}


class _Table(NamedTuple):
    """The rules of a surface, and its fields by their spelling there."""

    rules: Rules
    fields: Mapping[str, _Field]


_TABLES: Final = MappingProxyType({surface: _Table(rules, _fields(rules)) for surface, rules in RULES.items()})


# JSON text.


def parse_json(text: bytes | str, surface: Surface, *, limits: Limits = DEFAULT_LIMITS) -> Draft:
    """Parse a reminder in JSON text; a repeated key is an error."""
    return parse(read_object(text, max_bytes=limits.frame_bytes), surface, limits=limits)


def read_object(text: bytes | str, *, max_bytes: int) -> dict[str, object]:
    """The JSON object in `text`; refused if it is too large, not JSON, not an object, or repeats a key."""
    raw = _utf8(text)
    if len(raw) > max_bytes:
        raise InvalidReminder(f"the payload has {len(raw):,} bytes, at most {max_bytes:,} are accepted")
    try:
        found = msgspec.json.decode(raw)
        refuse_repeated_keys(raw)
    except RecursionError:
        raise InvalidReminder("the payload is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidReminder(f"the payload is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidReminder(f"the payload must be an object, not {shown(found)}", value=found)
    return found


def _utf8(text: bytes | str) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidReminder("the payload contains a lone surrogate, which UTF-8 cannot encode") from None


def refuse_repeated_keys(raw: bytes) -> None:
    """Raise `InvalidReminder` if an object in this JSON text has a key twice; `ValueError` if it is not JSON."""
    _repeated_keys()(raw.decode())


@cache
def _repeated_keys() -> Callable[[str], object]:
    import json  # noqa: PLC0415 - only needed to read JSON text

    def check(pairs: list[tuple[str, object]]) -> None:
        if len(dict(pairs)) < len(pairs):
            (key, _), *_ = Counter(key for key, _ in pairs).most_common(1)
            raise InvalidReminder(f"key {shown(key)} occurs twice in one object", field=key, value=key)

    return json.JSONDecoder(object_pairs_hook=check).decode


# Whole records.

MAX_ID_BYTES: Final = 1_024

_FIELD_RULES: Final = Limits(tags=INT64, tag_bytes=INT64, dedupe_key_bytes=INT64)


def read_record(record: Reminder, *, where: str = "", limits: Limits = _FIELD_RULES) -> Reminder:
    """A record as the surfaces would have made it, or the error for its first wrong field; `where` precedes the name.

    Without `limits` only the rules of the fields apply. The size of the body is for `check_body_size`.
    """
    rules = RULES[Surface.PIPELINE]
    read = {
        name: reader(value, f"{where}{name}", rules, limits)
        for name, reader in _RECORD_READERS.items()
        if (value := getattr(record, name)) is not None or name not in _OPTIONAL
    }
    return msgspec.structs.replace(record, **read)


def _record_id(value: object, name: str, rules: Rules, _limits: Limits) -> ReminderId:
    # The id of a caller may have the name of its server before it, and the number of its version after it.
    text = _bounded(_text(value, name, rules), name, rules, most=MAX_ID_BYTES)
    if not text or not text.isprintable() or text != text.strip():
        raise rules.invalid(
            f"{name} must be a text without line breaks and surrounding space, not {shown(text)}",
            field=name,
            value=text,
        )
    return ReminderId(text)


def _first_turn(value: object, name: str, rules: Rules, _limits: Limits) -> int:
    turn = _int(value, name, rules)
    if turn < 0:
        raise rules.invalid(f"{name} must be a whole number of at least 0, not {turn}", field=name, value=value)
    return turn


def _source(value: object, name: str, rules: Rules, _limits: Limits) -> Source:
    word = _word(value, Source)
    if word is None:
        words = ", ".join(repr(source.value) for source in Source)
        raise rules.invalid(f"{name} must be one of {words}, not {shown(value)}", field=name, value=value)
    return word


def _agent_id(value: object, name: str, rules: Rules, _limits: Limits) -> str:
    return _text(value, name, rules)


_OPTIONAL: Final = frozenset({"dedupe_key", "ttl_turns", "originating_agent_id"})

_RECORD_READERS: Final[Mapping[str, _Reader]] = MappingProxyType(
    {
        "id": _record_id,
        **{name: _READERS[name] for name in LIFECYCLE},
        "source": _source,
        "fired_at_turn": _first_turn,
        "originating_agent_id": _agent_id,
    }
)


# Lenient reading, for `transcript_reminder_event`.


def read_leniently(payload: object, *, new_id: Callable[[], str]) -> Reminder:
    """Read a record from `payload`, with the default for every wrong or missing field.

    A record without a body gets an empty one, and rendering drops it.
    """
    if not isinstance(payload, Mapping):
        raise InvalidOption(f"a reminder must be an object, not {shown(payload)}", value=payload)
    ttl = payload.get("ttl_turns")
    fired_at_turn = payload.get("fired_at_turn")
    return Reminder(
        id=ReminderId(_lenient_text(payload.get("id")) or new_id()),
        body=_lenient_text(payload.get("body")) or "",
        tags=_lenient_tags(payload.get("tags")),
        dedupe_key=(_lenient_text(payload.get("dedupe_key")) or "").strip() or None,
        ttl_turns=ttl if _is_int(ttl) and 1 <= ttl <= MAX_TTL_TURNS else None,
        preserve_on_compact=payload.get("preserve_on_compact") is True,
        propagate=_word(payload.get("propagate"), Propagate) or Propagate.SESSION,
        role_hint=_word(payload.get("role_hint"), RoleHint) or RoleHint.SYSTEM,
        source=_word(payload.get("source"), Source) or Source.IN_PIPELINE,
        fired_at_turn=fired_at_turn if _is_int(fired_at_turn) and -INT64 <= fired_at_turn < INT64 else 0,
        originating_agent_id=_lenient_text(payload.get("originating_agent_id")) or None,
    )


def _lenient_text(value: object) -> str | None:
    """The value if it is a string that UTF-8 can encode, else None."""
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _lenient_tags(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        return ()
    trimmed = ((_lenient_text(tag) or "").strip() for tag in value)
    return tuple(dict.fromkeys(tag for tag in trimmed if tag))
