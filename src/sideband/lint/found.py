"""Uses of Sideband's interfaces in a file, and the forms in which they are written there.

The readers (`data`, `python`) find them; `rules` says what is wrong with each.
"""

from collections.abc import Generator, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec

from sideband.core.effects import ignored, unpack
from sideband.core.errors import ReminderError, UnknownOption
from sideband.core.explanation import Severity
from sideband.core.hookevents import CANONICAL_PROVIDERS, SessionEvent, WorkerEvent
from sideband.core.surfaces import LIFECYCLE, Case, Surface, spelled
from sideband.lint.literals import Array, Position, Scalar, Table, TableEntry, Unknown, Value, plain, text_of


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder as a producer wrote it; `lenient` if invalid fields are replaced by defaults instead of refused."""

    surface: Surface
    value: Value
    at: Position
    lenient: bool = False


class RepeatedKey(msgspec.Struct, frozen=True, kw_only=True):
    """The second or later use of a key in one object."""

    entry: TableEntry


class NotAnEffect(msgspec.Struct, frozen=True, kw_only=True):
    """Something in a list of effects that is not a reminder; `returned` is the smallest return value with this mistake."""

    surface: Surface
    returned: object
    at: Position


class Ineffective(msgspec.Struct, frozen=True, kw_only=True):
    """A return value of a hook that is ignored; `why` says so."""

    why: str
    at: Position


class WatchingHook(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder returned by a hook on an event that hooks can only observe."""

    event: WorkerEvent
    at: Position


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The name of the event that a hook is registered for."""

    name: Scalar


class ProviderEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The name of an event that a provider subscribes to."""

    name: Scalar


class ClearCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of `clear_reminders`."""

    selector: Table


class ProviderId(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that is registered."""

    id: str
    at: Position


class ProviderChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The providers that one loop enables or, with a leading dash, disables."""

    ids: tuple[str, ...]
    at: Position


class LoopReminders(msgspec.Struct, frozen=True, kw_only=True):
    """The `reminders` option of a loop."""

    value: Value


class NamedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that the file names, written `transport:model`."""

    name: str


Found: TypeAlias = (
    Spec
    | RepeatedKey
    | NotAnEffect
    | Ineffective
    | WatchingHook
    | HookEvent
    | ProviderEvent
    | ClearCall
    | ProviderId
    | ProviderChoice
    | LoopReminders
    | NamedModel
)


class LintProblem(NamedTuple):
    """Something wrong at a position of one file; `key` is the option concerned (None: no single one).

    `severity` is given if it is not that of the code, because it is uncertain that the program is wrong.
    """

    code: str
    at: Position
    message: str
    key: str | None = None
    severity: Severity | None = None


# `body` and `tags` occur in all kinds of documents; the other fields hardly occur outside reminders.
TELLING: Final = frozenset(
    spelled(field, case) for field in LIFECYCLE if field not in {"body", "tags"} for case in Case
)


def looks_like_spec(table: Table) -> bool:
    """Whether a table in a place where a reminder is expected has at least one field of a reminder."""
    return "body" in table or any(entry.key in TELLING for entry in table.entries)


# Return values of hooks and providers.

# Takes the place of an entry that cannot be judged: it counts as a reminder, but nothing is reported about it.
_UNJUDGED: Final[Mapping[str, object]] = MappingProxyType({"reminder": None})


class _Opened(dict[object, object]):
    """A table as the mapping that `unpack` expects; the reminders in it keep their positions."""

    def __init__(self, table: Table) -> None:
        super().__init__(
            (entry.key, entry.value if entry.key in {"reminder", "spec"} else plain(entry.value))
            for entry in table.entries
        )
        self.table = table


def effects(returned: Value, surface: Surface, *, event: SessionEvent | WorkerEvent | None = None) -> Iterator[Found]:
    """The reminders in the return value of a hook or a provider, and the entries that are refused at run time."""
    opened: object
    match returned:
        case Array():
            opened = yield from _entries(returned, surface)
        case Table():
            opened = _Opened(returned)
            listed = returned.value("effects")
            if listed is not None and surface is Surface.HOOK:
                opened["effects"] = yield from _entries(listed, surface)
        case Scalar(value=written):
            opened = written
        case _:
            return
    if opened is None or (isinstance(returned, Table) and returned.open and not _is_effect(opened, surface)):
        return
    if not _is_effect(opened, surface):
        yield _not_an_effect(returned, surface)
        return
    specs = yield from _specs(opened, returned, surface)
    for spec in specs:
        match spec:
            case None:
                continue
            case Scalar() | Unknown() | Array() | Table():
                value: Value = spec
            case _Opened():
                value = spec.table
            case _:
                # A whole return value that is a reminder: `unpack` copies it without its action.
                value = returned.without("then") if isinstance(returned, Table) else returned
        yield WatchingHook(event=event, at=value.at) if isinstance(event, WorkerEvent) else _spec(value, surface)


def _specs(opened: object, returned: Value, surface: Surface) -> Generator[Found, None, list[object]]:
    """Return the unparsed reminders; report an unknown key beside them, with which none is injected."""
    try:
        return unpack(opened, surface)[0]
    except UnknownOption as error:
        unknown = returned.get(error.value) if isinstance(returned, Table) else None
        yield NotAnEffect(surface=surface, returned=plain(returned), at=unknown.at if unknown else returned.at)
        return []


