"""From what was found to what is wrong with it; whether a reminder is accepted is asked of the parser itself."""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, assert_never

from sideband.core.draft import Draft
from sideband.core.errors import InvalidReminder, ReminderError, UnknownOption, shown
from sideband.core.hookevents import read_hook_event, read_provider_event, refuse_worker_event
from sideband.core.inbox import check_body_size
from sideband.core.lifecycle import Selector
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.parse import parse
from sideband.core.reminder import Propagate
from sideband.core.seams import Mode
from sideband.core.surfaces import CLAIMS, RULES, Surface, spelled
from sideband.core.trust import CEILINGS, Trust
from sideband.lint.advice import body_problems
from sideband.lint.found import (
    Clearing,
    Found,
    HookEvent,
    Model,
    NotAnEffect,
    Problem,
    ProviderChoice,
    ProviderEvent,
    ProviderId,
    RepeatedKey,
    Spec,
    WatchingHook,
)
from sideband.lint.literals import STAND_IN, Entry, Position, Scalar, Table, Unknown, plain
from sideband.lint.routes import loses_hint

UNKEPT_HINT: Final = "HARN-RMD-003"
UNENDING: Final = "HARN-RMD-004"
ENDLESS_FOR_ALL: Final = "SIDEBAND-104"
WITHOUT_EFFECT: Final = "SIDEBAND-105"
TOO_LARGE: Final = "SIDEBAND-106"

# What each field may be, for where its value is not known or has been refused already.
STAND_INS: Final[Mapping[str, object]] = MappingProxyType(
    {
        "body": STAND_IN,
        "tags": (),
        "dedupe_key": STAND_IN,
        "ttl_turns": 1,
        "preserve_on_compact": True,
        "propagate": Propagate.SESSION.value,
        "role_hint": "system",
        "mode": Mode.FINISH_STEP.value,
        "id": STAND_IN,
        "source": STAND_IN,
        "fired_at_turn": 0,
        "originating_agent_id": STAND_IN,
        "_meta": {},
    }
)
_INSIDE: Final = re.compile(r"[.\[]")
# How far a surface is trusted at best, where that is less than the session's own side.
TRUST: Final[Mapping[Surface, Trust]] = MappingProxyType(
    {Surface.A2A: Trust.PEER, Surface.A2A_METADATA: Trust.PEER, Surface.MCP: Trust.SERVER}
)


def problems(found: Found, models: tuple[str, ...]) -> Iterator[Problem]:
    """What is wrong with one thing that was found in a file that names these models."""
    match found:
        case Spec():
            yield from _spec_problems(found, models)
        case RepeatedKey(entry=entry):
            error: ReminderError = InvalidReminder(f"key {shown(entry.key)} stands twice in one object")
            yield _problem(error, entry.at, key=_name(entry.key))
        case NotAnEffect(surface=surface, value=value, complaint=complaint):
            error = RULES[surface].invalid(f"{complaint}, not {shown(plain(value))}")
            yield _problem(error, value.at, key="effects")
        case WatchingHook(event=event, at=at):
            yield from _refused(lambda: refuse_worker_event(event), at)
        case HookEvent(name=name):
            yield from _refused(lambda: read_hook_event(name.value), name.at)
        case ProviderEvent(name=name):
            yield from _refused(lambda: read_provider_event(name.value), name.at)
        case Clearing(selector=selector):
            yield from _clearing_problems(selector)
        case ProviderId() | ProviderChoice() | Model():
            # These mean something only together with the rest of the files.
            return
        case _:
            assert_never(found)


def _problem(error: ReminderError, at: Position, *, code: str = "", key: str | None = None) -> Problem:
    code = error.code or code
    return Problem(code, at, str(error).removeprefix(f"{code}: "), key or error.field)


def _refused(attempt: Callable[[], object], at: Position) -> Iterator[Problem]:
    try:
        attempt()
    except ReminderError as error:
        yield _problem(error, at)


def _name(key: object) -> str:
    return key if isinstance(key, str) else shown(key)


def _clearing_problems(selector: Table) -> Iterator[Problem]:
    known = Selector.__struct_fields__
    given = {}
    for entry in selector.entries:
        if entry.key not in known:
            message = f"clear_reminders has no option {shown(entry.key)}; known are {', '.join(known)}"
            yield _problem(UnknownOption(message), entry.at, key=_name(entry.key))
        elif _is_given(entry):
            given[_name(entry.key)] = STAND_IN
    if not selector.open:
        yield from _refused(lambda: Selector(**given), selector.at)


def _is_given(entry: Entry | None) -> bool:
    return entry is not None and not (isinstance(entry.value, Scalar) and entry.value.value is None)


# One reminder.


def _spec_problems(spec: Spec, models: tuple[str, ...]) -> Iterator[Problem]:
    if isinstance(spec.value, Unknown):
        return
    if not isinstance(spec.value, Table):
        value = plain(spec.value)
        yield from _refused(lambda: parse(value, spec.surface), spec.value.at)
        return
    refusals = list(_refusals(spec, spec.value))
    yield from refusals
    yield from _keys_passed_over(spec.value, spec.surface)
    if not _says(_field(spec.value, spec.surface, "mode"), Mode.AUDIT_ONLY):
        yield from _lifetime_problems(spec, spec.value)
        yield from _hint_problems(spec.value, spec.surface, models)
    body = _field(spec.value, spec.surface, "body")
    if body is not None and body.key not in {problem.key for problem in refusals}:
        yield from body_problems(body)
        yield from _size_problems(spec, body)


