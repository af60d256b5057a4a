"""A single model call, and the compaction that a running agent makes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest

from sideband import agent_loop, clear_reminder_providers, llm_call, register_reminder_provider
from sideband.core.errors import SessionBusy
from sideband.core.events import (
    Checkpoint,
    Compacted,
    Expired,
    ExpiryReason,
    Fired,
    Idled,
    InjectAccepted,
    InjectDelivered,
    Injected,
    ProviderEvaluated,
    RequestCommitted,
    Started,
    TurnCommitted,
)
from sideband.core.hookevents import PROVIDER_EVENTS, SessionEvent
from sideband.core.messages import Message, text_of
from sideband.core.reminder import Source
from sideband.core.seams import Seam
from sideband.core.state import PendingState
from sideband.loop.compaction import KeepLast
from sideband.loop.run import Step
from sideband.render.view import RequestView
from sideband.runtime.options import SUMMARY_INSTRUCTION
from sideband.testing import ScriptedModel
from tests.agents import AnAgent, awaited
from tests.builders import a_draft
from tests.loop_builders import ATool, a_reply, unanswered_calls, until

BODY: Final = "The build is red."
QUESTION: Final = "Is it done?"


async def an_agent_with_a_live_reminder(**fields: object) -> AnAgent:
    agent = AnAgent()
    await agent.session.talk.inject(a_draft(**fields), source=Source.HOOK)
    agent.recorded.commits.clear()
    return agent


# One call.


@pytest.mark.requirement("loop:llm_call:renders-the-session")
@awaited
async def test_a_call_with_a_session_shows_what_is_live_there() -> None:
    agent = await an_agent_with_a_live_reminder()
    reply = await llm_call(QUESTION, model=agent.model, session=agent.session)
    (shown,) = agent.shown()
    assert BODY in shown
    assert (reply.text, agent.requests_with(QUESTION)) == ("Done.", [1])


@pytest.mark.requirement("loop:llm_call:is-one-turn")
@awaited
async def test_a_call_with_a_session_has_every_commit_point_of_a_turn() -> None:
    agent = await an_agent_with_a_live_reminder(ttl_turns=1)
    await llm_call(QUESTION, model=agent.model, session=agent.session)
    assert [[type(event) for event in commit] for commit in agent.recorded.commits] == [
        [InjectAccepted, Started, InjectDelivered],
        [RequestCommitted, Fired],
        [TurnCommitted, Expired],
        [Idled],
    ]
    (expired,) = agent.events(Expired)
    assert (expired.reason, expired.turn, agent.state.live.turn) == (ExpiryReason.TTL, 1, 1)


@pytest.fixture
def an_eager_provider() -> Iterator[list[str]]:
    """A provider of this process that listens to everything; what it heard."""
    heard: list[str] = []
    register_reminder_provider(
        id="eager", subscribes_to=[*PROVIDER_EVENTS], evaluate=lambda ctx: heard.append(ctx.event)
    )
    yield heard
    clear_reminder_providers()


@pytest.mark.requirement("loop:llm_call:evaluates-no-provider")
def test_a_call_evaluates_no_provider_where_a_loop_does(an_eager_provider: list[str]) -> None:
    @awaited
    async def both() -> None:
        agent = AnAgent()
        await llm_call(QUESTION, model=agent.model, session=agent.session)
        assert (an_eager_provider, agent.events(ProviderEvaluated)) == ([], [])
        await agent_loop(QUESTION, model=agent.model, session=agent.session)
        assert an_eager_provider
        assert agent.events(ProviderEvaluated)

    both()


@pytest.mark.requirement("loop:llm_call:busy-session")
@awaited
async def test_a_call_on_a_session_in_use_is_refused() -> None:
    refusals: list[str] = []

    async def answer(_view: RequestView) -> str:
        with pytest.raises(SessionBusy) as refused:
            await llm_call(QUESTION, model=agent.model, session=agent.session)
        refusals.append(refused.value.reason)
        return "Done."

    agent = AnAgent(answer, "Not asked.", answer)
    await agent.play()
    assert (refusals, len(agent.model.requests)) == (["session_busy"], 1)
    await llm_call(QUESTION, model=ScriptedModel([answer]), session=agent.session)
    assert refusals == ["session_busy"] * 2


@pytest.mark.requirement("loop:llm_call:drains-reminders")
@awaited
async def test_a_call_shows_what_is_queued_interrupts_first() -> None:
    agent = AnAgent()
    later = (await agent.session.remind(BODY, ttl_turns=1)).reminder_id
    first = (await agent.session.remind("Stop the deploy.", mode="interrupt_immediate")).reminder_id
    await llm_call(QUESTION, model=agent.model, session=agent.session)
    first_shown, later_shown = agent.shown()
    assert "Stop the deploy." in first_shown
    assert BODY in later_shown
    (drained,) = agent.events(Checkpoint)
    assert (drained.turn, drained.seam, drained.ids) == (0, Seam.ITERATION_START, (first, later))
    assert [(row.state, row.reminder.id) for row in await agent.session.pending()] == [(PendingState.LIVE, first)]


@pytest.mark.requirement("loop:llm_call:leaves-messages-queued")
@awaited
async def test_a_call_leaves_messages_and_audit_records_in_the_inbox() -> None:
    agent = AnAgent()
    waiting = [
        await agent.session.prompt("And then?"),
        await agent.session.inject("Stop!", mode="interrupt_immediate"),
        (await agent.session.remind(BODY, mode="audit_only")).reminder_id,
    ]
    await llm_call(QUESTION, model=agent.model, session=agent.session)
    assert [row.item.id for row in await agent.session.waiting()] == waiting
    assert (agent.events(Checkpoint), agent.shown()) == ([], ())
    (request,) = agent.model.requests
    assert [text_of(message) for message in request.messages] == [QUESTION]


@pytest.mark.requirement("loop:llm_call:without-a-session")
@awaited
async def test_a_call_without_a_session_shows_and_counts_nothing() -> None:
    agent = await an_agent_with_a_live_reminder(ttl_turns=1)
    await llm_call(QUESTION, model=agent.model, system="Be brief.")
    (request,) = agent.model.requests
    assert (request.system, request.reminders) == ("Be brief.", ())
    assert [message["content"] for message in request.messages] == [QUESTION]
    assert (agent.recorded.commits, agent.state.live.turn) == ([], 0)


# Compaction in a running agent: its window is full after the first answer.

FULL: Final = a_reply("work", tokens=95)


def a_full_agent() -> AnAgent:
    return AnAgent(FULL, context_window=100)


def keep_the_last(messages: Sequence[Message], _reminders: object) -> Sequence[Message]:
    return messages[-2:]


@pytest.mark.requirement("loop:llm_call:own-calls-are-bare")
@awaited
async def test_the_summary_of_a_compaction_shows_no_reminder_and_counts_as_no_turn() -> None:
    agent = AnAgent(*["Yes."] * 4, a_reply("work", tokens=95), "The gist of it.", context_window=100)
    for number in range(4):
        await agent.play(f"Question {number}?")
    reminder_id = (await agent.session.remind(BODY, ttl_turns=3, preserve_on_compact=True)).reminder_id
    result = await agent.play(compactor="summarize")
    (summary,) = [request for request in agent.model.requests if request.system == SUMMARY_INSTRUCTION]
    assert summary.reminders == ()
    # One text, so that the model does not go on with the conversation, which may end with a reply.
    (document,) = summary.messages
    assert document["content"].startswith("user: Question 0?\n\nassistant: Yes.")
    assert (result.turns, agent.state.live.turn) == (2, 6)
    assert [event.turn for event in agent.events(Fired) if event.reminder_id == reminder_id] == [5, 6]
    assert (agent.state.messages[0]["role"], agent.state.messages[0]["content"]) == ("system", "The gist of it.")


@pytest.mark.requirement("loop:compaction:a-block-aborts")
@pytest.mark.parametrize("answer", [{"block": True}, {"reminder": {"body": BODY}, "then": {"block": True}}])
@awaited
async def test_a_hook_that_blocks_ends_a_compaction_before_anything_has_changed(answer: dict[str, Any]) -> None:
    asked: list[object] = []
    agent = a_full_agent()
    agent.hooks.register_session_hook("pre_compact", lambda _: answer)
    agent.hooks.register_session_hook("post_compact", asked.append)
    await agent.session.remind("Shown twice.", ttl_turns=2)
    await agent.play(compactor=lambda *given: asked.append(given))
    assert (asked, agent.events(Compacted)) == ([], [])
    assert agent.requests_with("Shown twice.") == [1, 2]
    assert len(agent.state.messages) == 4


@pytest.mark.requirement("loop:compaction:post-compact-carries-counts")
@awaited
async def test_hooks_and_providers_are_told_how_much_a_compaction_changed() -> None:
    told: list[dict[str, Any]] = []
    agent = a_full_agent()
    agent.hooks.register_session_hook("post_compact", lambda ctx: told.append(dict(ctx)))
    agent.providers.register(
        id="mine", subscribes_to=["post_compact"], evaluate=lambda ctx: told.append(dict(ctx.payload))
    )
    await agent.session.remind("Kept.", preserve_on_compact=True)
    await agent.session.remind("Not kept.")
    await agent.play(compactor=keep_the_last, reminders={"providers": ["-token_pressure"]})
    assert len(told) == 2
    for payload in told:
        assert payload["archived_messages"] == 1
        assert payload["kept_messages"] == 2
        assert payload["preserved_reminders"] == 1


async def a_long_conversation() -> AnAgent:
    """Six large messages, which fill 99 % of the window."""
    agent = AnAgent(
        *(a_reply(text="A" * 6_400, tokens=tokens) for tokens in (2_000, 5_900, 9_900)), context_window=10_000
    )
    for number in range(3):
        await agent.play(f"Question {number}: " + "Q" * 6_400)
    return agent


@pytest.mark.requirement("loop:compaction:by-tokens", "loop:compaction:size-outlives-a-run")
@pytest.mark.parametrize(("compactor", "written"), [("keep_last", []), ("summarize", ["In short."])])
@awaited
async def test_a_built_in_compactor_archives_until_half_of_the_window_is_free(
    compactor: str, written: list[str]
) -> None:
    agent = await a_long_conversation()
    agent.says(*written, "Done.", context_window=10_000)
    result = await agent.play("Short.", compactor=compactor)
    (compacted,) = agent.events(Compacted)
    assert (compacted.archived_messages, result.problems) == (4, ())
    (request,) = [request for request in agent.model.requests if request.system != SUMMARY_INSTRUCTION]
    texts = [text_of(message) for message in request.messages]
    assert texts[:-3] == written
    assert (texts[-3].startswith("Question 2"), texts[-1]) == (True, "Short.")


@pytest.mark.requirement("loop:compaction:the-last-step-is-kept")
@pytest.mark.parametrize("keep_last", [1, 8])
@awaited
async def test_a_built_in_compactor_keeps_what_no_request_has_shown(keep_last: int) -> None:
    tool = ATool("work", lambda *_: "R" * 10_000)
    agent = AnAgent(
        a_reply("work", "work", tokens=10), a_reply("work", "work", tokens=950), tools=[tool], context_window=1_000
    )
    await agent.play("Q" * 1_000, compactor=KeepLast(keep_last))
    (compacted,) = agent.events(Compacted)
    kept = compacted.messages or ()
    # The task is kept, too, because the turn that answers it goes on.
    assert [message["role"] for message in kept] == ["user", "assistant", "tool", "tool"]
    assert unanswered_calls(kept) == []


@pytest.mark.requirement("loop:compaction:nothing-to-archive-is-reported")
@awaited
async def test_a_prompt_that_cannot_be_made_shorter_is_reported_once() -> None:
    agent = AnAgent(a_reply("work", tokens=990), "Done.", context_window=1_000)
    run = await agent.begin("Q" * 4_000, compactor="keep_last")
    await until(run, Step.TURN)
    result = await run.finish()
    ((where, message, times),) = result.problems
    assert (where, times) == ("compactor", 1)
    assert "nothing can be archived: the prompt has about 1,0" in message
    assert "the target is 500" in message
    assert agent.events(Compacted) == []


@pytest.mark.requirement("loop:compaction:nothing-to-archive-is-reported")
@awaited
async def test_a_prompt_that_is_too_long_after_a_compaction_is_reported() -> None:
    agent = AnAgent("Yes.", a_reply("work", tokens=990), "Done.", context_window=1_000)
    await agent.play("First.")
    result = await agent.play("Q" * 4_000, compactor=KeepLast(1))
    ((_, message, _),) = result.problems
    assert "2 of 5 messages were archived, which is not enough: the prompt has about 998 tokens" in message
    assert [event.archived_messages for event in agent.events(Compacted)] == [2]


@pytest.mark.requirement("loop:compaction:result-is-checked")
@pytest.mark.parametrize(
    ("result", "words"),
    [
        pytest.param(lambda _: [], "returned no message", id="nothing"),
        pytest.param(lambda messages: messages[-1:], "the result of call 'c1' without its call", id="an-orphan-result"),
        pytest.param(lambda messages: messages[:-1], "the call 'c1' without its result", id="a-call-alone"),
    ],
)
@awaited
async def test_a_compactor_that_would_break_the_conversation_is_reported(
    result: Callable[[Sequence[Message]], Sequence[Message]], words: str
) -> None:
    agent = a_full_agent()
    played = await agent.play(compactor=lambda messages, _: result(messages))
    ((where, message, _),) = played.problems
    assert where == "compactor"
    assert words in message
    assert (agent.events(Compacted), len(agent.state.messages)) == ([], 4)


@pytest.mark.requirement("loop:compaction:result-is-checked")
@pytest.mark.parametrize(
    "compactor",
    [
        pytest.param(lambda *_: [{"role": "system", "content": "In short."}], id="dropped"),
        pytest.param(lambda messages, _: messages[:-1], id="asked-before-in-the-same-words"),
        pytest.param(lambda messages, _: [messages[-1], messages[1]], id="moved"),
        pytest.param(lambda messages, _: [*messages[1:], {"role": "system", "content": "In short."}], id="covered"),
    ],
)
@awaited
async def test_a_compactor_cannot_drop_a_question_that_has_no_reply(compactor: Callable[..., list[Message]]) -> None:
    agent = AnAgent(a_reply(text="Done.", tokens=95), "Done.", context_window=100)
    await agent.play("And now?")
    before = list(agent.state.messages)
    result = await agent.play("And now?", compactor=compactor)
    ((_, message, _),) = result.problems
    assert "left out or moved 'And now?', which has no reply yet" in message
    assert (agent.events(Compacted), agent.state.messages[:2], len(agent.model.requests)) == ([], before, 2)


@pytest.mark.requirement("loop:compaction:post-compact-carries-counts")
@awaited
async def test_a_message_that_is_kept_out_of_its_place_is_not_counted_as_archived() -> None:
    agent = AnAgent(*["Yes."] * 2, a_reply("work", tokens=95), context_window=100)
    for question in ("First?", "Second?"):
        await agent.play(question)
    told: list[int] = []
    agent.hooks.register_session_hook("post_compact", lambda context: told.append(context["archived_messages"]))
    await agent.play("Third?", compactor=lambda messages, _: [messages[0], *messages[-2:]])
    assert told == [4]


@pytest.mark.requirement("loop:compaction:result-is-checked")
@awaited
async def test_a_compactor_that_changes_the_messages_it_is_given_changes_nothing() -> None:
    def meddles(messages: Sequence[Message], _reminders: object) -> Sequence[Message]:
        messages[0]["content"] = "Something else."
        return []

    agent = a_full_agent()
    await agent.play(compactor=meddles)
    assert agent.requests_with("Something else.") == []


@pytest.mark.requirement("loop:compaction:summary-of-any-role")
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
@awaited
async def test_the_summary_of_a_compactor_is_told_whatever_its_role(role: str) -> None:
    told: list[object] = []
    agent = a_full_agent()
    agent.hooks.register_session_hook("post_compact", lambda ctx: told.append(ctx["summary"]))
    await agent.play(compactor=lambda messages, _: [{"role": role, "content": "In short."}, *messages[-2:]])
    assert told == ["In short."]


@pytest.mark.requirement("loop:compaction:runs-before-the-first-drain")
@awaited
async def test_a_compaction_runs_before_the_first_drain_of_its_iteration() -> None:
    agent = a_full_agent()

    async def before_it(_ctx: object) -> None:
        await agent.session.remind(BODY)

    agent.hooks.register_session_hook(SessionEvent.PRE_COMPACT, before_it)
    await agent.play(compactor=keep_the_last)
    assert [kind for kind in agent.kinds if kind in {"Compacted", "Injected"}] == ["Compacted", "Injected"]
    (injected,) = agent.events(Injected)
    assert (injected.seam, injected.reminder.fired_at_turn) == (Seam.ITERATION_START, 2)
