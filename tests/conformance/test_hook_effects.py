"""What hooks and providers may return, and what is read out of it."""

import re
from typing import Any, Final

import pytest

from sideband.core.effects import Deny, Effects, ReplaceArgs, ReplaceResult, ToolPhase, read_effects, read_tool_action
from sideband.core.errors import InvalidOption, MalformedProviderResult, TooManyProviders, UnsupportedHookEvent, shown
from sideband.core.events import Injected
from sideband.core.hookevents import CANONICAL_PROVIDERS, SessionEvent, WorkerEvent, refuse_too_many_providers
from sideband.core.reminder import Propagate
from sideband.core.surfaces import Surface
from sideband.loop.run import LoopStatus
from tests.agents import AnAgent, awaited
from tests.builders import a_draft
from tests.loop_builders import a_reply

SPEC: Final[dict[str, Any]] = {"body": "The output was cut.", "ttl_turns": 1, "propagate": "none"}
DRAFT: Final = a_draft(body="The output was cut.", ttl_turns=1, propagate=Propagate.NONE)
OTHER: Final[dict[str, Any]] = {"body": "The build is red."}
OTHER_DRAFT: Final = a_draft()
NOTHING: Final = Effects((), None)
SURFACES: Final = [Surface.HOOK, Surface.PROVIDER]


# Events.


@pytest.mark.requirement("hooks:events:session-words")
def test_the_session_events() -> None:
    assert [event.value for event in SessionEvent] == [
        "session_start",
        "session_end",
        "user_prompt_submit",
        "pre_compact",
        "post_compact",
        "post_turn",
        "permission_asked",
        "permission_replied",
        "file_edited",
        "session_error",
        "session_idle",
        "on_budget_threshold",
        "post_tool_use",
        "post_step",
        "post_agent_turn",
        "pre_finish",
        "post_finish",
    ]


@pytest.mark.requirement("hooks:events:worker-words")
def test_the_worker_events() -> None:
    assert [event.value for event in WorkerEvent] == [
        "worker_spawned",
        "worker_progressed",
        "worker_waiting_for_input",
        "worker_suspended",
        "worker_resumed",
        "worker_completed",
        "worker_failed",
        "worker_cancelled",
    ]


@pytest.mark.requirement("hooks:worker:reminder-is-008")
@pytest.mark.parametrize("event", WorkerEvent)
@pytest.mark.parametrize(
    "returned",
    [SPEC, {"reminder": SPEC}, [SPEC], {"effects": [SPEC]}, {"reminder": {}}],
    ids=["bare", "reminder", "list", "effects", "malformed"],
)
def test_a_reminder_for_a_worker_event_is_008_and_names_the_event(event: WorkerEvent, returned: object) -> None:
    with pytest.raises(UnsupportedHookEvent, match=event.value) as refused:
        read_effects(returned, Surface.HOOK, event=event.value)
    assert (refused.value.code, refused.value.value) == ("HARN-RMD-008", event)


@pytest.mark.requirement("hooks:worker:reminder-is-008")
@pytest.mark.parametrize("returned", [None, 7, {"then": {"deny": "no"}}, {"effects": []}, []])
def test_a_hook_that_only_watches_a_worker_is_no_error(returned: object) -> None:
    assert read_effects(returned, Surface.HOOK, event="worker_failed").reminders == ()


@pytest.mark.requirement("hooks:worker:reminder-is-008")
def test_a_session_event_and_a_provider_of_a_resumed_worker_may_have_reminders() -> None:
    assert read_effects(SPEC, Surface.HOOK, event="session_idle").reminders == (DRAFT,)
    assert read_effects(SPEC, Surface.PROVIDER, event="worker_resumed").reminders == (DRAFT,)


# Forms.


