"""Reminder providers in a running agent: registering, choosing and evaluating them, and what their failures stop."""

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

import sideband as sb
from sideband.core.errors import ReminderError, TooManyProviders, UnknownOption, shown
from sideband.core.events import Injected, ProviderEvaluated
from sideband.core.hookevents import CANONICAL_PROVIDERS, SessionEvent
from sideband.core.messages import ToolCall
from sideband.core.reminder import Source
from sideband.core.topic import Correlation, publish
from sideband.loop.run import LoopStatus
from sideband.providers.context import Evaluate
from sideband.providers.evaluation import BUDGET_BYTES
from sideband.recall.facts import FactKind
from sideband.runtime.registries import PROVIDERS
from tests.agents import AnAgent, awaited
from tests.loop_builders import ATool, a_reply

BODY: Final = "The build is red."


def a_spec(body: str = BODY) -> dict[str, Any]:
    return {"body": body, "ttl_turns": 1}


def always(answer: object) -> Evaluate:
    """A provider's function that gives the same answer to everything; an exception is raised."""

    def evaluate(_ctx: sb.ProviderContext) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return evaluate


def evaluations(agent: AnAgent, provider_id: str) -> list[ProviderEvaluated]:
    return [event for event in agent.events(ProviderEvaluated) if event.provider_id == provider_id]


def evaluated_ids(agent: AnAgent) -> set[str]:
    return {event.provider_id for event in agent.events(ProviderEvaluated)}


def bodies(agent: AnAgent) -> list[str]:
    return [event.reminder.body for event in agent.events(Injected)]


async def an_agent_with(answer: object, *, on: str = "post_turn") -> tuple[AnAgent, sb.LoopResult]:
    """An agent that has run with one provider of its own."""
    agent = AnAgent()
    agent.providers.register(id="mine", subscribes_to=[on], evaluate=always(answer))
    return agent, await agent.play(reminders=True)


# Registering.


@pytest.fixture(autouse=True)
def _providers_of_this_test() -> Iterator[None]:
    yield
    sb.clear_reminder_providers()


@pytest.mark.requirement("providers:register:id-events-evaluate")
@awaited
async def test_a_registered_provider_is_evaluated_at_the_events_it_subscribes_to() -> None:
    heard: list[str] = []
    sb.register_reminder_provider(
        id="workspace_guard",
        subscribes_to=["session_start", "pre_finish"],
        evaluate=lambda ctx: heard.append(ctx.event),
    )
    agent = AnAgent()
    await agent.play(reminders=True, providers=PROVIDERS)
    assert heard == ["session_start", "pre_finish"]
    assert [event.event_name for event in evaluations(agent, "workspace_guard")] == heard


@pytest.mark.requirement("providers:register:clear-leaves-the-canonical")
@awaited
async def test_clearing_removes_what_was_registered_and_leaves_the_canonical_ones() -> None:
    sb.register_reminder_provider(id="mine", subscribes_to=["post_turn"], evaluate=always(a_spec()))
    sb.clear_reminder_providers()
    agent = AnAgent()
    await agent.play(reminders=True, providers=PROVIDERS)
    assert evaluated_ids(agent) == {"project_facts", "workspace_anchor", "grounded_review"}
    assert [provider.id for provider in PROVIDERS.providers] == [*CANONICAL_PROVIDERS]


@pytest.mark.requirement("providers:register:unknown-event-is-001")
@pytest.mark.parametrize("event", ["on_tuesday", "sessionIdle", "worker_spawned", ""])
def test_subscribing_to_an_event_that_does_not_exist_is_001(event: str) -> None:
    with pytest.raises(UnknownOption) as refused:
        sb.register_reminder_provider(id="mine", subscribes_to=[event], evaluate=always(None))  # type: ignore[list-item]
    assert refused.value.code == "HARN-RMD-001"


