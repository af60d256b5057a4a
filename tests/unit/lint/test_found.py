"""The forms around a reminder: on written values they are read exactly as at run time."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sideband.core.diagnostics import DIAGNOSTICS
from sideband.core.effects import ACTION_KEYS, read_effects
from sideband.core.errors import ReminderError
from sideband.core.explanation import Severity
from sideband.core.hookevents import WorkerEvent
from sideband.core.surfaces import Surface
from sideband.lint.found import Found, ProviderChoice, effects, frame, provider_choice, request
from sideband.lint.literals import START, Array, Scalar, Table, TableEntry, Unknown, Value, plain, table_of
from sideband.lint.rules import problems


def written(value: object) -> Value:
    """A Python value as if it had been read from a file; an ellipsis is a value known only at run time."""
    match value:
        case dict():
            entries = [
                TableEntry(key=key, value=written(inner), at=START) for key, inner in value.items() if key is not ...
            ]
            return table_of(entries, START, is_open=... in value)
        case list() | tuple():
            return Array(items=tuple(map(written, value)), at=START)
        case _ if value is ...:
            return Unknown(at=START)
        case _:
            return Scalar(value=value, at=START)


GOOD = {"body": "The build is red.", "ttl_turns": 1}
SPECS = st.sampled_from(
    [GOOD, {"body": ""}, {"body": "x", "color": 1}, {}, None, "text", 3, {"body": 7}, {"ttl_turns": 1}]
)
LABELS = st.dictionaries(st.sampled_from(["type", "kind"]), st.sampled_from(["reminder", "other", None]), max_size=2)
ENTRIES = st.one_of(
    SPECS,
    SPECS.map(lambda spec: {"reminder": spec}),
    st.builds(lambda spec, label: {"spec": spec, **label}, SPECS, LABELS),
    st.builds(lambda spec, key: {"reminder": spec, key: None}, SPECS, st.sampled_from(sorted(ACTION_KEYS))),
    st.builds(lambda spec: {**GOOD, "then": spec}, SPECS),
)
LISTS = st.lists(ENTRIES, max_size=3)
EXTRA = st.sampled_from(["foo", "body", "reason", "then", 7])
RETURNS = st.one_of(
    ENTRIES,
    LISTS,
    LISTS.map(tuple),
    st.builds(lambda inner: {"effects": inner}, LISTS | SPECS),
    st.builds(lambda inner: {**GOOD, "effects": inner}, LISTS),
    st.builds(lambda entry, key: {**entry, key: 1} if isinstance(entry, dict) else entry, ENTRIES, EXTRA),
    st.builds(lambda entry, key: {"effects": [entry], key: 1}, ENTRIES, EXTRA),
    st.builds(lambda spec, then: {"reminder": spec, "then": then}, SPECS, st.none() | st.just({"deny": "no"})),
    st.builds(lambda spec, then: {**GOOD, "then": then, "extra": spec}, SPECS, st.none() | st.just({"deny": "no"})),
)


@given(RETURNS, st.sampled_from([Surface.HOOK, Surface.PROVIDER]), st.sampled_from([None, WorkerEvent.WORKER_FAILED]))
@example({"reminder": GOOD, "then": None}, Surface.HOOK, None)
@example([{"type": "reminder", "spec": {"body": ""}}], Surface.HOOK, None)
@example([{"kind": "reminder", "spec": {"body": ""}}], Surface.PROVIDER, None)
def test_returns_are_judged_as_they_are_at_run_time(
    returned: object, surface: Surface, event: WorkerEvent | None
) -> None:
    watched = event if surface is Surface.HOOK else None
    found = [code for item in effects(written(returned), surface, event=watched) for code in errors_of(item)]
    raised = code_at_run_time(returned, surface, watched)
    assert raised in found if raised else found == []


def code_at_run_time(returned: object, surface: Surface, event: WorkerEvent | None) -> str | None:
    """What a loop would refuse this return with; None where it would take it."""
    try:
        read_effects(returned, surface, event=event)
    except ReminderError as error:
        return error.code
    return None


def errors_of(found: Found) -> list[str]:
    """The codes of the errors in something that was found, without warnings and advice."""
    codes = [problem.code for problem in problems(found, ())]
    return [code for code in codes if DIAGNOSTICS[code].severity is Severity.ERROR]


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(..., id="all-of-it"),
        pytest.param([...], id="an-entry"),
        pytest.param([{...: ...}], id="the-keys-of-an-entry"),
        pytest.param({"effects": ...}, id="the-list-of-effects"),
        pytest.param({"reminder": ...}, id="the-reminder"),
        pytest.param({**GOOD, "then": ...}, id="the-action-beside-a-body"),
    ],
)
def test_values_known_only_at_run_time_are_not_reported(returned: object) -> None:
    assert [code for item in effects(written(returned), Surface.HOOK) for code in errors_of(item)] == []


A_REMINDER = {"body": "CI failed."}


@pytest.mark.parametrize(
    ("message", "surface", "fields"),
    [
        pytest.param(
            {"method": "session/inject_reminder", "params": {"sessionId": "s", **A_REMINDER}},
            Surface.ACP,
            A_REMINDER,
            id="acp",
        ),
        pytest.param(
            {"method": "_sideband/session/inject_reminder", "params": {"sessionId": "s", **A_REMINDER}},
            Surface.ACP,
            A_REMINDER,
            id="acp-with-our-prefix",
        ),
        pytest.param(
            {"method": "session/remind", "params": {"sessionId": "s", **A_REMINDER}},
            Surface.ACP_LEGACY,
            A_REMINDER,
            id="the-older-acp-method-flat",
        ),
        pytest.param(
            {"method": "session/remind", "params": {"reminder": A_REMINDER, "mode": "finish_step", "_meta": {}}},
            Surface.ACP_LEGACY,
            {**A_REMINDER, "mode": "finish_step", "_meta": {}},
            id="the-older-acp-method-with-a-reminder-inside",
        ),
        pytest.param(
            {
                "method": "session/remind",
                "params": {**A_REMINDER, "_meta": {"harn": {"reminder": {"ttl_turns": 2, "body": "-", "id": "i"}}}},
            },
            Surface.ACP_LEGACY,
            {**A_REMINDER, "_meta": {"harn": {"reminder": {"ttl_turns": 2, "body": "-", "id": "i"}}}, "ttl_turns": 2},
            id="the-older-acp-method-completed-by-its-extension",
        ),
        pytest.param(
            {"method": "tasks/inject_reminder", "params": {"taskId": "t", "reminder": A_REMINDER}},
            Surface.A2A,
            A_REMINDER,
            id="a2a",
        ),
        pytest.param(
            {"method": "notifications/reminder", "params": {"reminder": A_REMINDER}},
            Surface.MCP,
            A_REMINDER,
            id="mcp",
        ),
        pytest.param({"method": "session/remind", "params": 3}, Surface.ACP_LEGACY, 3, id="parameters-of-another-kind"),
        pytest.param({"method": "tasks/inject_reminder", "params": {}}, Surface.A2A, None, id="no-reminder"),
        pytest.param({"method": "session/remind", "jsonrpc": "2.0"}, Surface.ACP_LEGACY, None, id="no-parameters"),
    ],
)
def test_a_message_brings_its_reminder(message: dict[str, object], surface: Surface, fields: object) -> None:
    table = written(message)
    assert isinstance(table, Table)
    spec = frame(table)
    assert spec is not None
    assert (spec.surface, plain(spec.value)) == (surface, fields)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"method": "session/prompt", "params": {}}, id="another-method"),
        pytest.param({"method": "tasks/reminderEmitted", "params": {"reminder": {}}}, id="an-event"),
        pytest.param({"method": "session/remind", "about": "ambient context"}, id="a-list-of-methods"),
        pytest.param({"method": {"const": "session/remind"}, "params": {}}, id="a-schema"),
        pytest.param({"method": ..., "params": {}}, id="a-method-known-only-at-run-time"),
        pytest.param({"method": "session/remind", "jsonrpc": "2.0", ...: ...}, id="parameters-known-only-at-run-time"),
        pytest.param({"params": {}}, id="no-method"),
    ],
)
def test_other_messages_are_not_ours(message: dict[object, object]) -> None:
    table = written(message)
    assert isinstance(table, Table)
    assert frame(table) is None


@pytest.mark.parametrize(
    ("surface", "params"),
    [
        pytest.param(Surface.A2A, {...: ...}, id="a-reminder-somewhere-in-the-parameters"),
        pytest.param(Surface.ACP_LEGACY, {"reminder": ...}, id="a-reminder"),
        pytest.param(Surface.ACP_LEGACY, {"_meta": ...}, id="an-extension"),
        pytest.param(Surface.ACP_LEGACY, {"_meta": {"harn": ...}}, id="part-of-an-extension"),
        pytest.param(Surface.ACP_LEGACY, {"_meta": {"harn": {"reminder": ...}}}, id="the-reminder-of-an-extension"),
    ],
)
def test_parameters_known_only_at_run_time_lack_nothing(surface: Surface, params: dict[object, object]) -> None:
    assert errors_of(request(surface, written(params))) == []


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        pytest.param({"providers": ["a", "-b"]}, ("a", "-b"), id="names"),
        pytest.param({"providers": ["a", ...]}, ("a",), id="names-some-known-only-at-run-time"),
        pytest.param({"providers": ["a", 1]}, None, id="something-else-among-them"),
        pytest.param({"providers": []}, None, id="none"),
        pytest.param({"providers": "a"}, None, id="not-a-list"),
        pytest.param({"enabled": False}, None, id="no-providers"),
        pytest.param(False, None, id="not-an-object"),
    ],
)
def test_a_choice_of_providers_is_a_list_of_names(options: object, ids: tuple[str, ...] | None) -> None:
    expected = None if ids is None else ProviderChoice(ids=ids, at=START)
    assert provider_choice(written(options)) == expected