@pytest.mark.parametrize(
    ("returned", "effects"),
    [
        pytest.param(None, NOTHING, id="none", marks=pytest.mark.requirement("hooks:effects:none")),
        pytest.param(
            {"reminder": SPEC},
            Effects((DRAFT,), None),
            id="a-reminder",
            marks=pytest.mark.requirement("hooks:effects:reminder-and-then"),
        ),
        pytest.param(
            {"reminder": SPEC, "then": {"deny": "not now"}},
            Effects((DRAFT,), {"deny": "not now"}),
            id="a-reminder-and-an-action",
            marks=pytest.mark.requirement("hooks:effects:reminder-and-then"),
        ),
        pytest.param(
            {"then": {"args": {}}},
            Effects((), {"args": {}}),
            id="an-action-alone",
            marks=pytest.mark.requirement("hooks:effects:reminder-and-then"),
        ),
        pytest.param(
            SPEC, Effects((DRAFT,), None), id="a-bare-spec", marks=pytest.mark.requirement("hooks:effects:bare-spec")
        ),
        pytest.param(
            [SPEC, {"reminder": OTHER}, {"type": "reminder", "spec": SPEC}, {"kind": "reminder", "spec": OTHER}],
            Effects((DRAFT, OTHER_DRAFT, DRAFT, OTHER_DRAFT), None),
            id="a-list",
            marks=pytest.mark.requirement("hooks:effects:list"),
        ),
        pytest.param(
            (OTHER, SPEC),
            Effects((OTHER_DRAFT, DRAFT), None),
            id="a-tuple",
            marks=pytest.mark.requirement("hooks:effects:list"),
        ),
        pytest.param([], NOTHING, id="an-empty-list", marks=pytest.mark.requirement("hooks:effects:list")),
        pytest.param(
            {"effects": [{"reminder": OTHER}, SPEC]},
            Effects((OTHER_DRAFT, DRAFT), None),
            id="effects",
            marks=pytest.mark.requirement("hooks:effects:effects-object"),
        ),
        pytest.param(
            {"effects": [SPEC], "then": {"result": "short"}},
            Effects((DRAFT,), {"result": "short"}),
            id="effects-and-an-action",
            marks=pytest.mark.requirement("hooks:effects:effects-object"),
        ),
    ],
)
def test_a_return_is_read_as(returned: object, effects: Effects) -> None:
    assert read_effects(returned, Surface.HOOK) == effects


@pytest.mark.requirement("hooks:effects:anything-else-is-reported")
@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(42, id="a-number"),
        pytest.param(True, id="a-truth"),
        pytest.param("a reminder", id="text"),
        pytest.param(b"a reminder", id="bytes"),
        pytest.param(memoryview(b"a reminder"), id="a-buffer"),
        pytest.param(range(3), id="a-range"),
        pytest.param({"a reminder"}, id="a-set"),
        pytest.param({}, id="an-empty-mapping"),
        pytest.param({"foo": 1}, id="another-mapping"),
        pytest.param({1: SPEC}, id="a-mapping-without-names"),
    ],
)
@awaited
async def test_any_other_form_is_no_effect_and_one_problem_of_the_hook(returned: object) -> None:
    agent = AnAgent(a_reply("work"))
    agent.hooks.register_session_hook("post_turn", lambda _: returned)
    agent.hooks.register_session_hook("post_turn", lambda ctx: ctx.turn)
    result = await agent.play()
    assert (result.status, agent.events(Injected)) == (LoopStatus.COMPLETED, [])
    mine, other = result.problems
    assert re.match(rf"SIDEBAND-108: {re.escape(shown(returned))} is ignored: a hook returns None, a rem", mine.message)
    # The second hook returns another value in each turn, and is reported for the first.
    assert (mine.times, other.times, other.message[:25]) == (1, 1, "SIDEBAND-108: 1 is ignore")


@pytest.mark.requirement("hooks:effects:anything-else-is-reported")
def test_what_decides_something_is_an_action_even_if_it_has_a_body() -> None:
    assert read_effects({"body": "x", "result": "y"}, Surface.HOOK) == Effects((), {"result": "y"})