def _field(table: Table, surface: Surface, field: str) -> Entry | None:
    return table.get(spelled(field, RULES[surface].case))


def _says(entry: Entry | None, word: str) -> bool:
    return entry is not None and isinstance(entry.value, Scalar) and entry.value.value == word


def _refusals(spec: Spec, table: Table) -> Iterator[Problem]:
    """Everything that the parser refuses: each field it names is put right, and the rest is tried again."""
    rules = RULES[spec.surface]
    stand_ins = {spelled(field, rules.case): STAND_INS[field] for field in rules.fields}
    payload = _payload(spec, table, stand_ins)
    settled: set[object] = set()
    while (error := _refusal(payload, spec.surface)) and (key := _key(error)) not in settled:
        settled.add(key)
        entry = table.get(key)
        found = _problem(error, entry.at if entry else spec.at, code=rules.invalid.code or "")
        yield _as_ignored(found, error) if spec.lenient else found
        if key in stand_ins:
            payload[key] = stand_ins[_name(key)]
        else:
            payload.pop(key, None)


def _refusal(payload: object, surface: Surface) -> ReminderError | None:
    try:
        parse(payload, surface)
    except ReminderError as error:
        return error
    return None


def _key(error: ReminderError) -> object:
    """The key that an error is about; of a place inside its value, as in `tags[1]`, the beginning."""
    if isinstance(error, UnknownOption):
        return error.value
    return None if error.field is None else _INSIDE.split(error.field)[0]


def _payload(spec: Spec, table: Table, stand_ins: Mapping[str, object]) -> dict[object, object]:
    """What the parser is asked about: the fields as written, and for what nobody knows something that passes."""
    payload = {
        entry.key: stand_ins.get(_name(entry.key), STAND_IN) if isinstance(entry.value, Unknown) else plain(entry.value)
        for entry in table.entries
        if not (spec.lenient and entry.key in {"id", *CLAIMS})
    }
    required = {"body", "id"} & stand_ins.keys() if table.open else set()
    return {**{key: stand_ins[key] for key in required}, **payload}


def _as_ignored(refusal: Problem, error: ReminderError) -> Problem:
    instead = "is passed over" if isinstance(error, UnknownOption) else "gives way to the default"
    message = f"{refusal.key} {instead} in transcript_reminder_event: {refusal.message}"
    return refusal._replace(code=WITHOUT_EFFECT, message=message)


def _keys_passed_over(table: Table, surface: Surface) -> Iterator[Problem]:
    rules = RULES[surface]
    if rules.skips_unknown:
        known = [spelled(field, rules.case) for field in rules.fields]
        for entry in table.entries:
            if entry.key not in known:
                message = f"{surface.value} passes over {shown(entry.key)}; known are {', '.join(known)}"
                yield Problem(WITHOUT_EFFECT, entry.at, message, _name(entry.key))


def _lifetime_problems(spec: Spec, table: Table) -> Iterator[Problem]:
    surface = spec.surface
    if CEILINGS[_trust(surface)].max_ttl is not None:
        return  # a source on this level gets a TTL whether it asks for one or not
    ttl, keep = (spelled(field, RULES[surface].case) for field in ("ttl_turns", "preserve_on_compact"))
    if _is_given(table.get(ttl)) or table.open:
        return
    preserve = table.get(keep)
    if not _is_given(preserve) or _says_false(preserve):
        message = f"without {ttl} only a compaction ends it; give it {ttl}, or set {keep} if it is to last"
        yield Problem(UNENDING, preserve.at if preserve else spec.at, message, ttl)
    propagate = _field(table, surface, "propagate")
    if propagate is not None and _says(propagate, Propagate.ALL):
        message = f"it goes to all sub-agents and never ends there; give it {ttl}"
        yield Problem(ENDLESS_FOR_ALL, propagate.at, message, ttl)


def _says_false(entry: Entry | None) -> bool:
    return entry is not None and isinstance(entry.value, Scalar) and entry.value.value is False


def _trust(surface: Surface) -> Trust:
    return TRUST.get(surface, Trust.OPERATOR)


def _hint_problems(table: Table, surface: Surface, models: tuple[str, ...]) -> Iterator[Problem]:
    hint = _field(table, surface, "role_hint")
    if surface in TRUST or hint is None or not isinstance(hint.value, Scalar):
        return
    model = loses_hint(hint.value.value, models)
    if model is not None:
        message = f"{model} has no {shown(hint.value.value)}; the reminder will be shown in another shape"
        yield Problem(UNKEPT_HINT, hint.at, message, _name(hint.key))


def _size_problems(spec: Spec, body: Entry) -> Iterator[Problem]:
    if spec.lenient or not isinstance(body.value, Scalar) or not isinstance(body.value.value, str):
        return
    text = body.value.value.strip() if RULES[spec.surface].trims_body else body.value.value
    try:
        check_body_size(Draft(body=text), _trust(spec.surface), DEFAULT_LIMITS)
    except ReminderError as error:
        yield _problem(error, body.at, code=TOO_LARGE)
