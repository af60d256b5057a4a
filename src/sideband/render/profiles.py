"""Capability profiles: what a model honours over a certain transport, as plain data."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import msgspec

from sideband.core.blocks import BlockKind, kind_of_media, usual_media_type
from sideband.core.errors import InvalidOption, shown

MOST_MARKERS: Final = 4
"""The limit of cache markers in a request, if the profile does not state one."""


class Wire(StrEnum):
    """The format of a request."""

    ANTHROPIC = "anthropic"
    OPENAI_CHAT = "openai_chat"
    OPENAI_RESPONSES = "openai_responses"
    GEMINI = "gemini"
    GENERIC = "generic"


class Placement(StrEnum):
    """Where reminders stand in a request."""

    SEED = "seed"
    TAIL = "tail"
    NATIVE = "native"


PlacementWord: TypeAlias = Placement | Literal["seed", "tail", "native"]


def read_placement(placement: object) -> Placement | None:
    """A placement by its name (None: the default of the profile); `InvalidOption` if there is none of that name."""
    if placement is None or isinstance(placement, Placement):
        return placement
    names = [known.value for known in Placement]
    if placement in names:
        return Placement(placement)
    near = get_close_matches(placement, names, n=1) if isinstance(placement, str) else []
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidOption(
        f"placement must be 'seed', 'tail', 'native' or None, not {shown(placement)}{hint}",
        field="placement",
        value=placement,
    )


class LeadingRole(StrEnum):
    """The role of the text before the conversation."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"


class InlineSystem(StrEnum):
    """Where a system message may stand inside the conversation."""

    NONE = "none"
    AFTER_USER = "after_user"
    ANYWHERE = "anywhere"


class Cache(StrEnum):
    """Whether there is a prompt cache, and whether the provider or the request sets its breakpoints."""

    NONE = "none"
    IMPLICIT = "implicit"
    EXPLICIT = "explicit"


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for a transport and a prefix of model names.

    The defaults are those of the strictest known chat template, so that an unknown model never refuses a request and
    never drops a reminder. `self_clearing` is the beta under which inline entries clear themselves (None: they do not).
    `call_signature` is used for a call without a signature, made by another model (None: none is required).
    `media` are the media types that a user message may have, and with `media_urls` also by URL. Without `tool_role` calls
    and results are written as text. `call_id_length` is the exact length of call ids (0: any length). `cache_markers` 0
    and `context_window` None mean unknown.
    """

    transport: str
    model: str = ""
    wire: Wire = Wire.GENERIC
    leading_role: LeadingRole = LeadingRole.SYSTEM
    inline_system: InlineSystem = InlineSystem.NONE
    inline_verified: bool = False
    self_clearing: str | None = None
    prefix_bound_thinking: bool = False
    server_side_history: bool = False
    multiple_leading_system: bool = False
    developer_role: bool = False
    prefers_role_developer: bool = False
    prefers_xml_scaffolding: bool = False
    strict_alternation: bool = True
    consecutive_assistant: bool = False
    user_after_tool: bool = False
    tool_results_first: bool = False
    content_parts: bool = False
    media: tuple[str, ...] = ()
    media_urls: bool = False
    tool_role: bool = True
    fold_into_tool_result: bool = True
    user_text_resets_reasoning: bool = False
    encrypted_reasoning: bool = False
    call_signature: str | None = None
    call_id_length: int = 0
    kv_prefix: bool = False
    accepts_notices: bool = True
    cache: Cache = Cache.NONE
    cache_ttls: tuple[str, ...] = ()
    cache_markers: int = 0
    cache_minimum_tokens: int = 0
    steer: str = "none"
    context_window: int | None = None
    placement: Placement | None = None
    source: str = ""
    verified: str = ""

    @property
    def heeds_inline(self) -> bool:
        """Whether a system message may stand inside the conversation, and the model is known to follow it there."""
        return self.inline_verified and self.inline_system is not InlineSystem.NONE


TABLE: Final = "profile"

# Fields that say which models a row is for and where it comes from; all others are capabilities.
_ABOUT: Final = frozenset({"transport", "model", "source", "verified"})

_FIELDS: Final[Mapping[str, msgspec.structs.FieldInfo]] = MappingProxyType(
    {field.name: field for field in msgspec.structs.fields(Profile) if field.name not in _ABOUT}
)

# Shorter ids could not all be different, and longer ones are not made.
_ID_LENGTHS: Final = range(8, 129)
_LEAST: Final[Mapping[str, int]] = MappingProxyType(
    {"cache_markers": 0, "cache_minimum_tokens": 0, "context_window": 1}
)

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")

# The prefix of Amazon Bedrock, after the region: us.anthropic.claude-opus-4-8.
_VENDOR: Final = "anthropic."


class ProfileError(ValueError):
    """A profile file that is invalid, or a model that is not written `transport:model`; the message is one sentence."""

    code: ClassVar[str] = "SIDEBAND-403"


class ProfileRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a file states for one transport and one prefix of model names ("" matches every model).

    `origin` names the file, and `number` is the position of the row in it, from 1. An entry with several transports or
    models becomes several rows with the same number. `states` holds only the fields that the row sets.
    """

    origin: str
    number: int
    transport: str
    model: str
    states: Mapping[str, Any]
    source: str = ""
    verified: str = ""