def _is_effect(returned: object, surface: Surface) -> bool:
    """Whether a return value has one of the forms that hooks or providers may return."""
    if surface is Surface.HOOK:
        return ignored(returned) is None
    try:
        unpack(returned, surface)
    except ReminderError:
        return False
    return True


def _not_an_effect(returned: Value, surface: Surface) -> Found:
    value = plain(returned)
    if surface is Surface.HOOK:
        return Ineffective(why=ignored(value) or "", at=returned.at)
    return NotAnEffect(surface=surface, returned=value, at=returned.at)


def _entries(listed: Value, surface: Surface) -> Generator[Found, None, list[object]]:
    """Return a list of effects as `unpack` expects it, and report the entries that it refuses."""
    if isinstance(listed, Unknown):
        return [_UNJUDGED]
    if not isinstance(listed, Array):
        yield NotAnEffect(surface=surface, returned={"effects": plain(listed)}, at=listed.at)
        return [_UNJUDGED]
    entries: list[object] = []
    for item in listed.items:
        entry = _Opened(item) if isinstance(item, Table) else plain(item)
        try:
            unpack([entry], surface)
        except ReminderError:
            if not (isinstance(item, Unknown) or (isinstance(item, Table) and item.open)):
                yield NotAnEffect(surface=surface, returned=[plain(item)], at=item.at)
            entries.append(_UNJUDGED)
        else:
            entries.append(entry)
    return entries


def _spec(value: Value, surface: Surface) -> Spec:
    return Spec(surface=surface, value=value, at=value.at)


# JSON-RPC messages.

METHODS: Final[Mapping[str, Surface]] = MappingProxyType(
    {
        "session/inject_reminder": Surface.ACP,
        "session/remind": Surface.ACP_LEGACY,
        "tasks/inject_reminder": Surface.A2A,
        "notifications/reminder": Surface.MCP,
    }
)
OWN_PREFIX: Final = "_sideband/"


def method_surface(method: str | None) -> Surface | None:
    """The surface that a protocol method belongs to, with or without the `_sideband/` prefix."""
    return None if method is None else METHODS.get(method.removeprefix(OWN_PREFIX))


def frame(table: Table) -> Spec | None:
    """The reminder in a JSON-RPC message; None if the message carries none."""
    surface = method_surface(text_of(table.value("method")))
    if surface is None or not ("jsonrpc" in table or "params" in table):
        return None
    params = table.value("params")
    if params is None and table.open:
        return None
    return request(surface, params or Scalar(value=None, at=table.at))


def request(surface: Surface, params: Value) -> Spec:
    """The reminder in the parameters of a method."""
    if not isinstance(params, Table):
        return _spec(params, surface)
    match surface:
        case Surface.ACP:
            return _spec(params.without("sessionId"), surface)
        case Surface.ACP_LEGACY:
            return _spec(_legacy(params), surface)
        case _:
            missing: Value = Unknown(at=params.at) if params.open else Scalar(value=None, at=params.at)
            return _spec(params.value("reminder") or missing, surface)


def _legacy(params: Table) -> Table:
    """The fields of `session/remind`: at the top or in `reminder`, completed from `_meta.harn.reminder`."""
    nested = params.value("reminder")
    spec = params.without("sessionId")
    if isinstance(nested, Table):
        around = tuple(entry for entry in params.entries if entry.key in {"mode", "_meta"} and entry.key not in nested)
        spec = msgspec.structs.replace(nested, entries=(*nested.entries, *around), open=nested.open or params.open)
    elif isinstance(nested, Unknown):
        spec = msgspec.structs.replace(params.without("sessionId", "reminder"), open=True)
    extension: Value | None = params
    for key in ("_meta", "harn", "reminder"):
        if isinstance(extension, Unknown):
            return msgspec.structs.replace(spec, open=True)
        extension = extension.value(key) if isinstance(extension, Table) else None
    if not isinstance(extension, Table):
        return msgspec.structs.replace(spec, open=True) if isinstance(extension, Unknown) else spec
    known = {*LIFECYCLE, "mode"}
    more = tuple(entry for entry in extension.entries if entry.key in known and entry.key not in spec)
    return msgspec.structs.replace(spec, entries=(*spec.entries, *more))


# Choices of providers.


def provider_choice(options: Value | None) -> ProviderChoice | None:
    """The ids in `{"providers": [...]}`; None if the list holds anything but strings."""
    entry = options.get("providers") if isinstance(options, Table) else None
    if entry is None or not isinstance(entry.value, Array):
        return None
    ids = tuple(name for item in entry.value.items if (name := text_of(item)) is not None)
    known = all(isinstance(item, Unknown) or text_of(item) is not None for item in entry.value.items)
    return ProviderChoice(ids=ids, at=entry.at) if ids and known else None


def loop_reminders(value: Value | None, *, certain: bool) -> LoopReminders | None:
    """The `reminders` option of a loop. If it is not certain that it is one, its content has to tell.

    Other programs have options of this name. Ours lists providers, or configures one that we have.
    """
    if value is None or not (certain or (isinstance(value, Table) and _configures_ours(value))):
        return None
    return LoopReminders(value=value)


def _configures_ours(table: Table) -> bool:
    config = table.value("config")
    configured = config.entries if isinstance(config, Table) else ()
    return provider_choice(table) is not None or any(entry.key in CANONICAL_PROVIDERS for entry in configured)
