"""Calling hooks and providers: their reminders are live, failures are reported, and one failure does not stop the others."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from sideband.core.errors import TooManyProviders, UnknownSession
from sideband.core.events import Event, Injected, ProviderEvaluated
from sideband.core.hookevents import WorkerEvent
from sideband.core.messages import ToolCall
from sideband.core.reminder import Source
from sideband.core.state import Decided
from sideband.loop.hooks import HookRunner
from sideband.loop.run import LoopResult, LoopStatus
from sideband.providers.context import ProviderContext, WorkspaceAnchor
from sideband.providers.grounded_review import went_well
from sideband.recall.facts import FactBook
from sideband.runtime.facts import store_fact
from sideband.testing import run_schedule
from tests.loop_builders import AScene, a_reply, hang

if TYPE_CHECKING:
    from sideband.loop.guard import Problem

Evaluate = Callable[[ProviderContext], Any]


def a_scene_with(*providers: Evaluate, event: str = "post_turn") -> AScene:
    """Providers of the user's, each under the name of its function."""
    scene = AScene()
    for provider in providers:
        scene.providers.register(id=provider.__name__, subscribes_to=[event], evaluate=provider)
    return scene


def virtually(main: Coroutine[Any, Any, LoopResult]) -> LoopResult:
    """A clock that advances only when all tasks wait, so that only a hanging hook reaches its limit."""
    return run_schedule(1, lambda: main)


def play(
    scene: AScene,
    *,
    runs: Callable[[Coroutine[Any, Any, LoopResult]], LoopResult] = asyncio.run,
    **options: Any,  # noqa: ANN401 - those of agent_run
) -> LoopResult:
    # The canonical ones are tested elsewhere; here they would only add to the journal.
    options.setdefault("reminders", {"providers": [f"-{provider.id}" for provider in scene.providers.providers[:8]]})
    return runs(scene.play(**options))


def evaluations(scene: AScene) -> list[Event]:
    return [event for event in scene.journal if isinstance(event, ProviderEvaluated | Injected)]


async def speaks(_ctx: ProviderContext) -> dict[str, object]:
    return {"body": "I was asked."}


# Providers.


def test_a_provider_is_noted_before_what_it_injects() -> None:
    scene = a_scene_with(speaks)
    result = play(scene)
    noted, injected = evaluations(scene)
    assert noted == ProviderEvaluated(provider_id="speaks", event_name="post_turn", fired=True)
    assert isinstance(injected, Injected)
    assert (injected.reminder.body, injected.reminder.source) == ("I was asked.", Source.STDLIB_PROVIDER)
    assert injected.provenance.provider_id == "speaks"
    assert result.problems == ()


def test_a_provider_that_stays_silent_is_noted_too() -> None:
    async def silent(_ctx: ProviderContext) -> None:
        return None

    scene = a_scene_with(silent, speaks)
    play(scene)
    assert [type(event).__name__ for event in evaluations(scene)] == ["ProviderEvaluated"] * 2 + ["Injected"]
    alone = a_scene_with(silent)
    play(alone)
    assert evaluations(alone) == [ProviderEvaluated(provider_id="silent", event_name="post_turn", fired=False)]


async def raises(_ctx: ProviderContext) -> None:
    raise LookupError("lost")


def returning(returned: object) -> Evaluate:
    async def provider(_ctx: ProviderContext) -> object:
        return returned

    return provider


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        pytest.param(raises, "LookupError: lost", id="one-that-raises"),
        pytest.param(hang, "took longer than 0.001 s", id="one-that-hangs"),
        pytest.param(returning({"reminder": {}}), "HARN-RMD-006", id="a-reminder-without-a-body"),
        pytest.param(returning([42]), "HARN-RMD-006", id="a-list-of-nonsense"),
        pytest.param(returning({"body": "x", "typo": 1}), "HARN-RMD-001", id="an-unknown-option"),
        pytest.param(returning({"body": "x", "propagate": "far"}), "HARN-RMD-005", id="an-unknown-reach"),
        pytest.param(returning({"body": "x" * 8_193}), "8,193 bytes", id="too-long-a-body"),
    ],
)
def test_a_provider_that_fails_is_reported_and_the_others_still_run(provider: Evaluate, words: str) -> None:
    scene = AScene()
    scene.providers.register(id="bad", subscribes_to=["post_turn"], evaluate=provider)
    scene.providers.register(id="good", subscribes_to=["post_turn"], evaluate=speaks)
    result = play(scene, runs=virtually, hook_seconds=0.001)
    assert result.status is LoopStatus.COMPLETED
    bad, good = scene.events(ProviderEvaluated)
    assert (bad.fired, good.fired, good.error) == (False, True, None)
    assert words in str(bad.error)
    assert [(problem.where, problem.message) for problem in result.problems] == [
        ("provider bad on post_turn", bad.error)
    ]
    assert [event.reminder.body for event in scene.events(Injected)] == ["I was asked."]


