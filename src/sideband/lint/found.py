"""What the readers of files hand to the rules: uses of our interfaces, each with its place."""

from typing import NamedTuple, TypeAlias

import msgspec

from sideband.core.hookevents import WorkerEvent
from sideband.core.surfaces import Surface
from sideband.lint.literals import Entry, Position, Scalar, Table, Value


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder as a producer wrote it; `lenient` is a place that replaces what it cannot use."""

    surface: Surface
    value: Value
    at: Position
    lenient: bool = False


class RepeatedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that its object already had."""

    entry: Entry


class NotAnEffect(msgspec.Struct, frozen=True, kw_only=True):
    """Something among the effects of a hook or provider that is none."""

    surface: Surface
    value: Value
    complaint: str


class WatchingHook(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder that answers an event which can only be watched."""

    event: WorkerEvent
    at: Position


class HookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The name of the event that a hook is registered for."""

    name: Scalar


class ProviderEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The name of an event that a provider subscribes to."""

    name: Scalar


class Clearing(msgspec.Struct, frozen=True, kw_only=True):
    """The selector of a `clear_reminders`."""

    selector: Table


class ProviderId(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that is registered."""

    id: str
    at: Position


class ProviderChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The providers that one loop switches on and, with a dash in front, off."""

    ids: tuple[str, ...]
    at: Position


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model that the file names, `transport:model`."""

    name: str


Found: TypeAlias = (
    Spec
    | RepeatedKey
    | NotAnEffect
    | WatchingHook
    | HookEvent
    | ProviderEvent
    | Clearing
    | ProviderId
    | ProviderChoice
    | Model
)


class Problem(NamedTuple):
    """A finding before it has a file; `key` is the option it is about, if it is about one."""

    code: str
    at: Position
    message: str
    key: str | None = None
