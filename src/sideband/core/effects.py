"""What a hook or a provider returned: the reminders in it, and the action that remains."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from sideband.core.draft import Draft
from sideband.core.errors import InvalidOption, UnsupportedHookEvent, shown
from sideband.core.hookevents import WorkerEvent
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.parse import parse
from sideband.core.surfaces import RULES, Surface

# What a hook may decide: before a tool, after it, before a compaction.
DECISIONS: Final = frozenset({"deny", "args", "result", "block"})
# What a decision is called elsewhere. Nothing comes of it here, and whoever writes it has to hear that.
LOOKALIKES: Final = frozenset({"output", "modify", "decision", "action", "control"})
# A mapping with one of these decides something; it is an action, whatever else it has.
ACTION_KEYS: Final = DECISIONS | LOOKALIKES
# What goes with a decision and is none by itself.
_DETAILS: Final = frozenset({"reason", "truncated", "dropped_bytes"})


class Effects(NamedTuple):
    """The reminders to inject, in order, before the action is taken; None is the default action."""

    reminders: tuple[Draft, ...]
    action: Any


NO_EFFECTS: Final = Effects((), None)


def read_effects(
    returned: object, surface: Surface, *, event: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> Effects:
    """Read any of the return forms; a form that is none of them has no effect and is no error.

    `event` is what it answers: a hook on one that only observes cannot add reminders.
    """
    if returned is None:
        return NO_EFFECTS
    specs, action = _unpacked(returned, surface)
    if specs and surface is Surface.HOOK and event in WorkerEvent.__members__.values():
        raise UnsupportedHookEvent(str(event))
    return Effects(tuple(parse(spec, surface, limits=limits) for spec in specs), action)


def action_of(returned: object) -> object:
    """The action alone, for a return whose reminders are refused: a denial must not be lost with them.

    Of two actions `then` is the one that counts, except that a denial is a denial wherever it stands.
    """
    if not isinstance(returned, Mapping):
        return None
    beside = _remaining_action(returned)
    return returned["then"] if "then" in returned and not (beside and _denies(beside)) else beside


def _unpacked(returned: object, surface: Surface) -> tuple[list[object], object]:
    if isinstance(returned, Mapping):
        return _from_mapping(returned, surface)
    if isinstance(returned, list | tuple):
        return [_from_entry(entry, surface) for entry in returned], None
    return [], None


def _from_mapping(returned: Mapping[str, object], surface: Surface) -> tuple[list[object], object]:
    action = action_of(returned)
    specs = [returned["reminder"]] if "reminder" in returned else []
    if "effects" in returned:
        specs += _unpacked_effects(returned["effects"], surface)
    if specs or not _is_bare(returned, surface):
        return specs, action
    return [{key: value for key, value in returned.items() if key != "then"}], action


def _is_bare(returned: Mapping[str, object], surface: Surface) -> bool:
    """Whether it is a reminder by itself; beside a hook's decision a body says nothing, a provider decides nothing."""
    return "body" in returned and (surface is Surface.PROVIDER or not ACTION_KEYS.intersection(returned))


def _remaining_action(returned: Mapping[str, object]) -> dict[str, object] | None:
    if not ACTION_KEYS.intersection(returned):
        return None
    return {key: value for key, value in returned.items() if key in ACTION_KEYS or key in _DETAILS}


def _unpacked_effects(effects: object, surface: Surface) -> list[object]:
    if not isinstance(effects, list | tuple):
        raise RULES[surface].invalid(f"effects must be a list, not {shown(effects)}", field="effects", value=effects)
    return [_from_entry(entry, surface) for entry in effects]


def _from_entry(entry: object, surface: Surface) -> object:
    """One entry of a list of effects: unlike a whole return value it must be one, and it decides nothing."""
    if isinstance(entry, Mapping) and "then" not in entry and not ACTION_KEYS.intersection(entry):
        if entry.get("type", entry.get("kind")) == "reminder" and "spec" in entry:
            return entry["spec"]
        if "reminder" in entry:
            return entry["reminder"]
        if "body" in entry:
            return entry
    raise RULES[surface].invalid(
        f"an entry of a list of effects must be a reminder and nothing else, not {shown(entry)}",
        field="effects",
        value=entry,
    )


class Phase(StrEnum):
    """On which side of a tool call a hook stands."""

    BEFORE = "before"
    AFTER = "after"


class Deny(NamedTuple):
    """The call is not made; the model is told why."""

    reason: str


class ReplaceArgs(NamedTuple):
    args: Mapping[str, Any]


class ReplaceResult(NamedTuple):
    """`dropped_bytes` is how much a hook that shortened the result left out; None where it did not shorten it."""

    result: Any
    dropped_bytes: int | None = None

    @property
    def truncated(self) -> bool:
        return self.dropped_bytes is not None


ToolAction: TypeAlias = Deny | ReplaceArgs | ReplaceResult

# Who says that it does not deny wants nothing.
_NO_DENIAL: Final = ({"deny": False}, {"deny": None})


def read_tool_action(action: object, phase: Phase) -> ToolAction | None:
    """What a tool hook wants done; None where it wants nothing. What is no action on that side of the call is an error."""
    if isinstance(action, Mapping):
        if phase is Phase.AFTER and "result" in action:
            return _replaced_result(action)
        if phase is Phase.BEFORE and _denies(action):
            return Deny(_reason(action))
        if phase is Phase.BEFORE and isinstance(action.get("args"), Mapping):
            return ReplaceArgs(action["args"])
    if action is None or action == {} or action in _NO_DENIAL:
        return None
    wanted = "'deny' or 'args'" if phase is Phase.BEFORE else "'result'"
    raise InvalidOption(
        f"the action of a hook {phase.value} a tool is {wanted}; nothing is done about {shown(action)}",
        field="then",
        value=action,
    )


def _denies(action: Mapping[str, Any]) -> bool:
    deny = action.get("deny")
    return deny is not None and deny is not False


def _reason(action: Mapping[str, Any]) -> str:
    reason = action["deny"] if isinstance(action["deny"], str) else action.get("reason")
    return reason if isinstance(reason, str) and reason.strip() else "denied by a hook"


def _replaced_result(action: Mapping[str, Any]) -> ReplaceResult:
    if action.get("truncated") is not True:
        return ReplaceResult(action["result"])
    dropped = action.get("dropped_bytes")
    if not isinstance(dropped, int) or isinstance(dropped, bool) or dropped < 0:
        raise InvalidOption(
            f"a shortened result must say how many dropped_bytes, not {shown(dropped)}",
            field="dropped_bytes",
            value=dropped,
        )
    return ReplaceResult(action["result"], dropped)