@pytest.mark.requirement("providers:register:worker-resumed")
@awaited
async def test_a_provider_may_answer_a_resumed_worker_where_a_hook_may_not() -> None:
    agent = AnAgent()
    agent.providers.register(id="mine", subscribes_to=["worker_resumed"], evaluate=always(a_spec()))
    agent.hooks.register_session_hook("worker_resumed", lambda _: a_spec("From a hook."))
    child = AnAgent()
    worker = await sb.spawn(
        agent.session,
        agent.children(),
        "Write the tests.",
        model=child.model,
        hooks=agent.hooks,
        providers=agent.providers,
    )
    worker.suspend()
    await worker.work()
    await worker.resume(sb.Resumption())
    assert child.requests_with(BODY) == [1]
    assert child.requests_with("From a hook.") == []
    (problem,) = worker.problems
    assert "HARN-RMD-008" in problem.message


# Evaluating.


@pytest.mark.requirement("providers:evaluate:context", "providers:evaluate:profile-facts-anchor")
@awaited
async def test_a_provider_is_given_the_event_and_what_there_is_to_know() -> None:
    contexts: list[sb.ProviderContext] = []
    agent = AnAgent(context_window=128_000)
    agent.providers.register(id="mine", subscribes_to=["post_agent_turn"], evaluate=contexts.append)
    book = sb.store_fact(sb.FactBook(), kind="decision", claim="Ship on Fridays.", confidence=0.9).book
    anchor = sb.WorkspaceAnchor(primary="/repo")
    options = {"config": {"mine": {"colour": "red"}, "idle_nudge": {"seconds": 90}}}
    await agent.play("Mend the build.", reminders=options, facts=book, anchor=anchor)
    (ctx,) = contexts
    assert (ctx.event, ctx.session_id) == ("post_agent_turn", "main")
    assert ctx.session is agent.session.talk
    assert ctx.payload == {"turn": 1, "text": "Done."}
    assert (ctx.options["reminders"], ctx.config) == (options, {"colour": "red"})
    assert ctx.profile == {"context_window": 128_000}
    assert (ctx.facts, ctx.anchor, ctx.task) == (book, anchor, "Mend the build.")


@pytest.mark.requirement("providers:evaluate:returns")
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(None, [], id="nothing"),
        pytest.param(a_spec(), [BODY], id="a-bare-spec"),
        pytest.param({"reminder": a_spec()}, [BODY], id="an-effect"),
        pytest.param([a_spec("First."), {"reminder": a_spec("Second.")}], ["First.", "Second."], id="a-list"),
    ],
)
@awaited
async def test_a_provider_may_return(answer: object, expected: list[str]) -> None:
    agent, result = await an_agent_with(answer)
    assert (bodies(agent), result.problems) == (expected, ())
    assert {event.reminder.source for event in agent.events(Injected)} <= {Source.STDLIB_PROVIDER}
    assert {event.provenance.provider_id for event in agent.events(Injected)} <= {"mine"}


@pytest.mark.requirement("providers:evaluate:returns")
@awaited
async def test_a_provider_may_be_a_coroutine() -> None:
    async def evaluate(_ctx: sb.ProviderContext) -> dict[str, Any]:
        return a_spec()

    agent = AnAgent()
    agent.providers.register(id="mine", subscribes_to=["session_start"], evaluate=evaluate)
    await agent.play(reminders=True)
    assert agent.requests_with(BODY) == [1]


@pytest.mark.requirement("providers:evaluated:one-for-each-subscriber")
@awaited
async def test_every_subscriber_of_an_event_has_one_record_whether_it_fired_or_not() -> None:
    agent = AnAgent()
    for name, answer in (("speaks", a_spec()), ("silent", None)):
        agent.providers.register(id=name, subscribes_to=["post_turn"], evaluate=always(answer))
    agent.providers.register(id="elsewhere", subscribes_to=["pre_compact"], evaluate=always(a_spec()))
    await agent.play(reminders=True)
    assert [event.fired for event in evaluations(agent, "speaks")] == [True]
    assert [event.fired for event in evaluations(agent, "silent")] == [False]
    assert evaluations(agent, "elsewhere") == []


