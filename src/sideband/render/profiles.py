"""Which rows of the profile table hold for a model, what they make of it together, and which of them says what.

Rows are laid over each other: first the built-in ones, then the user's, in each group the one with the longest
beginning of the model's name last. Below them all lies the strictest chat template there is.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from sideband.core.errors import shown
from sideband.render.profile import LeadingRole, Profile, Wire

TABLE: Final = "profile"
# They say which models a row is about, and where it comes from; all others say what the model honours.
_ABOUT: Final = frozenset({"transport", "model", "source", "verified"})
_FIELDS: Final[Mapping[str, msgspec.structs.FieldInfo]] = MappingProxyType(
    {field.name: field for field in msgspec.structs.fields(Profile) if field.name not in _ABOUT}
)
_LEAST: Final[Mapping[str, int]] = MappingProxyType(
    {"call_id_length": 0, "cache_markers": 0, "cache_minimum_tokens": 0, "context_window": 1}
)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
# What Amazon Bedrock puts in front of the name, behind the region: us.anthropic.claude-opus-4-8.
_VENDOR: Final = "anthropic."


class ProfileError(ValueError):
    """A profile file that cannot be read, or a model that is not written as one; the message is one sentence."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What a file states of one transport and one beginning of model names ("" is every model).

    `origin` names the file and `number` the place of the row in it, from 1; a row that lists several transports or
    models is several rows of one number. `states` holds nothing but the fields that the row sets.
    """

    origin: str
    number: int
    transport: str
    model: str
    states: Mapping[str, Any]
    source: str = ""
    verified: str = ""


class Stated(NamedTuple):
    """The value of one field, and the row that it comes from (None: the strictest template)."""

    field: str
    value: Any
    row: Row | None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What a model gets, and why; of the `rows` that hold for it, later ones win.

    `known` is false when no row at all is about the transport.
    """

    transport: str
    model: str
    known: bool
    rows: tuple[Row, ...]
    stated: tuple[Stated, ...]
    profile: Profile


class Profiles(msgspec.Struct, frozen=True, kw_only=True):
    """The rows in force; what one of `overrides` states wins over every one of `builtin`."""

    builtin: tuple[Row, ...]
    overrides: tuple[Row, ...] = ()

    @property
    def rows(self) -> tuple[Row, ...]:
        """All of them, in the order of their files."""
        return (*self.builtin, *self.overrides)

    @property
    def transports(self) -> tuple[str, ...]:
        """The transports that rows are about, each once."""
        return tuple(dict.fromkeys(row.transport for row in self.rows))

    def of(self, model: str) -> Profile:
        """The profile of a model, written `transport:model`."""
        return self.explain(model).profile

    def explain(self, model: str) -> Explanation:
        """The profile of a model, written `transport:model`, with the row that each field comes from."""
        transport, name = split_model(model)
        rows = (*_layers(self.builtin, transport, name), *_layers(self.overrides, transport, name))
        stated = tuple(_stated(field, rows) for field in _FIELDS.values())
        profile = Profile(
            transport=transport,
            model=max((row.model for row in rows), key=len, default=""),
            source=next((row.source for row in reversed(rows) if row.source), ""),
            verified=next((row.verified for row in reversed(rows) if row.source), ""),
            **{field: value for field, value, _ in stated},
        )
        _check_together(model, profile, rows)
        return Explanation(
            transport=transport,
            model=name,
            known=transport in self.transports,
            rows=rows,
            stated=stated,
            profile=profile,
        )


# What rows may state one by one, and no request can follow together: the field to change, when, and why.
_CONTRADICTIONS: Final[tuple[tuple[str, Callable[[Profile], bool], str], ...]] = (
    (
        "prefers_role_developer",
        lambda profile: profile.prefers_role_developer and profile.wire in (Wire.ANTHROPIC, Wire.GEMINI),
        "its wire has no developer role",
    ),
    (
        "prefers_role_developer",
        lambda profile: profile.prefers_role_developer and not profile.developer_role,
        "developer_role is false",
    ),
    (
        "leading_role",
        lambda profile: profile.wire is Wire.ANTHROPIC and profile.leading_role is not LeadingRole.SYSTEM,
        "its wire has a field for the system text",
    ),
    (
        "leading_role",
        lambda profile: profile.wire is Wire.GEMINI and profile.leading_role is LeadingRole.DEVELOPER,
        "its wire has no developer role",
    ),
)


def _check_together(model: str, profile: Profile, rows: Sequence[Row]) -> None:
    for field, holds, why in _CONTRADICTIONS:
        if holds(profile):
            row = next(row for row in reversed(rows) if field in row.states)
            value = shown(msgspec.to_builtins(row.states[field]))
            raise ProfileError(f"{row.origin}, row {row.number}: {field} cannot be {value} for {model}: {why}")


