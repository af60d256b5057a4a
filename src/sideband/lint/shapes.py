"""The forms in which reminders stand in other things: effects of hooks and providers, frames of protocols."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from sideband.core.effects import ACTION_KEYS
from sideband.core.hookevents import SessionEvent, WorkerEvent
from sideband.core.surfaces import LIFECYCLE, Case, Surface, spelled
from sideband.lint.found import Found, NotAnEffect, ProviderChoice, Spec, WatchingHook
from sideband.lint.literals import Array, Scalar, Table, Unknown, Value, text_of

# `body` and `tags` stand in all sorts of documents; the other fields hardly stand anywhere but in a reminder.
TELLING: Final = frozenset(
    spelled(field, case) for field in LIFECYCLE if field not in {"body", "tags"} for case in Case
)

METHODS: Final[Mapping[str, Surface]] = MappingProxyType(
    {
        "session/inject_reminder": Surface.ACP,
        "session/remind": Surface.ACP_LEGACY,
        "tasks/inject_reminder": Surface.A2A,
        "notifications/reminder": Surface.MCP,
    }
)
OWN_PREFIX: Final = "_sideband/"


def looks_like_spec(table: Table) -> bool:
    """Where a reminder is expected, one field of a reminder is enough."""
    return "body" in table or any(entry.key in TELLING for entry in table.entries)


# Effects. The same forms that `sideband.core.effects` reads, on values that know their place.


def effects(returned: Value, surface: Surface, *, event: SessionEvent | WorkerEvent | None = None) -> Iterator[Found]:
    """The reminders in what a hook or a provider returned."""
    for found in _effects(returned, surface):
        if isinstance(event, WorkerEvent) and isinstance(found, Spec):
            yield WatchingHook(event=event, at=found.at)
        else:
            yield found


def _effects(returned: Value, surface: Surface) -> Iterator[Found]:
    if isinstance(returned, Array):
        yield from _entries(returned, surface)
        return
    if not isinstance(returned, Table):
        return
    listed = returned.value("effects")
    reminder = returned.value("reminder")
    if reminder is not None:
        yield _spec(reminder, surface)
    if isinstance(listed, Array):
        yield from _entries(listed, surface)
    elif listed is not None and not isinstance(listed, Unknown):
        yield NotAnEffect(surface=surface, value=listed, complaint="effects must be a list")
    if reminder is None and listed is None and _is_bare(returned, surface):
        yield _spec(_without_then(returned), surface)


def _is_bare(returned: Table, surface: Surface) -> bool:
    return "body" in returned and (surface is Surface.PROVIDER or not _has_action(returned))


def _without_then(returned: Table) -> Table:
    entries = tuple(entry for entry in returned.entries if entry.key != "then")
    return msgspec.structs.replace(returned, entries=entries)


def _has_action(table: Table) -> bool:
    return any(entry.key in ACTION_KEYS for entry in table.entries)


def _entries(listed: Array, surface: Surface) -> Iterator[Found]:
    for entry in listed.items:
        if isinstance(entry, Unknown):
            continue
        spec = _entry(entry)
        if spec is not None:
            yield _spec(spec, surface)
        elif not (isinstance(entry, Table) and entry.open):
            complaint = "an entry of a list of effects must be a reminder and nothing else"
            yield NotAnEffect(surface=surface, value=entry, complaint=complaint)


def _entry(entry: Value) -> Value | None:
    if not isinstance(entry, Table) or "then" in entry or _has_action(entry):
        return None
    label = entry.value("type") if "type" in entry else entry.value("kind")
    if text_of(label) == "reminder" and "spec" in entry:
        return entry.value("spec")
    if "reminder" in entry:
        return entry.value("reminder")
    return entry if "body" in entry else None


def _spec(value: Value, surface: Surface) -> Spec:
    return Spec(surface=surface, value=value, at=value.at)


# Frames.


def method_surface(method: str | None) -> Surface | None:
    """The surface behind a method of a protocol, also under our own prefix."""
    return None if method is None else METHODS.get(method.removeprefix(OWN_PREFIX))


def frame(table: Table) -> Spec | None:
    """The reminder in a JSON-RPC message that brings one, else None."""
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
    """`session/remind` may have its fields in `reminder`, and may leave some to `_meta.harn.reminder`."""
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
    """The ids in `{"providers": [...]}`; a list that is not all text is none."""
    entry = options.get("providers") if isinstance(options, Table) else None
    if entry is None or not isinstance(entry.value, Array):
        return None
    ids = tuple(name for item in entry.value.items if (name := text_of(item)) is not None)
    known = all(isinstance(item, Unknown) or text_of(item) is not None for item in entry.value.items)
    return ProviderChoice(ids=ids, at=entry.at) if ids and known else None