@pytest.mark.requirement("hooks:effects:bad-list-item-is-an-error")
@pytest.mark.parametrize(
    "entry",
    [
        42,
        None,
        "text",
        {},
        {"foo": 1},
        [SPEC],
        {"type": "reminder"},
        {"type": "other", "spec": SPEC},
        # An action in a list would be overlooked: it stands beside the effects.
        {"reminder": SPEC, "then": {"deny": "no"}},
        {"reminder": SPEC, "deny": "no"},
        {"reminder": SPEC, "foo": 1},
        {"type": "reminder", "spec": SPEC, "foo": 1},
        {"body": "x", "deny": "no"},
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "wrap", [lambda entry: [SPEC, entry], lambda entry: {"effects": [entry]}], ids=["list", "effects"]
)
def test_a_list_item_that_is_no_effect_is_an_error(entry: object, wrap: Any) -> None:  # noqa: ANN401 - a row
    with pytest.raises(InvalidOption) as refused:
        read_effects(wrap(entry), Surface.HOOK)
    assert (refused.value.code, refused.value.field, refused.value.value) == ("HARN-RMD-001", "effects", entry)
    with pytest.raises(MalformedProviderResult) as malformed:
        read_effects(wrap(entry), Surface.PROVIDER)
    assert malformed.value.code == "HARN-RMD-006"


@pytest.mark.requirement("hooks:effects:bad-list-item-is-an-error")
@pytest.mark.parametrize("effects", [None, 42, "text", SPEC], ids=repr)
def test_effects_that_are_no_list_are_an_error(effects: object) -> None:
    with pytest.raises(InvalidOption, match="effects must be a list"):
        read_effects({"effects": effects}, Surface.HOOK)


@pytest.mark.requirement("hooks:effects:bad-reminder-is-an-error")
@pytest.mark.parametrize(
    "reminder",
    [None, 42, "text", [], {}, {"body": ""}, {"body": 7}, {"body": "x", "ttl_turns": 0}, {"ttl_turns": 1}],
    ids=repr,
)
@pytest.mark.parametrize("surface", SURFACES)
def test_a_reminder_that_is_no_spec_is_an_error(reminder: object, surface: Surface) -> None:
    with pytest.raises(MalformedProviderResult if surface is Surface.PROVIDER else InvalidOption):
        read_effects({"reminder": reminder}, surface)


@pytest.mark.requirement("hooks:effects:bad-reminder-is-an-error")
@pytest.mark.parametrize("key", ["foo", "thn", "body", 7])
@pytest.mark.parametrize("returned", [{"reminder": SPEC}, {"effects": [SPEC]}], ids=["reminder", "effects"])
@awaited
async def test_an_unknown_key_beside_a_reminder_is_an_error(returned: dict[Any, object], key: object) -> None:
    agent = AnAgent()
    agent.hooks.register_session_hook("post_turn", lambda _: {**returned, key: "x"})
    result = await agent.play()
    (problem,) = result.problems
    assert problem.message.startswith(f"HARN-RMD-001: the result of a hook has no key {key!r} beside a reminder; ")
    assert ("did you mean 'then'?" in problem.message) is (key == "thn")
    assert agent.events(Injected) == []


# Actions of tool hooks.


@pytest.mark.parametrize(
    ("then", "action"),
    [
        pytest.param(
            {"deny": "outside the workspace"},
            Deny("outside the workspace"),
            id="deny-with-a-reason",
            marks=pytest.mark.requirement("hooks:then:deny"),
        ),
        pytest.param(
            {"deny": True, "reason": "read-only"},
            Deny("read-only"),
            id="deny-and-a-reason",
            marks=pytest.mark.requirement("hooks:then:deny"),
        ),
        pytest.param(
            {"deny": True},
            Deny("denied by a hook"),
            id="deny-without-a-reason",
            marks=pytest.mark.requirement("hooks:then:deny"),
        ),
        pytest.param(
            {"deny": ""},
            Deny("denied by a hook"),
            id="deny-with-an-empty-reason",
            marks=pytest.mark.requirement("hooks:then:deny"),
        ),
        pytest.param(
            {"deny": True, "reason": None},
            Deny("denied by a hook"),
            id="deny-with-a-null-reason",
            marks=pytest.mark.requirement("hooks:then:deny"),
        ),
        pytest.param(
            {"deny": "no", "args": {"path": "a.py"}},
            Deny("no"),
            id="deny-wins-over-args",
            marks=pytest.mark.requirement("hooks:then:deny"),
        ),
        pytest.param(
            {"deny": False, "args": {"path": "a.py"}},
            ReplaceArgs({"path": "a.py"}),
            id="no-deny",
            marks=pytest.mark.requirement("hooks:then:args"),
        ),
        pytest.param(
            {"args": {"path": "a.py"}},
            ReplaceArgs({"path": "a.py"}),
            id="args",
            marks=pytest.mark.requirement("hooks:then:args"),
        ),
        pytest.param(None, None, id="nothing", marks=pytest.mark.requirement("hooks:then:args")),
    ],
)
def test_before_a_tool_a_hook_may(then: object, action: object) -> None:
    assert read_tool_action(read_effects({"then": then}, Surface.HOOK).action, ToolPhase.BEFORE) == action


@pytest.mark.requirement("hooks:then:args", "hooks:then:result")
@pytest.mark.parametrize(
    ("then", "phase"),
    [
        pytest.param({"args": "a.py"}, ToolPhase.BEFORE, id="args-of-no-use"),
        pytest.param({"result": "x"}, ToolPhase.BEFORE, id="no-result-yet"),
        pytest.param({"deny": "too late"}, ToolPhase.AFTER, id="too-late-to-deny"),
    ],
)
def test_an_action_that_is_none_on_that_side_is_refused_by_name(then: object, phase: ToolPhase) -> None:
    with pytest.raises(InvalidOption, match="is ignored"):
        read_tool_action(read_effects({"then": then}, Surface.HOOK).action, phase)


@pytest.mark.parametrize(
    ("then", "action"),
    [
        pytest.param(
            {"result": {"lines": 3}},
            ReplaceResult({"lines": 3}),
            id="another-result",
            marks=pytest.mark.requirement("hooks:then:result"),
        ),
        pytest.param(
            {"result": None}, ReplaceResult(None), id="no-result", marks=pytest.mark.requirement("hooks:then:result")
        ),
        pytest.param(
            {"result": "head", "truncated": True, "dropped_bytes": 4096},
            ReplaceResult("head", 4096),
            id="shortened",
            marks=pytest.mark.requirement("hooks:then:a-shortened-result-says-so"),
        ),
        pytest.param(
            {"result": "all", "truncated": False},
            ReplaceResult("all"),
            id="not-shortened",
            marks=pytest.mark.requirement("hooks:then:a-shortened-result-says-so"),
        ),
    ],
)
def test_after_a_tool_a_hook_may(then: object, action: object) -> None:
    assert read_tool_action(read_effects({"then": then}, Surface.HOOK).action, ToolPhase.AFTER) == action


@pytest.mark.requirement("hooks:then:a-shortened-result-says-so")
@pytest.mark.parametrize(
    "dropped", [{}, {"dropped_bytes": None}, {"dropped_bytes": -1}, {"dropped_bytes": True}, {"dropped_bytes": "9"}]
)
def test_a_shortened_result_without_the_number_of_bytes_is_an_error(dropped: dict[str, object]) -> None:
    with pytest.raises(InvalidOption) as refused:
        read_tool_action({"result": "head", "truncated": True, **dropped}, ToolPhase.AFTER)
    assert refused.value.field == "dropped_bytes"


@pytest.mark.requirement("hooks:then:a-shortened-result-says-so")
def test_the_mark_of_a_shortened_result_is_kept_also_where_there_is_no_then() -> None:
    returned = {"reminder": SPEC, "result": "head", "truncated": True, "dropped_bytes": 9}
    action = read_tool_action(read_effects(returned, Surface.HOOK).action, ToolPhase.AFTER)
    assert action == ReplaceResult("head", 9)
    assert isinstance(action, ReplaceResult)
    assert action.truncated
    assert not ReplaceResult("all").truncated


@pytest.mark.requirement("hooks:then:a-deny-keeps-its-effects")
@pytest.mark.parametrize(
    "returned",
    [
        {"reminder": SPEC, "then": {"deny": True, "reason": "read-only"}},
        {"reminder": SPEC, "deny": True, "reason": "read-only"},
        {"effects": [SPEC], "deny": "read-only"},
    ],
    ids=["then", "beside-the-reminder", "beside-the-effects"],
)
def test_a_deny_keeps_the_effects_that_came_with_it(returned: object) -> None:
    effects = read_effects(returned, Surface.HOOK)
    assert effects.reminders == (DRAFT,)
    assert read_tool_action(effects.action, ToolPhase.BEFORE) == Deny("read-only")


# How many providers.


@pytest.mark.requirement("providers:limit:counts-what-is-not-canonical")
def test_eight_providers_beside_the_canonical_ones_are_allowed_and_a_ninth_is_not() -> None:
    eight = [f"mine-{number}" for number in range(8)]
    refuse_too_many_providers([*CANONICAL_PROVIDERS, *eight, *eight])
    with pytest.raises(TooManyProviders) as refused:
        refuse_too_many_providers([*eight, "mine-8"])
    assert (refused.value.code, refused.value.value) == ("HARN-RMD-007", (*eight, "mine-8"))
