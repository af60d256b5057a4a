"""What a provider is, and the context it is evaluated in."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from sideband.core.hookevents import SessionEvent, WorkerEvent
from sideband.providers.settings import Setting
from sideband.recall.facts import FactBook


class MountMode(StrEnum):
    """What an agent may do in a mounted root."""

    READ_ONLY = "read_only"
    EXTEND = "extend"
    SANDBOXED = "sandboxed"


class MountedRoot(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    mode: MountMode


class WorkspaceAnchor(msgspec.Struct, frozen=True, kw_only=True):
    """The primary path that a session works in, and further mounted roots."""

    primary: str
    roots: tuple[MountedRoot, ...] = ()


class ProviderContext(msgspec.Struct, frozen=True, kw_only=True):
    """One event as a provider sees it.

    `payload` belongs to the event, `options` to the loop, and `config` is the provider's own part of the options.
    `profile` describes the model (its `context_window`). `profile`, `facts` and `anchor` are None if the loop has none.
    """

    event: str
    session: Any = None
    session_id: str = ""
    payload: dict[str, Any] = {}
    options: dict[str, Any] = {}
    config: dict[str, Any] = {}
    profile: Mapping[str, Any] | None = None
    facts: FactBook | None = None
    anchor: WorkspaceAnchor | None = None
    task: str = ""


class FactSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a provider recalls facts from: the store that `root` names by URL or path, or by default the session's."""

    root: str | None = None


Evaluate: TypeAlias = Callable[[ProviderContext], Any]


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A function that is called at some events and may return reminders; a `canonical` one is built in and pure.

    `evaluate` returns None, the fields of a reminder, `{"reminder": …}`, or a list of these. `settings` are the keys of
    its `config` (None: any). `recalls` says where the facts come from that the provider gets for an event; it returns
    None if the provider needs none.
    """

    id: str
    subscribes_to: tuple[SessionEvent | WorkerEvent, ...]
    evaluate: Evaluate
    canonical: bool = False
    settings: Mapping[str, Setting] | None = None
    recalls: Callable[[ProviderContext], FactSource | None] | None = None
