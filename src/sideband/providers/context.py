"""What a provider is, and what it may look at."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

from sideband.core.hookevents import SessionEvent, WorkerEvent
from sideband.recall.facts import FactBook


class MountMode(StrEnum):
    """What an agent may do below a mounted root."""

    READ_ONLY = "read_only"
    EXTEND = "extend"
    SANDBOXED = "sandboxed"


class MountedRoot(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    mode: MountMode


class WorkspaceAnchor(msgspec.Struct, frozen=True, kw_only=True):
    """The place a session works in, and what else is mounted beside it."""

    primary: str
    roots: tuple[MountedRoot, ...] = ()


class ProviderContext(msgspec.Struct, frozen=True, kw_only=True):
    """One event as a provider sees it.

    `payload` is the event's own, `options` those of the loop, `config` the provider's part of them. `profile` is what is
    known of the model (its `context_window`); None for it, `facts` or `anchor` means that there is none.
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


Evaluate: TypeAlias = Callable[[ProviderContext], Any]


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """Looks at some events and may answer with reminders; a `canonical` one is pure and part of this library.

    `evaluate` returns None, a reminder's fields, `{"reminder": …}`, or a list of these.
    """

    id: str
    subscribes_to: tuple[SessionEvent | WorkerEvent, ...]
    evaluate: Evaluate
    canonical: bool = False
