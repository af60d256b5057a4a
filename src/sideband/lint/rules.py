"""The rules: what is wrong with each use of an interface.

Whether a reminder is accepted is decided by calling the same parser as at run time.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, assert_never

from sideband.core.accept import Selector, check_body_size
from sideband.core.effects import NO_EFFECT, unpack
from sideband.core.errors import InvalidReminder, ReminderError, UnknownOption, nearest, shown
from sideband.core.explanation import Severity
from sideband.core.hookevents import read_hook_event, read_provider_event, refuse_worker_event
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.parse import parse
from sideband.core.reminder import Propagate, RoleHint
from sideband.core.seams import Mode
from sideband.core.surfaces import CLAIMS, RULES, Surface, spelled
from sideband.core.trust import CEILINGS, Trust
from sideband.lint.found import (
    ClearCall,
    Found,
    HookEvent,
    Ineffective,
    LintProblem,
    LoopReminders,
    NamedModel,
    NotAnEffect,
    ProviderChoice,
    ProviderEvent,
    ProviderId,
    RepeatedKey,
    Spec,
    WatchingHook,
)
from sideband.lint.literals import STAND_IN, Array, Position, Scalar, Table, TableEntry, Unknown, Value, plain
from sideband.providers.registry import CANONICAL
from sideband.providers.settings import check_id, check_settings, read_options
from sideband.render.escape import neutralise

UNKEPT_HINT: Final = "HARN-RMD-003"
UNENDING: Final = "HARN-RMD-004"
SECRECY: Final = "SIDEBAND-101"
VOLATILE: Final = "SIDEBAND-102"
FRAMING: Final = "SIDEBAND-103"
ENDLESS_FOR_ALL: Final = "SIDEBAND-104"
WITHOUT_EFFECT: Final = "SIDEBAND-105"

# A valid value for each field, used where the written value is unknown or has already been reported.
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
# The settings of the canonical providers.
SETTINGS: Final = MappingProxyType({provider.id: provider.settings or {} for provider in CANONICAL})
_INSIDE: Final = re.compile(r"[.\[]")
# The highest trust level that a surface can have; surfaces that are not listed can have the operator's.
TRUST: Final[Mapping[Surface, Trust]] = MappingProxyType(
    {Surface.A2A: Trust.PEER, Surface.A2A_METADATA: Trust.PEER, Surface.MCP: Trust.SERVER}
)


def problems(found: Found, models: tuple[str, ...], registered: Collection[str] = ()) -> Iterator[LintProblem]:
    """What is wrong with one use in a file that names these models; `registered` are the providers of all files."""
    match found:
        case Spec():
            yield from _spec_problems(found, models)
        case RepeatedKey(entry=entry):
            error = InvalidReminder(f"key {shown(entry.key)} occurs twice in one object")
            yield _problem(error, entry.at, key=_name(entry.key))
        case NotAnEffect(surface=surface, returned=returned, at=at):
            yield from _refused(lambda: unpack(returned, surface), at)
        case Ineffective(why=why, at=at):
            yield LintProblem(NO_EFFECT, at, why)
        case LoopReminders(value=value):
            yield from _loop_problems(value, registered)
        case WatchingHook(event=event, at=at):
            yield from _refused(lambda: refuse_worker_event(event), at)
        case HookEvent(name=name):
            yield from _refused(lambda: read_hook_event(name.value), name.at)
        case ProviderEvent(name=name):
            yield from _refused(lambda: read_provider_event(name.value), name.at)
        case ClearCall(selector=selector):
            yield from _clearing_problems(selector)
        case ProviderId() | ProviderChoice() | NamedModel():
            # `check` judges these, together with those of the other files.
            return
        case _:
            assert_never(found)


def _problem(error: ReminderError, at: Position, *, key: str | None = None) -> LintProblem:
    return LintProblem(error.code, at, str(error).removeprefix(f"{error.code}: "), key or error.field)


def _refused(attempt: Callable[[], object], at: Position) -> Iterator[LintProblem]:
    try:
        attempt()
    except ReminderError as error:
        yield _problem(error, at)


def _name(key: object) -> str:
    return key if isinstance(key, str) else shown(key)


def _clearing_problems(selector: Table) -> Iterator[LintProblem]:
    known = Selector.__struct_fields__
    given = {}
    for entry in selector.entries:
        if entry.key not in known:
            message = f"clear_reminders has no option {shown(entry.key)}; the options are {', '.join(known)}"
            yield _problem(UnknownOption(message), entry.at, key=_name(entry.key))
        elif _is_given(entry):
            given[_name(entry.key)] = STAND_IN
    if not selector.open:
        yield from _refused(lambda: Selector(**given), selector.at)


def _is_given(entry: TableEntry | None) -> bool:
    return entry is not None and not (isinstance(entry.value, Scalar) and entry.value.value is None)


# The `reminders` option of a loop.


def _loop_problems(options: Value, registered: Collection[str]) -> Iterator[LintProblem]:
    """What a loop would refuse when it starts; each part is read by itself, so that all mistakes are found."""
    if not isinstance(options, Table):
        if not isinstance(options, Unknown):
            yield from _refused(partial(read_options, {"reminders": plain(options)}), options.at)
        return
    for entry in options.entries:
        match entry:
            case TableEntry(key="providers", value=Array(items=items)):
                for item in items:
                    yield from _switch_problems(item, registered)
            case TableEntry(key="config", value=Table(entries=entries)):
                for configured in entries:
                    yield from _config_problems(configured, registered)
            case _:
                value = None if isinstance(entry.value, Unknown) else plain(entry.value)
                yield from _refused(partial(read_options, {"reminders": {entry.key: value}}), entry.at)


def _switch_problems(item: Value, registered: Collection[str]) -> Iterator[LintProblem]:
    if isinstance(item, Unknown):
        return
    try:
        options = read_options({"reminders": {"providers": [plain(item)]}})
    except ReminderError as error:
        yield _problem(error, item.at)
    else:
        switch = options.switches[0]
        yield from _unknown_provider(switch.removeprefix("-"), "providers", item.at, registered)
        if switch.startswith("-"):
            yield from _nothing_to_turn_off(switch.removeprefix("-"), item.at, registered)


def _config_problems(entry: TableEntry, registered: Collection[str]) -> Iterator[LintProblem]:
    provider_id = _name(entry.key)
    yield from _unknown_provider(provider_id, "config", entry.at, registered)
    if isinstance(entry.value, Table):
        # The settings of a registered provider are its own.
        checked = entry.value.entries if provider_id in SETTINGS and provider_id not in registered else ()
        for setting in checked:
            value = None if isinstance(setting.value, Unknown) else plain(setting.value)
            check = partial(check_settings, provider_id, {setting.key: value}, SETTINGS[provider_id])
            yield from _refused(check, setting.at)
    elif not isinstance(entry.value, Unknown):
        yield from _refused(
            partial(read_options, {"reminders": {"config": {provider_id: plain(entry.value)}}}), entry.at
        )


def _unknown_provider(provider_id: str, field: str, at: Position, registered: Collection[str]) -> Iterator[LintProblem]:
    """Report an id that resembles a known one. Any other may be registered in a file that is not checked."""
    known = (*SETTINGS, *registered)
    if provider_id not in known and nearest(provider_id, known) is not None:
        yield from _refused(partial(check_id, provider_id, known, field=field), at)


def _nothing_to_turn_off(provider_id: str, at: Position, registered: Collection[str]) -> Iterator[LintProblem]:
    """Advise on a provider to turn off that no checked file registers: a loop refuses it, unless another file does."""
    known = (*SETTINGS, *registered)
    if provider_id not in known and nearest(provider_id, known) is None:
        for problem in _refused(partial(check_id, provider_id, known, field="providers"), at):
            yield problem._replace(severity=Severity.ADVICE)


# One reminder.


def _spec_problems(spec: Spec, models: tuple[str, ...]) -> Iterator[LintProblem]:
    if isinstance(spec.value, Unknown):
        return
    if not isinstance(spec.value, Table):
        value = plain(spec.value)
        yield from _refused(lambda: parse(value, spec.surface), spec.value.at)
        return
    refusals = list(_refusals(spec, spec.value))
    yield from refusals
    yield from _ignored_keys(spec.value, spec.surface)
    if not _says(_field(spec.value, spec.surface, "mode"), Mode.AUDIT_ONLY):
        yield from _lifetime_problems(spec, spec.value)
        yield from _hint_problems(spec.value, spec.surface, models)
    body = _field(spec.value, spec.surface, "body")
    if body is not None and body.key not in {problem.key for problem in refusals}:
        yield from body_problems(body)
        yield from _size_problems(spec, body)


def _field(table: Table, surface: Surface, field: str) -> TableEntry | None:
    return table.get(spelled(field, RULES[surface].case))


def _says(entry: TableEntry | None, word: str) -> bool:
    return entry is not None and isinstance(entry.value, Scalar) and entry.value.value == word


def _refusals(spec: Spec, table: Table) -> Iterator[LintProblem]:
    """Everything that the parser refuses: after each error the field is replaced by a valid value, and parsed again."""
    rules = RULES[spec.surface]
    stand_ins = {spelled(field, rules.case): STAND_INS[field] for field in rules.fields}
    payload = _payload(spec, table, stand_ins)
    settled: set[object] = set()
    while (error := _refusal(payload, spec.surface)) and (key := _key(error)) not in settled:
        settled.add(key)
        entry = table.get(key)
        found = _problem(error, entry.at if entry else spec.at)
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
    """The key that an error is about: `tags` for an error in `tags[1]`."""
    if isinstance(error, UnknownOption):
        return error.value
    return None if error.field is None else _INSIDE.split(error.field)[0]


def _payload(spec: Spec, table: Table, stand_ins: Mapping[str, object]) -> dict[object, object]:
    """The fields as they are written, with valid values in place of unknown ones."""
    payload = {
        entry.key: stand_ins.get(_name(entry.key), STAND_IN) if isinstance(entry.value, Unknown) else plain(entry.value)
        for entry in table.entries
        if not (spec.lenient and entry.key in {"id", *CLAIMS})
    }
    required = {"body", "id"} & stand_ins.keys() if table.open else set()
    return {**{key: stand_ins[key] for key in required}, **payload}


def _as_ignored(refusal: LintProblem, error: ReminderError) -> LintProblem:
    instead = "ignores" if isinstance(error, UnknownOption) else "uses the default for"
    message = f"transcript_reminder_event {instead} {refusal.key}: {refusal.message}"
    return refusal._replace(code=WITHOUT_EFFECT, message=message)


def _ignored_keys(table: Table, surface: Surface) -> Iterator[LintProblem]:
    rules = RULES[surface]
    if rules.skips_unknown:
        known = [spelled(field, rules.case) for field in rules.fields]
        for entry in table.entries:
            if entry.key not in known:
                message = f"{surface.value} ignores {shown(entry.key)}; the known keys are {', '.join(known)}"
                yield LintProblem(WITHOUT_EFFECT, entry.at, message, _name(entry.key))


def _lifetime_problems(spec: Spec, table: Table) -> Iterator[LintProblem]:
    surface = spec.surface
    if CEILINGS[_trust(surface)].max_ttl is not None:
        return  # a TTL is set for every sender on this level
    ttl, keep = (spelled(field, RULES[surface].case) for field in ("ttl_turns", "preserve_on_compact"))
    if _is_given(table.get(ttl)) or table.open:
        return
    preserve = table.get(keep)
    if not _is_given(preserve) or _says_false(preserve):
        message = f"without {ttl}, only a compaction ends this reminder; set {ttl}, or set {keep} if it should last"
        yield LintProblem(UNENDING, preserve.at if preserve else spec.at, message, ttl)
    propagate = _field(table, surface, "propagate")
    if propagate is not None and _says(propagate, Propagate.ALL):
        message = f"this reminder goes to all sub-agents and never ends there; set {ttl}"
        yield LintProblem(ENDLESS_FOR_ALL, propagate.at, message, ttl)


def _says_false(entry: TableEntry | None) -> bool:
    return entry is not None and isinstance(entry.value, Scalar) and entry.value.value is False


def _trust(surface: Surface) -> Trust:
    return TRUST.get(surface, Trust.OPERATOR)


def _hint_problems(table: Table, surface: Surface, models: tuple[str, ...]) -> Iterator[LintProblem]:
    hint = _field(table, surface, "role_hint")
    if surface in TRUST or hint is None or not isinstance(hint.value, Scalar):
        return
    model = loses_hint(hint.value.value, models)
    if model is not None:
        message = f"{model} does not support {shown(hint.value.value)}; the reminder will be rendered in another form"
        yield LintProblem(UNKEPT_HINT, hint.at, message, _name(hint.key))


def _size_problems(spec: Spec, body: TableEntry) -> Iterator[LintProblem]:
    if spec.lenient or not isinstance(body.value, Scalar) or not isinstance(body.value.value, str):
        return
    text = body.value.value.strip() if RULES[spec.surface].trims_body else body.value.value
    try:
        check_body_size(text, _trust(spec.surface), DEFAULT_LIMITS)
    except ReminderError as error:
        yield _problem(error, body.at)


# Routes: which of them keep a role hint. A model is written `transport:model`.

# Hints that only some wires can express; all other hints can be rendered on every wire.
SHAPED_HINTS: Final = frozenset({RoleHint.USER_BLOCK, RoleHint.EPHEMERAL_CACHE})

KEEPS_SHAPES: Final[Mapping[str, bool]] = MappingProxyType(
    {
        "anthropic": True,
        "anthropic-bedrock": True,
        "anthropic-foundry": True,
        "anthropic-vertex": True,
        "openai": False,
        "openai-chat": False,
        "google": False,
        "openai-compatible": False,
        "local": False,
        "scripted": False,
    }
)

# Transports whose model may be left empty, as in `local:`.
NAMELESS: Final = frozenset({"local", "scripted"})


class UnknownRoute(ValueError):
    def __init__(self, model: str) -> None:
        transports = ", ".join(KEEPS_SHAPES)
        super().__init__(f"a model is written transport:model, not {model!a}; the transports are {transports}")


def is_route(model: str) -> bool:
    """Whether the name begins with a known transport; other names do not tell which wire is used."""
    transport, colon, name = model.partition(":")
    return bool(colon and (name or transport in NAMELESS)) and transport in KEEPS_SHAPES


def loses_hint(hint: object, models: Iterable[str]) -> str | None:
    """The first known model if no known model keeps the hint, else None."""
    routes = [model for model in models if is_route(model)]
    if hint not in SHAPED_HINTS or not routes or any(KEEPS_SHAPES[model.partition(":")[0]] for model in routes):
        return None
    return routes[0]


# Advice about the text of a body.

_NEVER: Final = r"(?:(?:do|must|should|shall|may|can)\s+not|cannot|(?:do|must|should|ca)n['\u2019]t|never|without)"
_TELL: Final = (
    r"(?:tell|telling|mention|mentioning|reveal|revealing|disclose|disclosing|inform|informing|notify|notifying"
    r"|let|letting|say|saying|show|showing|share|sharing|admit|admitting|acknowledge|acknowledging)"
)
_PERSON: Final = r"(?:the\s+)?(?:end[\s-]?)?(?:users?|humans?|customers?)\b"
_SECRECY: Final = re.compile(
    # Never mention this to the user; don't let the user know; without telling the user.
    rf"\b{_NEVER}\s+(?:ever\s+)?{_TELL}\b[^.;!?]{{0,60}}?\b{_PERSON}"
    # Do not mention this reminder.
    rf"|\b{_NEVER}\s+(?:ever\s+)?{_TELL}\s+(?:this|these|the)\s+(?:system\s+)?(?:reminder|message|notice|note|instruction)s?\b"
    # Keep this hidden from the user; hide it from the user.
    rf"|\b(?:keep|hide|conceal|withhold)\b[^.;!?]{{0,60}}?\bfrom\s+{_PERSON}"
    r"|\bkeep\s+(?:this|it)\s+(?:a\s+)?secret\b",
    re.IGNORECASE,
)

_VOLATILE: Final = re.compile(
    r"(?<!\d)\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}"  # a date with a time
    r"|(?<![\w:.])\d{1,2}:\d{2}:\d{2}(?![\w:])"  # a time with seconds
    r"|(?<![\w:.])\d{1,2}:\d{2}\s?(?:[ap]\.?m\b|UTC\b|GMT\b)"  # a time of day with AM, PM or a time zone
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"  # a UUID
    r"|(?<![\w.-])1[6-9]\d{8}(?:\d{3})?(?![\w-])",  # seconds or milliseconds since 1970
    re.IGNORECASE,
)
# Only the end of the dotted name is matched, because a module can be imported under any name.
_VOLATILE_CALLS: Final = re.compile(
    r"(?:^|\.)(?:datetime\.(?:now|utcnow|today)|date\.today|time\.(?:time|monotonic|perf_counter|strftime|ctime|asctime)"
    r"|time_ns|utcnow|monotonic|monotonic_ns|perf_counter|perf_counter_ns|uuid[1-8]"
    r"|token_(?:hex|urlsafe|bytes)|random\.\w+)$"
)

_PREFIX: Final = re.compile(r"^[ \t]*system reminder:", re.IGNORECASE | re.MULTILINE)
_SHOWN: Final = 24


def body_problems(body: TableEntry) -> Iterator[LintProblem]:
    """Advice about the text of a body."""
    match body.value:
        case Scalar(value=str() as text):
            calls: tuple[str, ...] = ()
        case Unknown(text=text, calls=calls):
            pass
        case _:
            return
    key = str(body.key)
    secret = _SECRECY.search(text)
    if secret:
        message = f"the body asks for secrecy: {_quoted(secret)}; state the fact instead"
        yield LintProblem(SECRECY, body.at, message, key)
    volatile = _VOLATILE.search(text)
    call = next((name for name in calls if _VOLATILE_CALLS.search(name)), None)
    if volatile or call:
        what = _quoted(volatile) if volatile else f"{call}()"
        yield LintProblem(VOLATILE, body.at, f"the body contains a value that changes every time: {what}", key)
    frame = _frame(text)
    if frame:
        message = f"the body contains its own frame, {frame!a}; leave it out, because the renderer adds one"
        yield LintProblem(FRAMING, body.at, message, key)


def _frame(text: str) -> str:
    """The beginning of the first frame in the text; empty if there is none."""
    for index, (written, defused) in enumerate(zip(text, neutralise(text), strict=False)):
        if written != defused:
            return text[index : index + _SHOWN]
    prefix = _PREFIX.search(text)
    return prefix.group().strip() if prefix else ""


def _quoted(match: re.Match[str]) -> str:
    return ascii(" ".join(match.group().split()))