def split_model(model: str) -> tuple[str, str]:
    """The transport and the name of a model that is written `transport:model`; a name may have colons of its own."""
    transport, _, name = model.partition(":")
    if not (transport and name):
        raise ProfileError(f"a model is written transport:model, like 'anthropic:claude-opus-5', not {shown(model)}")
    return transport, name


def parse_profiles(text: str, *, origin: str) -> tuple[Row, ...]:
    """The rows that the text of a TOML file states; `origin` is what errors call the file."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{origin} is no TOML file: {error}") from None
    if strange := document.keys() - {TABLE}:
        raise ProfileError(f"{origin} holds rows written [[{TABLE}]] and nothing else, so no {shown(min(strange))}")
    entries = document.get(TABLE, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ProfileError(f"{origin} has rows that are not written [[{TABLE}]]")
    rows = tuple(row for number, entry in enumerate(entries, 1) for row in _expanded(entry, origin, number))
    seen: dict[tuple[str, str], int] = {}
    for row in rows:
        first = seen.setdefault((row.transport, row.model), row.number)
        if first != row.number:
            about = f"{row.transport}, {row.model or 'every model'}"
            raise ProfileError(f"{origin}, row {row.number}: model: row {first} is about the same ({about})")
    return rows


def _expanded(entry: Mapping[str, Any], origin: str, number: int) -> Iterator[Row]:
    """One row for each transport and model that the entry names."""
    where = f"{origin}, row {number}"
    transports = _names(where, "transport", entry.get("transport"))
    models = [model.lower() for model in _names(where, "model", entry.get("model", ""))]
    states = MappingProxyType(
        {field: _checked(where, field, value) for field, value in entry.items() if field not in _ABOUT}
    )
    source = _text(where, "source", entry.get("source", ""))
    verified = _text(where, "verified", entry.get("verified", ""))
    if verified and not _DATE.fullmatch(verified):
        raise ProfileError(f"{where}: verified must be a date like 2026-11-15, not {shown(verified)}")
    for transport in dict.fromkeys(transports):
        for model in dict.fromkeys(models):
            yield Row(
                origin=origin,
                number=number,
                transport=transport,
                model=model,
                states=states,
                source=source,
                verified=verified,
            )


def _names(where: str, field: str, value: object) -> list[str]:
    given = value if isinstance(value, list) else [value]
    # Every name begins with "", which makes it a beginning; no transport is called so.
    names = [name for name in given if isinstance(name, str) and (name or field == "model")]
    if not names or len(names) < len(given):
        raise ProfileError(f"{where}: {field} must be a name or a list of names, not {shown(value)}")
    return names


def _text(where: str, field: str, value: object) -> str:
    # A date may be written as one, without quotes.
    plain = msgspec.to_builtins(value)
    if not isinstance(plain, str):
        raise ProfileError(f"{where}: {field} must be a text, not {shown(plain)}")
    return plain


def _checked(where: str, field: str, value: object) -> Any:  # noqa: ANN401 - of the field's own type
    info = _FIELDS.get(field)
    if info is None:
        near = get_close_matches(field, _FIELDS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ProfileError(f"{where}: there is no field {shown(field)}{hint}")
    if value == "" and info.default is None:
        return None
    try:
        checked = msgspec.convert(value, info.type)
    except msgspec.ValidationError:
        raise ProfileError(f"{where}: {field} must be {_wanted(info.type)}, not {shown(value)}") from None
    if field in _LEAST and checked < _LEAST[field]:
        raise ProfileError(f"{where}: {field} must be at least {_LEAST[field]}, not {shown(value)}")
    return checked


_WANTED: Final[Mapping[object, str]] = MappingProxyType(
    {bool: "true or false", int: "a whole number", str: "a text", tuple[str, ...]: "a list of texts"}
)


def _wanted(kind: Any) -> str:  # noqa: ANN401 - whatever a field may be annotated with
    """What a field takes, in words."""
    required = next((part for part in getattr(kind, "__args__", ()) if part is not type(None)), kind)
    if isinstance(required, type) and issubclass(required, Enum):
        return f"one of {', '.join(repr(member.value) for member in required)}"
    return _WANTED[kind if kind in _WANTED else required]


def _layers(rows: Sequence[Row], transport: str, model: str) -> list[Row]:
    """The rows that hold for a model, the most specific last."""
    spellings = _spellings(model)
    holding = (
        row for row in rows if row.transport == transport and any(name.startswith(row.model) for name in spellings)
    )
    return sorted(holding, key=lambda row: len(row.model))


def _spellings(model: str) -> tuple[str, ...]:
    """The name as it is, without the organisation or folder before it, and without what Bedrock puts before it."""
    name = model.lower()
    base = name.rpartition("/")[2]
    return name, base, base.rpartition(_VENDOR)[2]


def _stated(field: msgspec.structs.FieldInfo, rows: Sequence[Row]) -> Stated:
    for row in reversed(rows):
        if field.name in row.states:
            return Stated(field.name, row.states[field.name], row)
    return Stated(field.name, field.default, None)