def test_a_provider_that_blocks_its_thread_is_given_up() -> None:
    door = threading.Event()

    def blocks(_ctx: ProviderContext) -> None:
        door.wait()

    scene = a_scene_with(blocks, speaks)
    result = play(scene, hook_seconds=0.2)
    door.set()
    ((where, message, _),) = result.problems
    assert where == "provider blocks on post_turn"
    assert message.endswith("blocks took longer than 0.2 s")
    assert len(scene.events(Injected)) == 1


def test_what_does_not_fit_into_the_budget_of_a_pass_is_skipped_and_said_so() -> None:
    async def first(_ctx: ProviderContext) -> object:
        return [{"body": "a" * 8_000}, {"body": "b" * 8_000}]

    async def second(_ctx: ProviderContext) -> object:
        return {"body": "c" * 500}

    async def third(_ctx: ProviderContext) -> object:
        return {"body": "d" * 300}

    scene = a_scene_with(first, second, third)
    play(scene)
    assert [(event.provider_id, event.fired, event.skipped) for event in scene.events(ProviderEvaluated)] == [
        ("first", True, None),
        ("second", False, "budget"),
        ("third", True, None),
    ]
    assert [event.reminder.body[0] for event in scene.events(Injected)] == ["a", "b", "d"]


def test_what_there_is_no_room_for_is_skipped_and_said_so() -> None:
    async def talks(_ctx: ProviderContext) -> object:
        return [{"body": f"fact {number}"} for number in range(200)]

    async def renews(_ctx: ProviderContext) -> object:
        return {"body": "the same again", "dedupe_key": "k"}

    scene = a_scene_with(renews, talks)
    scene.says(a_reply("work"), a_reply("work"))
    result = play(scene)
    assert [(event.fired, event.skipped) for event in scene.events(ProviderEvaluated)] == [
        (True, None),
        (True, None),
        (True, None),
        (True, "budget"),
        (True, None),
        (False, "budget"),
    ]
    assert len(scene.state.live) == 256
    (problem,) = result.problems
    assert (problem.where, problem.times) == ("provider talks on post_turn", 2)
    assert "256 items of this session are pending" in problem.message


def test_a_hook_makes_no_more_live_than_a_session_may_have() -> None:
    async def talks(_context: object) -> object:
        return [{"body": f"fact {number}"} for number in range(300)]

    scene = AScene()
    scene.hooks.register_session_hook("session_start", talks)
    result = play(scene)
    assert len(scene.state.live) == 256
    (problem,) = result.problems
    assert (problem.times, "256 items of this session are pending" in problem.message) == (44, True)


class Hostile(dict[str, object]):
    """Raises whatever is done with it."""

    def __contains__(self, key: object) -> bool:
        raise RuntimeError("contains")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("iter")

    def items(self) -> Any:  # noqa: ANN401 - nothing
        raise RuntimeError("items")


def test_an_answer_that_cannot_be_read_is_a_problem_of_whoever_gave_it() -> None:
    async def odd(_told: object) -> object:
        return Hostile(body="x")

    scene = a_scene_with(odd, speaks)
    scene.hooks.register_session_hook("post_turn", odd)
    result = play(scene)
    assert [problem.where.split()[0] for problem in result.problems] == ["hook", "provider"]
    assert all("cannot be read: RuntimeError" in problem.message for problem in result.problems)
    assert scene.requests_with("I was asked.") == []
    assert len(scene.state.live) == 1


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_a_provider_ends_neither_the_run_nor_the_program(error: BaseException) -> None:
    async def quits(_ctx: ProviderContext) -> None:
        raise error

    scene = a_scene_with(quits, speaks)
    result = play(scene)
    assert result.status is LoopStatus.COMPLETED
    assert f"raised {type(error).__name__}" in result.problems[0].message
    assert len(scene.events(Injected)) == 1


