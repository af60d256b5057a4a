"""What hooks and providers return: the reminders to inject, and the action of a hook."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from sideband.core.errors import InvalidOption, UnknownOption, UnsupportedHookEvent, shown, suggestion
from sideband.core.hookevents import WorkerEvent
from sideband.core.limits import DEFAULT_LIMITS, Limits
from sideband.core.parse import parse
from sideband.core.reminder import Draft
from sideband.core.surfaces import RULES, Surface

# The actions of hooks: `deny` and `args` before a tool, `result` after it, `block` before a compaction.
DECISIONS: Final = frozenset({"deny", "args", "result", "block"})
# Names of actions in other frameworks. They are read as actions, so that the author gets an error and not silence.
LOOKALIKES: Final = frozenset({"output", "modify", "decision", "action", "control"})
# A mapping with one of these keys is an action, whatever other keys it has.
ACTION_KEYS: Final = DECISIONS | LOOKALIKES
# Keys that belong to an action and are not one by themselves.
_DETAILS: Final = frozenset({"reason", "truncated", "dropped_bytes"})
# The keys by which a returned mapping is recognised: those of a reminder, and those that only hooks have.
_RESULT_KEYS: Final = frozenset({"body", "reminder"})
_HOOK_KEYS: Final = ACTION_KEYS | {"effects", "then"}
# The keys of an entry of a list that wraps a reminder.
_WRAPPER_KEYS: Final = frozenset({"reminder", "spec", "type", "kind"})
# The keys that a hook may return beside `reminder` and `effects`, as errors list them.
_KNOWN_KEYS: Final = ("reminder", "effects", "then", *sorted(DECISIONS), *sorted(_DETAILS))

NO_EFFECT: Final = "SIDEBAND-108"
HOOK_RETURNS: Final = (
    'a hook returns None, a reminder, {"reminder": {...}, "then": {...}}, {"effects": [...]} or a list of reminders'
)


# Reminders.


class Effects(NamedTuple):
    """The reminders to inject, in order, before the action is taken; `action` is None if there is none."""

    reminders: tuple[Draft, ...]
    action: Any


NO_EFFECTS: Final = Effects((), None)


def read_effects(
    returned: object, surface: Surface, *, event: str | None = None, limits: Limits = DEFAULT_LIMITS
) -> Effects:
    """Read a returned value.

    A value that has none of the known forms has no effect if a hook returned it; from a provider it is an error. `event` is the event that the hook ran for; reminders of a hook on a worker event raise `UnsupportedHookEvent`.
    """
    if returned is None:
        return NO_EFFECTS
    specs, action = unpack(returned, surface)
    if specs and surface is Surface.HOOK and event in WorkerEvent.__members__.values():
        raise UnsupportedHookEvent(str(event))
    return Effects(tuple(parse(spec, surface, limits=limits) for spec in specs), action)


def action_of(returned: object) -> object:
    """The action of a returned value. It counts even if the reminders beside it are refused.

    `then` takes precedence over an action at the top level, unless that action is a denial.
    """
    if not isinstance(returned, Mapping):
        return None
    top_level = _top_level_action(returned)
    return returned["then"] if "then" in returned and not (top_level and _denies(top_level)) else top_level


def unpack(returned: object, surface: Surface) -> tuple[list[object], object]:
    """The unparsed reminders in a returned value, and its action. A list of effects may hold nothing but reminders."""
    if isinstance(returned, list | tuple):
        return [_from_entry(entry, surface) for entry in returned], None
    if surface is Surface.PROVIDER and not (isinstance(returned, Mapping) and _RESULT_KEYS.intersection(returned)):
        raise RULES[surface].invalid(
            f'a provider must return None, a reminder, {{"reminder": ...}} or a list of these, not {shown(returned)}',
            value=returned,
        )
    return _from_mapping(returned, surface) if isinstance(returned, Mapping) else ([], None)


def ignored(returned: object) -> str | None:
    """Why the return value of a hook is ignored, if it has none of the forms of an effect or an action; else None."""
    if isinstance(returned, Mapping):
        has_effect = bool((_RESULT_KEYS | _HOOK_KEYS).intersection(returned))
    else:
        has_effect = returned is None or isinstance(returned, list | tuple)
    return None if has_effect else f"{shown(returned)} is ignored: {HOOK_RETURNS}"


def _from_mapping(returned: Mapping[str, object], surface: Surface) -> tuple[list[object], object]:
    _refuse_unknown_keys(returned, surface)
    action = action_of(returned)
    specs = [returned["reminder"]] if "reminder" in returned else []
    if "effects" in returned and surface is not Surface.PROVIDER:
        specs += _from_effects(returned["effects"], surface)
    if specs or not _is_reminder(returned, surface):
        return specs, action
    if surface is Surface.PROVIDER:
        return [returned], None
    return [{key: value for key, value in returned.items() if key != "then"}], action


def _refuse_unknown_keys(returned: Mapping[Any, object], surface: Surface) -> None:
    """Refuse keys beside `reminder` and `effects` that would be ignored; a bare reminder is checked by the parser."""
    if surface is Surface.PROVIDER:
        if "reminder" in returned and len(returned) > 1:
            more = ", ".join(shown(key) for key in returned if key != "reminder")
            raise RULES[surface].invalid(
                f'a provider that returns {{"reminder": ...}} may return no other key; remove {more}', value=returned
            )
    elif "reminder" in returned or "effects" in returned:
        for key in returned:
            if key not in _KNOWN_KEYS and key not in LOOKALIKES:
                raise UnknownOption(
                    f"the result of a hook has no key {shown(key)} beside a reminder; "
                    f"{suggestion(key, _KNOWN_KEYS, kind='keys')}",
                    field=key if isinstance(key, str) else shown(key),
                    value=key,
                )


def _is_reminder(returned: Mapping[str, object], surface: Surface) -> bool:
    """Whether the mapping itself is a reminder. `body` is ignored if a hook returns an action; providers have no actions."""
    return "body" in returned and (surface is Surface.PROVIDER or not ACTION_KEYS.intersection(returned))


def _top_level_action(returned: Mapping[str, object]) -> dict[str, object] | None:
    if not ACTION_KEYS.intersection(returned):
        return None
    return {key: value for key, value in returned.items() if key in ACTION_KEYS or key in _DETAILS}


def _from_effects(effects: object, surface: Surface) -> list[object]:
    if not isinstance(effects, list | tuple):
        raise RULES[surface].invalid(f"effects must be a list, not {shown(effects)}", field="effects", value=effects)
    return [_from_entry(entry, surface) for entry in effects]


def _from_entry(entry: object, surface: Surface) -> object:
    """The reminder in an entry of a list of effects. An entry must be a reminder and cannot hold anything else."""
    if isinstance(entry, Mapping):
        if "body" in entry and "then" not in entry and not ACTION_KEYS.intersection(entry):
            return entry
        if _WRAPPER_KEYS.issuperset(entry):
            if entry.get("type", entry.get("kind")) == "reminder" and "spec" in entry:
                return entry["spec"]
            if "reminder" in entry:
                return entry["reminder"]
    raise RULES[surface].invalid(
        f"an entry of a list of effects must be a reminder with nothing beside it, not {shown(entry)}",
        field="effects",
        value=entry,
    )


# Actions of tool hooks.


class ToolPhase(StrEnum):
    """Whether a hook runs before or after a tool call."""

    BEFORE = "before"
    AFTER = "after"


class Deny(NamedTuple):
    """The tool is not run, and the model gets the reason."""

    reason: str


class ReplaceArgs(NamedTuple):
    args: Mapping[str, Any]


class ReplaceResult(NamedTuple):
    """`dropped_bytes` is the number of bytes that the hook cut from the result; None if it cut nothing."""

    result: Any
    dropped_bytes: int | None = None

    @property
    def truncated(self) -> bool:
        return self.dropped_bytes is not None


ToolAction: TypeAlias = Deny | ReplaceArgs | ReplaceResult

# An explicit "no denial" is not an action.
_NO_DENIAL: Final = ({"deny": False}, {"deny": None})


def read_tool_action(action: object, phase: ToolPhase) -> ToolAction | None:
    """The action of a tool hook, or None. An action that the phase does not have raises `InvalidOption`."""
    if isinstance(action, Mapping):
        if phase is ToolPhase.AFTER and "result" in action:
            return _read_result(action)
        if phase is ToolPhase.BEFORE and _denies(action):
            return Deny(_denial_reason(action))
        if phase is ToolPhase.BEFORE and isinstance(action.get("args"), Mapping):
            return ReplaceArgs(action["args"])
    if action is None or action == {} or action in _NO_DENIAL:
        return None
    wanted = "'deny' or 'args'" if phase is ToolPhase.BEFORE else "'result'"
    raise InvalidOption(
        f"the action of a hook {phase.value} a tool must be {wanted}; {shown(action)} is ignored",
        field="then",
        value=action,
    )


def _denies(action: Mapping[str, Any]) -> bool:
    deny = action.get("deny")
    return deny is not None and deny is not False


def _denial_reason(action: Mapping[str, Any]) -> str:
    reason = action["deny"] if isinstance(action["deny"], str) else action.get("reason")
    return reason if isinstance(reason, str) and reason.strip() else "denied by a hook"


def _read_result(action: Mapping[str, Any]) -> ReplaceResult:
    if action.get("truncated") is not True:
        return ReplaceResult(action["result"])
    dropped = action.get("dropped_bytes")
    if not isinstance(dropped, int) or isinstance(dropped, bool) or dropped < 0:
        raise InvalidOption(
            f"a result with truncated=True needs dropped_bytes, a whole number of at least 0, not {shown(dropped)}",
            field="dropped_bytes",
            value=dropped,
        )
    return ReplaceResult(action["result"], dropped)
