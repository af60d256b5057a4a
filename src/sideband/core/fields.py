"""The reading of a reminder payload field by field: each mistake is answered with its field, value and code."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from sideband.core.draft import NO_CLAIMS, Draft
from sideband.core.errors import InvalidReminder, UnknownOption, UnknownPropagate, UnsupportedMode, shown
from sideband.core.jsontext import depth
from sideband.core.limits import Limits
from sideband.core.reminder import MAX_TTL_TURNS, Propagate, RoleHint
from sideband.core.seams import InjectMode, Mode
from sideband.core.surfaces import CLAIMS, RULES, Case, Rules, Surface, spelled

CALLER_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
# Control characters but \n, \r and \t; lone surrogates; the marks that reorder text on a screen.
HOSTILE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
MAX_CLAIM: Final = 256
INT64: Final = 2**63
_Word = TypeVar("_Word", bound=Propagate | RoleHint | Mode)


def read_fields(payload: object, surface: Surface, limits: Limits) -> Draft:
    """The draft in `payload`, or the error this surface answers with."""
    rules, fields = RULES[surface], _FIELDS[surface]
    if not isinstance(payload, Mapping):
        raise rules.invalid(f"a reminder must be an object, not {shown(payload)}", value=payload)
    unknown = [key for key in payload if key not in fields]
    if unknown and not rules.skips_unknown:
        _refuse_unknown(unknown[0], surface)
    given: dict[str, Any] = {}
    for name, field in fields.items():
        value = payload.get(name)
        if value is not None:
            given[field.name] = field.read(value, name, rules, limits)
        elif field.required:
            raise rules.invalid(f"{name} is required", field=name)
    meta = given.pop("_meta", NO_CLAIMS)
    caller_id = given.pop("id", None) if "id" in rules.fields else _idempotency_key(meta, rules, limits)
    return Draft(
        caller_id=caller_id,
        claims={field: given.pop(field) for field in CLAIMS if field in given},
        meta=meta,
        ignored=tuple(map(shown, unknown)),
        **given,
    )


def _idempotency_key(meta: Mapping[str, Any], rules: Rules, limits: Limits) -> str | None:
    """Where the record has no place for the caller's own id, our namespace in the envelope has."""
    ours = meta.get("sideband")
    key = ours.get("idempotencyKey") if isinstance(ours, Mapping) else None
    return None if key is None else _id(key, "_meta.sideband.idempotencyKey", rules, limits)


def _refuse_unknown(key: object, surface: Surface) -> None:
    rules = RULES[surface]
    name = key if isinstance(key, str) else shown(key)
    if key == "content" and rules.invalid is InvalidReminder:
        raise InvalidReminder("a reminder has a 'body'; 'content' belongs to session/inject", field=name, value=name)
    other = {spelled(field, case): spelled(field, rules.case) for field in rules.fields for case in Case}
    hint = f"did you mean {other[name]!r}?" if name in other else f"known are {', '.join(_FIELDS[surface])}"
    raise UnknownOption(f"{surface.value} has no option {shown(key)}; {hint}", field=name, value=key)


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
    # A subclass of str would be refused by the journal, long after it was accepted.
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
        raise rules.invalid(f"{name} must not be blank, as {shown(body)} is", field=name, value=body)
    return body.strip() if rules.trims_body else body


def _tags(value: object, name: str, rules: Rules, limits: Limits) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise rules.invalid(f"{name} must be a list of strings, not {shown(value)}", field=name, value=value)
    if len(value) > limits.tags:
        raise rules.invalid(f"{name} has {len(value)} entries, at most {limits.tags}", field=name, value=value)
    tags: dict[str, None] = {}
    for place, entry in enumerate(value):
        spot = f"{name}[{place}]"
        tag = _bounded(_text(entry, spot, rules).strip(), spot, rules, most=limits.tag_bytes)
        if not tag:
            raise rules.invalid(f"{spot} must not be blank, as {shown(entry)} is", field=spot, value=entry)
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
        raise rules.invalid(f"{name} is out of range: it does not fit into 64 bits", field=name, value=value)
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


def _word(value: object, words: type[_Word]) -> _Word | None:
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
    """The delivery mode named by `value`; there is no fallback for another word."""
    word = _word(value, Mode)
    if word is None:
        is_old = isinstance(value, str) and value == "wait_for_completion"
        hint = "; its name is 'audit_only' now" if is_old else ""
        words = ", ".join(repr(mode.value) for mode in Mode)
        raise UnsupportedMode(f"{name} must be one of {words}, not {shown(value)}{hint}", field=name, value=value)
    return word


def read_inject_mode(value: object, name: str = "mode") -> InjectMode:
    """The delivery mode of a user message named by `value`; there is no fallback for another word."""
    if isinstance(value, str) and value in InjectMode.__members__.values():
        return InjectMode(value)
    words = ", ".join(repr(mode.value) for mode in InjectMode)
    raise UnsupportedMode(f"{name} must be one of {words}, not {shown(value)}", field=name, value=value)


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
    return _bounded(_text(value, name, rules), name, rules, most=MAX_CLAIM)


def _meta(value: object, name: str, rules: Rules, limits: Limits) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise rules.invalid(f"{name} must be an object, not {shown(value)}", field=name, value=value)
    if depth(value, limit=limits.meta_depth) > limits.meta_depth:
        raise rules.invalid(f"{name} is nested more than {limits.meta_depth} deep", field=name, value=value)
    try:
        # Written as it will be compared with a repeat: only what has an order can be.
        size = len(msgspec.json.encode(value, order="deterministic"))
    except (TypeError, ValueError, OverflowError) as error:
        raise rules.invalid(f"{name} cannot be written as JSON: {error}", field=name, value=value) from None
    if size > limits.meta_bytes:
        raise rules.invalid(f"{name} has {size:,} bytes, at most {limits.meta_bytes:,}", field=name, value=value)
    return value


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
    """A field as one surface reads it."""

    name: str
    read: _Reader
    required: bool


def _fields(rules: Rules) -> Mapping[str, _Field]:
    required = {"body", "id"} if rules.wants_id else {"body"}
    return {spelled(name, rules.case): _Field(name, _READERS[name], name in required) for name in rules.fields}


# The fields of each surface, by their spelling there.
_FIELDS: Final = MappingProxyType({surface: _fields(rules) for surface, rules in RULES.items()})
