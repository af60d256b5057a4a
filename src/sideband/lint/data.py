"""The uses of our interfaces in a JSON or TOML document.

Most documents have nothing to do with reminders. What counts as ours, and nothing else:

* anywhere: a JSON-RPC message with a method that brings a reminder;
* at the top, in a list at the top, or on a line of its own: `reminder` or `reminders` with a reminder or a list of
  them; `hooks`, a list of objects with an `event` and a `reminder` or `effects`; `provider` together with `reminder`;
  `providers` with a list of names, alone or with `enabled` and `config`, also below `reminders`;
* there, too, a bare object with a `body` and one more field that only reminders have (not `tags`).

`reminders` beside `messages` are those of a request that `sideband render` shows: each has the fields of
`inject_reminder`, and may say who sends it.

A reminder that has both a source and a turn is a record of a session, not a request to one: it is left alone.
"""

from collections.abc import Iterator
from typing import Final

from sideband.core.errors import ReminderError
from sideband.core.hookevents import SessionEvent, WorkerEvent, read_hook_event
from sideband.core.surfaces import LIFECYCLE, Case, Surface, spelled
from sideband.lint.found import Found, HookEvent, Model, RepeatedKey, Spec
from sideband.lint.literals import Array, Scalar, Table, Value, tables_in, text_of
from sideband.lint.routes import is_route
from sideband.lint.shapes import TELLING, effects, frame, looks_like_spec, provider_choice

CONTAINERS: Final = frozenset({"reminder", "reminders", "hooks", "provider", "providers"})
# What a reminder of such a request may say of its sender.
SENDER_KEYS: Final = ("trust", "from")
CHOICE_KEYS: Final = frozenset({"providers", "enabled", "config"})
_CAMEL: Final = frozenset(name for field in LIFECYCLE if (name := spelled(field, Case.CAMEL)) != field)
_SNAKE: Final = frozenset(field for field in LIFECYCLE if spelled(field, Case.CAMEL) != field)


def found_in(document: Value) -> Iterator[Found]:
    """Everything of ours in a document."""
    for table in tables_in(document):
        sent = frame(table)
        if sent is not None:
            yield sent
            yield from _repeated(table)
        model = text_of(table.value("model"))
        if model is not None and is_route(model):
            yield Model(name=model)
    for top in document.items if isinstance(document, Array) else (document,):
        if isinstance(top, Table) and "jsonrpc" not in top and frame(top) is None:
            yield from _top(top)


def _top(table: Table) -> Iterator[Found]:
    bare = "body" in table and any(entry.key in TELLING for entry in table.entries) and not _is_record(table)
    found = (*_checked(table, _producer(table)),) if bare else (*_reminders(table), *_hooks(table))
    yield from found
    if found:
        yield from (RepeatedKey(entry=entry) for entry in table.repeated if entry.key in CONTAINERS)
    choice = provider_choice(table) if {entry.key for entry in table.entries} <= CHOICE_KEYS else None
    for chosen in (choice, provider_choice(table.value("reminders"))):
        if chosen is not None:
            yield chosen


def _reminders(table: Table) -> Iterator[Found]:
    """What stands in `reminder` and `reminders`, if any of it is a reminder."""
    from_provider = text_of(table.value("provider")) is not None
    in_request = isinstance(table.value("messages"), Array)
    for key in ("reminder", "reminders"):
        value = table.value(key)
        entries = value.items if isinstance(value, Array) else (value,)
        if any(isinstance(entry, Table) and _is_request(entry) for entry in entries):
            for entry in entries:
                if entry is None or (isinstance(entry, Table) and _is_record(entry)):
                    continue
                if in_request and isinstance(entry, Table):
                    yield from _checked(entry.without(*SENDER_KEYS), Surface.PIPELINE)
                else:
                    yield from _checked(entry, Surface.PROVIDER if from_provider else _producer(entry))


def _hooks(table: Table) -> Iterator[Found]:
    hooks = table.value("hooks")
    for hook in hooks.items if isinstance(hooks, Array) else ():
        name = hook.value("event") if isinstance(hook, Table) else None
        if isinstance(hook, Table) and isinstance(name, Scalar) and _brings_reminder(hook):
            yield HookEvent(name=name)
            yield from effects(hook, Surface.HOOK, event=_event(name))
            yield from _repeated(hook)


def _brings_reminder(hook: Table) -> bool:
    inside = [value for key in ("reminder", "effects") if (value := hook.value(key)) is not None]
    return any(_is_request(table) for value in inside for table in tables_in(value))


def _event(name: Scalar) -> SessionEvent | WorkerEvent | None:
    try:
        return read_hook_event(name.value)
    except ReminderError:
        return None


def _checked(value: Value, surface: Surface) -> Iterator[Found]:
    yield Spec(surface=surface, value=value, at=value.at)
    yield from _repeated(value)


def _repeated(value: Value) -> Iterator[Found]:
    for table in tables_in(value):
        yield from (RepeatedKey(entry=entry) for entry in table.repeated)


def _is_request(table: Table) -> bool:
    return looks_like_spec(table) and not _is_record(table)


def _is_record(table: Table) -> bool:
    """A reminder that a session has already made; only it knows source and turn."""
    return "source" in table and any(name in table for name in ("fired_at_turn", "firedAtTurn"))


def _producer(value: Value) -> Surface:
    """Where nothing says who produces it the spelling does: camelCase is sent over HTTP, snake_case is called."""
    keys = {entry.key for entry in value.entries} if isinstance(value, Table) else set()
    return Surface.HTTP if keys & _CAMEL and not keys & _SNAKE else Surface.SESSION