@pytest.mark.parametrize("off", [False, {"enabled": False}], ids=["false", "enabled-false"])
def test_providers_that_are_off_are_not_even_evaluated(off: Any) -> None:  # noqa: ANN401 - of either form
    scene = a_scene_with(speaks)
    scene.says(a_reply("work"))
    play(scene, reminders=off)
    assert evaluations(scene) == []


def test_one_that_is_switched_off_is_not_evaluated() -> None:
    scene = a_scene_with(speaks)
    play(scene, reminders={"providers": ["-speaks", "-token_pressure"]})
    evaluated = {event.provider_id for event in scene.events(ProviderEvaluated)}
    assert evaluated
    assert not evaluated & {"speaks", "token_pressure"}


def test_every_canonical_provider_is_on_unless_told_otherwise() -> None:
    scene = AScene()
    scene.says(a_reply("work", tokens=90), context_window=100)
    asyncio.run(scene.play(reminders=True, compactor=lambda messages, _: messages[1:]))
    evaluated = {event.provider_id for event in scene.events(ProviderEvaluated)}
    # What happens to a daemon and to a resumed worker does not happen here.
    assert evaluated == {
        "post_compact_recap",
        "token_pressure",
        "tool_output_truncated",
        "project_facts",
        "workspace_anchor",
        "grounded_review",
    }


def test_too_many_providers_are_refused_when_the_loop_starts_and_nothing_has_changed() -> None:
    scene = AScene()
    for number in range(9):
        scene.providers.register(id=f"p{number}", subscribes_to=["post_turn"], evaluate=speaks)

    async def main() -> None:
        with pytest.raises(TooManyProviders, match="HARN-RMD-007"):
            await scene.play(reminders=True)
        assert (scene.journal, scene.session.busy) == ([], False)
        assert (await scene.play(reminders={"providers": ["-p0"]})).status is LoopStatus.COMPLETED

    asyncio.run(main())


def test_providers_run_whatever_tools_the_agent_may_use() -> None:
    class Strict:
        async def ask(self, _call: ToolCall) -> str:
            return "nothing is allowed"

    scene = a_scene_with(speaks, event="post_tool_use")
    scene.says(a_reply("work"))
    play(scene, permission=Strict())
    assert scene.results() == [("c1", "denied")]
    assert scene.requests_with("I was asked.") == [2]


def test_a_provider_is_told_of_the_event_the_loop_and_its_own_settings() -> None:
    seen: list[ProviderContext] = []

    async def looks(ctx: ProviderContext) -> None:
        seen.append(ctx)

    scene = a_scene_with(looks, event="session_start")
    scene.says("Done.", context_window=1_000)
    anchor = WorkspaceAnchor(primary="/work")
    facts = FactBook()
    play(scene, reminders={"config": {"looks": {"depth": 3}}}, anchor=anchor, facts=facts, name="main")
    (ctx,) = seen
    assert (ctx.event, ctx.session_id, ctx.task) == ("session_start", "main", "Mend the build.")
    assert ctx.payload == {"task": "Mend the build.", "agent": "main"}
    assert (ctx.config, ctx.options["model"], ctx.profile) == (
        {"depth": 3},
        "ScriptedModel",
        {"context_window": 1_000},
    )
    assert (ctx.facts, ctx.anchor, ctx.session) == (facts, anchor, scene.session.talk)


def test_what_the_loop_tells_when_nothing_went_wrong_is_let_pass_by_the_cheap_look() -> None:
    told: list[tuple[str, dict[str, Any]]] = []

    async def looks(ctx: ProviderContext) -> None:
        told.append((ctx.event, ctx.payload))

    scene = AScene()
    events = ["post_tool_use", "post_step", "post_agent_turn"]
    scene.providers.register(id="looks", subscribes_to=events, evaluate=looks)
    scene.says(a_reply("work"), "Done.")
    play(scene)
    assert [event for event, _ in told] == ["post_tool_use", "post_step", "post_agent_turn", "post_step"]
    assert all(went_well(event, payload) for event, payload in told)