@pytest.mark.requirement("providers:evaluated:comes-before-its-injections")
@awaited
async def test_the_record_of_a_provider_comes_before_what_it_injects() -> None:
    agent = AnAgent()
    for name in ("first", "second"):
        specs = [a_spec(f"{name}, {number}") for number in range(2)]
        agent.providers.register(id=name, subscribes_to=["post_turn"], evaluate=always(specs))
    await agent.play(reminders={"providers": [f"-{name}" for name in CANONICAL_PROVIDERS]})
    told = [event for event in agent.journal if isinstance(event, ProviderEvaluated | Injected)]
    assert [event.provider_id if isinstance(event, ProviderEvaluated) else event.reminder.body for event in told] == [
        "first",
        "first, 0",
        "first, 1",
        "second",
        "second, 0",
        "second, 1",
    ]


@pytest.mark.requirement("providers:evaluated:event-words")
@pytest.mark.parametrize("event", [SessionEvent.POST_TURN, SessionEvent.USER_PROMPT_SUBMIT])
@awaited
async def test_the_record_spells_the_event_in_snake_case(event: SessionEvent) -> None:
    agent, _ = await an_agent_with(None, on=event)
    (evaluated,) = evaluations(agent, "mine")
    published = publish(evaluated, Correlation())
    assert published is not None
    assert published.payload["event"] == event.value


# Failing.


@pytest.mark.requirement("providers:failure:is-isolated")
@awaited
async def test_a_provider_that_fails_is_reported_and_the_others_still_run() -> None:
    agent = AnAgent()
    for name, answer in (("first", a_spec("First.")), ("broken", KeyError("no such thing")), ("last", a_spec())):
        agent.providers.register(id=name, subscribes_to=["session_start"], evaluate=always(answer))
    result = await agent.play(reminders=True)
    assert (result.status, agent.requests_with("First."), agent.requests_with(BODY)) == (
        LoopStatus.COMPLETED,
        [1],
        [1],
    )
    (problem,) = result.problems
    assert problem.where == "provider broken on session_start"
    assert "KeyError" in problem.message
    (evaluated,) = evaluations(agent, "broken")
    assert (evaluated.fired, evaluated.error) == (False, problem.message)


@pytest.mark.requirement("providers:failure:malformed-is-006")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"body": ""}, id="a-blank-body"),
        pytest.param({"body": BODY, "ttl_turns": 0}, id="no-turns"),
        pytest.param({"reminder": "red"}, id="a-reminder-that-is-none"),
        pytest.param({"reminder": a_spec(), "foo": 1}, id="something-beside-a-reminder"),
        pytest.param({"reminder": a_spec(), "then": {"deny": "no"}}, id="an-action-beside-a-reminder"),
        pytest.param([42], id="a-list-of-something-else"),
        pytest.param([{"foo": 1}], id="a-list-of-other-mappings"),
        pytest.param("red", id="text"),
        pytest.param(3, id="a-number"),
        pytest.param({"foo": 1}, id="another-mapping"),
        pytest.param({}, id="an-empty-mapping"),
        pytest.param({"effects": [a_spec()]}, id="the-form-of-a-hook"),
    ],
)
@awaited
async def test_a_malformed_reminder_of_a_provider_is_006(answer: object) -> None:
    agent, result = await an_agent_with(answer)
    (problem,) = result.problems
    assert problem.message.startswith("HARN-RMD-006")
    assert bodies(agent) == []


@pytest.mark.requirement("providers:budget:bytes-per-pass")
@awaited
async def test_what_is_beyond_the_bytes_of_a_pass_is_reported_and_left_out() -> None:
    agent = AnAgent()
    for name, size in (("a", 8_000), ("b", 8_000), ("c", 400), ("d", BUDGET_BYTES - 16_000)):
        agent.providers.register(id=name, subscribes_to=["session_start"], evaluate=always(a_spec("x" * size)))
    await agent.play(reminders=True)
    assert BUDGET_BYTES == 16 * 1024
    assert [(event.fired, event.skipped) for name in "abcd" for event in evaluations(agent, name)] == [
        (True, None),
        (True, None),
        (False, "budget"),
        (True, None),
    ]
    assert [len(body) for body in bodies(agent)] == [8_000, 8_000, 384]


# Choosing.


