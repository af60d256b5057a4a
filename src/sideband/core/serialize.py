"""Records as JSON text: `to_json` and `from_json`, and the errors for what is not such a record."""

import json
import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple, Self

import msgspec
from msgspec import UNSET

from sideband.core.errors import InvalidOption, UnknownOption, UnknownPropagate, shown, suggestion


class JsonRecord:
    """A mixin for records that a program writes to a file or sends elsewhere, and reads again."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON has it; changing the result does not change the record."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def to_json(self) -> str:
        """The record as JSON text, which `from_json` reads again.

        `InvalidOption` if it holds something that JSON does not have.
        """
        try:
            fields = self.as_dict()
            raw = msgspec.json.encode(fields)
            wrong = lost_number(fields, raw)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidOption(f"{_name(type(self))} cannot be written as JSON: {error}") from None
        if wrong is not None:
            raise InvalidOption(f"{_name(type(self))} cannot be written as JSON, which has no {wrong}", value=wrong)
        return raw.decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The record that `to_json` has written.

        `ReminderError` names the field and the value of what is not such a record. Unknown fields, duplicate keys and
        numbers that JSON does not have are refused.
        """
        given = _load(cls, text)
        kind = cls._kind_of(given)
        prepared = kind._prepared(given, "")  # noqa: SLF001 - a subclass of this class
        try:
            record = msgspec.convert(prepared, type=kind)
        except msgspec.ValidationError as error:
            raise _refused(kind, error, prepared) from None
        _refuse_unknown(kind, prepared, record, "")
        return record

    @classmethod
    def _kind_of(cls, _given: Mapping[str, Any]) -> type[Self]:
        """The class of the record that is described; a base class chooses among its subclasses."""
        return cls

    @classmethod
    def _prepared(cls, given: Mapping[str, Any], _where: str) -> Mapping[str, Any]:
        """The fields of the record, without those that only repeat others; `_where` is the path to the record."""
        return given


def _name(kind: type) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def _load(kind: type, text: object) -> dict[str, Any]:
    if not isinstance(text, str | bytes):
        raise InvalidOption(f"the JSON of {_name(kind)} must be text, not {shown(text)}", field="text", value=text)
    try:
        given = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
        # What Python reads, and JSON cannot hold: lone surrogates, and numbers that are too large.
        msgspec.json.encode(given)
        for wrong in non_finite(given):
            _no_constant(str(wrong))
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"the JSON of {_name(kind)} cannot be read: {error}", field="text", value=text) from None
    if not isinstance(given, dict):
        raise InvalidOption(f"{_name(kind)} must be a JSON object, not {shown(given)}", field="text", value=given)
    return given


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {shown(next(key for key in keys if keys.count(key) > 1))} occurs twice")
    return found


def _no_constant(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def non_finite(value: object) -> Iterator[float]:
    """Every NaN and infinity in a value."""
    if isinstance(value, float):
        if not isfinite(value):
            yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from non_finite(inner)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from non_finite(inner)


def lost_number(value: object, raw: bytes) -> float | None:
    """The first NaN or infinity of a value that was encoded as `raw`: the encoder writes null for it; None if none."""
    return next(non_finite(value), None) if b"null" in raw else None


# Errors.

_MISSING: Final = "missing required field "


def _refused(kind: type, error: msgspec.ValidationError, given: Mapping[str, Any]) -> Exception:
    what, where, value = explained(str(error), given, msgspec.json.schema(kind))
    if what.startswith(_MISSING):
        where = f"{where}.{what.removeprefix(_MISSING)}".removeprefix(".")
        return InvalidOption(f"{where} of {_name(kind)} is missing", field=where)
    if where.rpartition(".")[2] == "propagate":
        return UnknownPropagate(value, field=where)
    return InvalidOption(f"{where} of {_name(kind)}: {what}", field=where, value=value)


def _refuse_unknown(kind: type, given: Any, value: object, where: str) -> None:  # noqa: ANN401 - any JSON value
    """Refuse fields that the record does not have; converting ignores them."""
    if isinstance(value, tuple | list):
        for index, (inner, item) in enumerate(zip(given, value, strict=True)):
            _refuse_unknown(kind, inner, item, f"{where}[{index}]")
    if not isinstance(value, msgspec.Struct):
        return
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(value)}
    for key, inner in given.items():
        path = f"{where}.{key}".removeprefix(".")
        if key in fields:
            _refuse_unknown(kind, inner, getattr(value, fields[key]), path)
        elif key != value.__struct_config__.tag_field:
            hint = suggestion(key, fields, kind="fields")
            raise UnknownOption(f"{_name(type(value))} has no field {shown(path)}; {hint}", field=path, value=inner)


class Explained(NamedTuple):
    """What is wrong, at which path, and the value there; `value` is UNSET if the path does not lead to one."""

    what: str
    where: str
    value: Any


# A step of a path in msgspec's messages: a field, an index, or [...] for a value of a mapping, which is not named.
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[\.\.\.\]")


def explained(error: str, given: Mapping[str, Any], schema: Mapping[str, Any]) -> Explained:
    """A message of msgspec, with the value that does not fit and, for a closed vocabulary, what is allowed instead.

    `schema` is the JSON Schema of what was expected.
    """
    what, found, where = error.rpartition(" - at `$")
    what, where = (what, where.rstrip("`")) if found else (error, "")
    what = what.replace("`", "").replace("Object ", "").replace("Expected", "expected").replace("Invalid", "invalid")
    value: Any = given if where else UNSET
    root, node = schema, schema
    for name, index in _STEP.findall(where):
        if value is not UNSET:
            value = value[name] if name else value[int(index)] if index else UNSET
        node = _below(root, node, name, "items" if index else "additionalProperties")
    if "enum value" in what:
        words = [word for branch in _branches(root, node) for word in branch.get("enum", ())]
        what += f"; allowed: {', '.join(map(shown, words))}"
    elif value is not UNSET and value is not None and "field" not in what:
        what += f" {shown(value)}" if "got" in what else f", got {shown(value)}"
    return Explained(what, where.removeprefix("."), value)


def _branches(root: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The schema and its alternatives, with references resolved."""
    resolved = [schema]
    for branch in (schema, *schema.get("anyOf", ())):
        if "$ref" in branch:
            resolved.append(root["$defs"][branch["$ref"].rpartition("/")[2]])
        elif branch is not schema:
            resolved.append(branch)
    return resolved


def _below(root: Mapping[str, Any], schema: Mapping[str, Any], name: str, otherwise: str) -> Mapping[str, Any]:
    """The schema of a field, or without a name that of the items of a list or the values of a mapping; empty if none."""
    for branch in _branches(root, schema):
        found = branch.get("properties", {}).get(name) if name else branch.get(otherwise)
        if isinstance(found, Mapping):
            return found
    return {}