def test_facts_and_the_anchor_are_told_at_the_start() -> None:
    book = store_fact(FactBook(), kind="decision", claim="The build uses ninja.", confidence=0.9).book
    scene = AScene()
    asyncio.run(scene.play("Mend the build.", reminders=True, facts=book, anchor=WorkspaceAnchor(primary="/work")))
    assert scene.requests_with("The build uses ninja.") == [1]
    assert scene.requests_with("/work") == [1]


def test_one_key_is_shown_once_however_often_it_is_said() -> None:
    async def repeats(ctx: ProviderContext) -> object:
        return {"body": f"as of turn {ctx.payload['turn']}", "dedupe_key": "k"}

    scene = a_scene_with(repeats)
    scene.says(a_reply("work"), a_reply("work"))
    play(scene)
    assert [len(request.reminders) for request in scene.model.requests] == [0, 1, 1]
    assert scene.requests_with("as of turn 1") == [2]


def test_what_is_noted_when_a_run_is_over_is_written_down_though_no_commit_follows() -> None:
    async def silent(_ctx: ProviderContext) -> None:
        return None

    scene = a_scene_with(silent, event="post_finish")
    play(scene)
    assert scene.journal[-1] == ProviderEvaluated(provider_id="silent", event_name="post_finish", fired=False)
    assert scene.session.talk.lease is None


def test_what_was_noted_survives_a_commit_that_was_refused() -> None:
    scene = AScene()
    noted = ProviderEvaluated(provider_id="p", event_name="post_turn", fired=False)

    def refuse(_state: object) -> Decided[None]:
        raise UnknownSession("no")

    async def main() -> None:
        scene.session.talk.note(noted)
        assert scene.journal == []
        with pytest.raises(UnknownSession):
            await scene.session.talk.commit(refuse)
        assert scene.journal == []
        await scene.session.talk.start_with("next")
        assert scene.journal[0] == noted
        assert scene.kinds == ["ProviderEvaluated", "InjectAccepted", "Started", "InjectDelivered"]

    asyncio.run(main())


@pytest.mark.parametrize("returned", [[42], [{"deny": "x"}]], ids=repr)
def test_a_hook_that_returns_a_list_of_anything_else_is_reported(returned: object) -> None:
    async def hook(_context: object) -> object:
        return returned

    scene = AScene()
    scene.hooks.register_session_hook("post_turn", hook)
    ((where, message, _),) = play(scene).problems
    assert where.endswith("hook on post_turn")
    assert "HARN-RMD-001" in message


# Hooks on workers can only watch.


@pytest.mark.parametrize("event", WorkerEvent)
def test_a_reminder_in_answer_to_a_worker_event_is_refused_by_name(event: WorkerEvent) -> None:
    scene = AScene()
    problems: list[Problem] = []

    async def hook(_context: object) -> object:
        return {"reminder": {"body": "no"}, "then": {"noted": True}}

    scene.hooks.register_session_hook(event, hook)
    teller = HookRunner(scene.session.talk, scene.hooks, problems.append)
    assert asyncio.run(teller.notify(event, {"worker": "helper"})) == [{"noted": True}]
    assert scene.journal == []
    assert "HARN-RMD-008" in problems[0].message
    assert event.value in problems[0].message


def test_a_session_that_is_closed_takes_no_reminder_from_a_hook() -> None:
    scene = AScene()
    problems: list[Problem] = []

    async def hook(_context: object) -> object:
        return {"body": "too late"}

    scene.hooks.register_session_hook("post_turn", hook)

    async def main() -> None:
        await scene.session.close()
        teller = HookRunner(scene.session.talk, scene.hooks, problems.append)
        answer = await teller.call(hook, "post_turn", {})
        assert answer.reminders == ()

    asyncio.run(main())
    assert (scene.kinds, len(problems)) == (["Closed"], 1)