class Refuses:
    """A permission that allows nothing, and records what was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, call: ToolCall) -> str:
        self.asked.append(call.name)
        return "nothing is allowed"


@pytest.mark.requirement("providers:policy:outside-the-tool-policy")
@awaited
async def test_providers_run_where_no_tool_may() -> None:
    permission, tool = Refuses(), ATool()
    agent = AnAgent(a_reply("work"), tools=[tool])
    agent.providers.register(id="mine", subscribes_to=["post_turn"], evaluate=always(a_spec()))
    agent.hooks.register_tool_hook("*", pre=lambda ctx: {"deny": True} if ctx.tool_name != "work" else None)
    await agent.play(permission=permission, reminders=True)
    assert (permission.asked, tool.calls, agent.results()) == (["work"], [], [("c1", "denied")])
    assert agent.requests_with(BODY) == [2]


WITHOUT_A_TOOL: Final = {"project_facts", "workspace_anchor", "grounded_review"}


@pytest.mark.parametrize(
    ("reminders", "expected"),
    [
        pytest.param(True, {*WITHOUT_A_TOOL, "mine"}, marks=pytest.mark.requirement("providers:options:on-by-default")),
        pytest.param({}, {*WITHOUT_A_TOOL, "mine"}, marks=pytest.mark.requirement("providers:options:on-by-default")),
        pytest.param(False, set(), marks=pytest.mark.requirement("providers:options:false")),
        pytest.param({"enabled": False}, set(), marks=pytest.mark.requirement("providers:options:enabled-false")),
        pytest.param(
            {"providers": ["-grounded_review", "-mine"]},
            {"project_facts", "workspace_anchor"},
            marks=pytest.mark.requirement("providers:options:minus-removes"),
        ),
        pytest.param(
            {"providers": ["mine"]},
            {*WITHOUT_A_TOOL, "mine"},
            marks=pytest.mark.requirement("providers:options:plain-id-adds"),
        ),
        pytest.param(
            {"providers": ["-mine", "-grounded_review", "mine"]},
            {"project_facts", "workspace_anchor", "mine"},
            marks=pytest.mark.requirement("providers:options:plain-id-adds"),
        ),
    ],
    ids=["default", "no-options", "false", "not-enabled", "minus", "plain", "plain-after-minus"],
)
@awaited
async def test_the_providers_that_a_loop_evaluates(reminders: Any, expected: set[str]) -> None:  # noqa: ANN401 - as given
    agent = AnAgent()
    agent.providers.register(id="mine", subscribes_to=["post_turn"], evaluate=always(None))
    await agent.play(reminders=reminders)
    assert evaluated_ids(agent) == expected


@pytest.mark.requirement("providers:options:on-by-default")
@awaited
async def test_a_loop_that_is_told_nothing_of_reminders_evaluates_the_canonical_providers() -> None:
    agent = AnAgent()
    await sb.agent_loop("Mend the build.", session=agent.session, model=agent.model)
    assert evaluated_ids(agent) == WITHOUT_A_TOOL


@pytest.mark.requirement("providers:options:config")
@awaited
async def test_each_provider_is_handed_the_settings_under_its_id() -> None:
    seen: list[dict[str, Any]] = []
    agent = AnAgent()
    for name in ("one", "two", "three"):
        agent.providers.register(id=name, subscribes_to=["post_turn"], evaluate=lambda ctx: seen.append(ctx.config))
    await agent.play(reminders={"config": {"two": {"n": 2}, "one": {"n": 1}}})
    assert seen == [{"n": 1}, {"n": 2}, {}]


FACTS: Final = "reminders.config.project_facts"


@pytest.mark.requirement(
    "providers:options:unknown-id-is-001",
    "providers:options:unknown-setting-is-001",
    "providers:options:wrong-value-is-001",
)
@pytest.mark.parametrize(
    ("reminders", "message"),
    [
        pytest.param(
            {"providers": ["grounded_reviw"]},
            "reminders.providers names 'grounded_reviw', but no provider has this id; did you mean 'grounded_review'?",
        ),
        pytest.param(
            {"enabled": False, "providers": ["-mina"]},
            "reminders.providers names 'mina', but no provider has this id; did you mean 'mine'?",
        ),
        pytest.param(
            {"config": {"weather": {}}},
            f"reminders.config names 'weather', but no provider has this id; the providers are "
            f"{', '.join(CANONICAL_PROVIDERS)}, mine. Register a provider of your own before the loop starts",
        ),
        pytest.param(
            {"config": {"project_facts": {"max_fact": 3}}},
            f"{FACTS} has no setting 'max_fact'; did you mean 'max_facts'?",
        ),
        pytest.param(
            {"config": {"workspace_anchor": {"root": "/"}}},
            "reminders.config.workspace_anchor has no setting 'root'; there are no settings",
        ),
        pytest.param({"provider": ["-mine"]}, "reminders has no option 'provider'; did you mean 'providers'?"),
        pytest.param("off", "reminders must be True, False or a mapping, not 'off'"),
        pytest.param({"providers": "mine"}, "reminders.providers must be a list of provider ids"),
        pytest.param({"config": {"idle_nudge": 90}}, "reminders.config.idle_nudge must be a"),
        *(
            pytest.param(
                {"config": {provider: {key: value}}},
                f"reminders.config.{provider}.{key} must be {wanted}, not {shown(value)}",
            )
            for provider, key, value, wanted in (
                ("token_pressure", "context_window", "128k", "a whole number of at least 1"),
                ("token_pressure", "context_window", 0, "a whole number of at least 1"),
                ("project_facts", "context_window", -5, "a whole number of at least 1"),
                ("idle_nudge", "idle_seconds", "90", "a number"),
                ("post_compact_recap", "ttl_turns", 2.5, "a whole number"),
                ("grounded_review", "limit", True, "a whole number"),
                ("grounded_review", "text_scan", "no", "true or false"),
                ("project_facts", "max_facts", "5", "a whole number"),
                ("project_facts", "min_confidence", "high", "a number"),
                ("project_facts", "kind_filter", ["rumour"], f"one of {', '.join(FactKind)}, or a list of these"),
                ("project_facts", "relevance_query", 5, "text"),
                ("project_facts", "scope", "galaxy", "one of project, workspace, user"),
                ("project_facts", "root", " ", "the URL of a store or the path of a store file"),
                ("project_facts", "refresh_ratio", 70, "a number from 0 to 1"),
            )
        ),
    ],
)
@awaited
async def test_a_mistake_in_the_options_is_refused_when_the_loop_starts(reminders: Any, message: str) -> None:  # noqa: ANN401 - as given
    agent = AnAgent()
    agent.providers.register(id="mine", subscribes_to=["post_turn"], evaluate=always(None))
    options: Any = {"model": agent.model, "providers": agent.providers, "reminders": reminders}
    with pytest.raises(ReminderError) as refused:
        await agent.begin(reminders=reminders)
    assert str(refused.value).startswith(f"HARN-RMD-001: {message}")
    with pytest.raises(ReminderError, match=re.escape(message)):
        await sb.spawn(agent.session, agent.children(), "Write the tests.", **options)
    with pytest.raises(ReminderError, match=re.escape(message)):
        sb.Runner(agent.session, **options)
    assert (agent.journal, agent.model.requests) == ([], [])


@pytest.mark.requirement("providers:options:unknown-setting-is-001")
@awaited
async def test_the_settings_of_a_registered_provider_are_free() -> None:
    seen: list[dict[str, Any]] = []
    agent = AnAgent()
    for name in ("mine", "idle_nudge"):
        agent.providers.register(id=name, subscribes_to=["post_turn"], evaluate=lambda ctx: seen.append(ctx.config))
    await agent.play(reminders={"config": {"mine": {"depth": {"a": 1}}, "idle_nudge": {"mood": "calm"}}})
    assert seen == [{"depth": {"a": 1}}, {"mood": "calm"}]


@pytest.mark.requirement("providers:limit:raised-when-the-loop-starts")
@awaited
async def test_too_many_providers_are_refused_before_the_loop_has_done_anything() -> None:
    agent = AnAgent()
    for number in range(9):
        agent.providers.register(id=f"mine-{number}", subscribes_to=["post_turn"], evaluate=always(None))
    with pytest.raises(TooManyProviders) as refused:
        await agent.begin(reminders=True)
    assert refused.value.code == "HARN-RMD-007"
    assert (agent.journal, agent.model.requests) == ([], [])
    assert (await agent.play(reminders={"providers": ["-mine-8"]})).status is LoopStatus.COMPLETED