class Stated(NamedTuple):
    """The value of one field, and the row that it comes from (None: the default)."""

    field: str
    value: Any
    row: ProfileRow | None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The profile of a model and the rows it comes from; later `rows` win.

    `known` is false if no row is about the transport.
    """

    transport: str
    model: str
    known: bool
    rows: tuple[ProfileRow, ...]
    stated: tuple[Stated, ...]
    profile: Profile


class Profiles(msgspec.Struct, frozen=True, kw_only=True):
    """All rows; those of `overrides` win over those of `builtin`."""

    builtin: tuple[ProfileRow, ...]
    overrides: tuple[ProfileRow, ...] = ()

    @property
    def rows(self) -> tuple[ProfileRow, ...]:
        return (*self.builtin, *self.overrides)

    @property
    def transports(self) -> tuple[str, ...]:
        """The transports of all rows, without duplicates."""
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


_CHAT_AUDIO: Final = frozenset({"audio/wav", "audio/mp3"})

# Values that are valid by themselves and contradict each other: the field to change, the condition, and the reason.
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
    (
        "tool_role",
        lambda profile: not (profile.tool_role or _is_plain_chat(profile)),
        "its wire has a form for results",
    ),
    (
        "media",
        lambda profile: bool(profile.media) and not profile.content_parts,
        "content_parts is false",
    ),
    (
        "media",
        lambda profile: profile.wire in (Wire.ANTHROPIC, Wire.OPENAI_RESPONSES) and bool(_audio(profile)),
        "its wire has no form for audio",
    ),
    (
        "media",
        lambda profile: profile.wire in (Wire.OPENAI_CHAT, Wire.GENERIC) and not _audio(profile) <= _CHAT_AUDIO,
        "its wire has a form for audio/wav and audio/mp3 only",
    ),
)


def _audio(profile: Profile) -> frozenset[str]:
    return frozenset(each for each in profile.media if kind_of_media(each) is BlockKind.AUDIO)


def _is_plain_chat(profile: Profile) -> bool:
    """Whether the messages of a request are made of plain strings, as chat templates read them."""
    return profile.wire is Wire.GENERIC or (profile.wire is Wire.OPENAI_CHAT and not profile.content_parts)


def _check_together(model: str, profile: Profile, rows: Sequence[ProfileRow]) -> None:
    for field, holds, why in _CONTRADICTIONS:
        if holds(profile):
            row = next(row for row in reversed(rows) if field in row.states)
            value = shown(msgspec.json.decode(msgspec.json.encode(row.states[field])))
            raise ProfileError(f"{row.origin}, row {row.number}: {field} cannot be {value} for {model}: {why}")


def split_model(model: str) -> tuple[str, str]:
    """Split `transport:model` at the first colon; the name may contain more of them."""
    transport, _, name = model.partition(":")
    if not (transport and name):
        raise ProfileError(f"a model is written transport:model, like 'anthropic:claude-opus-5', not {shown(model)}")
    return transport, name


def parse_profiles(text: str, *, origin: str) -> tuple[ProfileRow, ...]:
    """The rows in the text of a TOML file; error messages call the file `origin`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{origin} is not a TOML file: {error}") from None
    if strange := document.keys() - {TABLE}:
        raise ProfileError(f"{origin}: {shown(min(strange))} is unknown; the file may hold [[{TABLE}]] rows only")
    entries = document.get(TABLE, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ProfileError(f"{origin}: rows must be written [[{TABLE}]]")
    rows = tuple(row for number, entry in enumerate(entries, 1) for row in _expanded(entry, origin, number))
    seen: dict[tuple[str, str], int] = {}
    for row in rows:
        first = seen.setdefault((row.transport, row.model), row.number)
        if first != row.number:
            about = f"{row.transport}, {row.model or 'every model'}"
            raise ProfileError(f"{origin}, row {row.number}: model: row {first} is about the same ({about})")
    return rows


def _expanded(entry: Mapping[str, Any], origin: str, number: int) -> Iterator[ProfileRow]:
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
            yield ProfileRow(
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
    # An empty model is the prefix of every name. A transport cannot be empty.
    names = [name for name in given if isinstance(name, str) and (name or field == "model")]
    if not names or len(names) < len(given):
        raise ProfileError(f"{where}: {field} must be a name or a list of names, not {shown(value)}")
    return names


def _text(where: str, field: str, value: object) -> str:
    # TOML dates need no quotes.
    plain = msgspec.to_builtins(value)
    if not isinstance(plain, str):
        raise ProfileError(f"{where}: {field} must be a text, not {shown(plain)}")
    return plain


def _checked(where: str, field: str, value: object) -> Any:  # noqa: ANN401 - the type of the field
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
    if field == "media":
        return tuple(_checked_media(where, each) for each in checked)
    if field == "call_id_length" and checked and checked not in _ID_LENGTHS:
        raise ProfileError(f"{where}: call_id_length must be 0, or 8 to 128, not {shown(value)}")
    if field in _LEAST and checked < _LEAST[field]:
        raise ProfileError(f"{where}: {field} must be at least {_LEAST[field]}, not {shown(value)}")
    return checked


def _checked_media(where: str, media_type: str) -> str:
    usual = usual_media_type(media_type)
    if kind_of_media(usual) is None:
        raise ProfileError(
            f"{where}: media must be types of images, of audio or 'application/pdf', not {shown(media_type)}"
        )
    return usual


_WANTED: Final[Mapping[object, str]] = MappingProxyType(
    {bool: "true or false", int: "a whole number", str: "a text", tuple[str, ...]: "a list of texts"}
)


def _wanted(kind: Any) -> str:  # noqa: ANN401 - any annotation of a field
    """A description of the type of a field, for error messages."""
    required = next((part for part in getattr(kind, "__args__", ()) if part is not type(None)), kind)
    if isinstance(required, type) and issubclass(required, Enum):
        return f"one of {', '.join(repr(member.value) for member in required)}"
    return _WANTED[kind if kind in _WANTED else required]


def _layers(rows: Sequence[ProfileRow], transport: str, model: str) -> list[ProfileRow]:
    """The rows that match a model, the most specific last."""
    spellings = _spellings(model)
    holding = (
        row for row in rows if row.transport == transport and any(name.startswith(row.model) for name in spellings)
    )
    return sorted(holding, key=lambda row: len(row.model))


def _spellings(model: str) -> tuple[str, ...]:
    """The name itself, the name without its organisation or folder, and the name without the prefix of Bedrock."""
    name = model.lower()
    base = name.rpartition("/")[2]
    return name, base, base.rpartition(_VENDOR)[2]


def _stated(field: msgspec.structs.FieldInfo, rows: Sequence[ProfileRow]) -> Stated:
    for row in reversed(rows):
        if field.name in row.states:
            return Stated(field.name, row.states[field.name], row)
    return Stated(field.name, field.default, None)
