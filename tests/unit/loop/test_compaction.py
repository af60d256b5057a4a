"""Compacting a running conversation: by which rule, what survives it, and who is told."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sideband.core.events import Compacted, Expired, Injected
from sideband.core.messages import Message
from sideband.core.reminder import Reminder
from sideband.core.transcript import Transcript
from sideband.loop.agent import AgentRun
from sideband.loop.compaction import KeepLast, PromptSize, Summarize, as_document
from sideband.loop.guard import Problem
from sideband.loop.run import LoopStatus, Step
from sideband.render.view import RequestView
from sideband.runtime.options import read_compactor
from sideband.testing import ScriptedModel, run_schedule
from tests.loop_builders import AScene, a_reply, hang, others, same_state, until

SUMMARY: Message = {"role": "system", "content": "They mended the build."}


def compacting(scene: AScene, compactor: object, **options: Any) -> tuple[AgentRun, int]:  # noqa: ANN401 - of agent_run
    """A run of three messages that is compacted between two turns; how many it archived."""
    scene.says(a_reply("work"), "Done.")

    async def main() -> tuple[AgentRun, int]:
        run = await scene.begin(compactor=compactor, **options)
        await until(run, Step.TOOLS)
        archived = await run.compact()
        await run.finish()
        return run, archived

    return asyncio.run(main())


def keep_one(messages: Sequence[Message], _reminders: Sequence[Reminder]) -> list[Message]:
    return [SUMMARY, *messages[1:]]


# Which messages.


def a_conversation() -> list[Message]:
    return [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "work", "args": {}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "assistant", "content": "Done."},
    ]


@pytest.mark.parametrize(
    ("keep_last", "kept"),
    [
        pytest.param(1, [0, 3], id="the-task-and-the-last"),
        pytest.param(2, [0, 3], id="a-result-is-not-parted-from-its-call"),
        pytest.param(3, [0, 1, 2, 3], id="the-call-too"),
        pytest.param(9, [0, 1, 2, 3], id="all-there-are"),
    ],
)
def test_the_last_messages_are_kept(keep_last: int, kept: list[int]) -> None:
    messages = a_conversation()
    compaction = asyncio.run(KeepLast(keep_last).compact(messages, ()))
    assert compaction == ([messages[place] for place in kept], None)


def test_a_summary_stands_for_what_is_not_kept() -> None:
    asked: list[int] = []

    async def summarise(messages: Sequence[Message]) -> str:
        asked.append(len(messages))
        return "They mended it."

    messages = a_conversation()
    summary: Message = {"role": "system", "content": "They mended it."}
    assert asyncio.run(Summarize(summarise, 1).compact(messages, ())).messages == [summary, messages[-1]]
    assert asyncio.run(Summarize(summarise).compact(messages, ())).messages == messages
    assert asked == [3]


def test_a_summary_is_not_summarised_again_by_itself() -> None:
    async def summarise(_messages: object) -> str:
        raise AssertionError("there is nothing new to summarise")

    async def main() -> None:
        messages, full = [SUMMARY, *a_conversation()[1:3]], PromptSize(measured=95, window=100)
        compactor = Summarize(summarise)
        kept, problem = await compactor.compact(messages, (), full)
        assert (kept, str(problem).partition(":")[0]) == (messages, "nothing can be archived")
        # Once it is reported, it is not reported again.
        assert await compactor.compact(messages, (), full) == (messages, None)

    asyncio.run(main())


def test_a_summariser_reads_the_conversation_as_one_text() -> None:
    conversation: list[Message] = [
        {
            "role": "user",
            "content": [
                {"text": "Look."},
                {"type": "image", "source": "…"},
                {"type": "resource", "resource": {"uri": "file:///a", "text": "It says a."}},
                {"type": "resource_link", "uri": "https://wiki.example/b"},
                {"type": "resource", "resource": "of another client"},
            ],
        },
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "name": "read", "args": {"path": "a"}}]},
        {"role": "tool", "tool_call_id": "c1", "name": "read", "content": "It says b."},
    ]
    assert as_document(conversation) == (
        "user: Look.\n[image]\n[resource file:///a]\nIt says a.\n[resource_link https://wiki.example/b]\n[resource]\n\n"
        'assistant: calls read with {"path":"a"}\n\ntool read: It says b.'
    )


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param([SUMMARY], id="a-list"),
        pytest.param({"messages": [SUMMARY]}, id="a-mapping"),
        pytest.param(Transcript(messages=(SUMMARY,)), id="a-transcript"),
    ],
)
@pytest.mark.parametrize("form", ["function", "coroutine", "object"])
def test_a_compactor_of_the_users_may_answer_in_any_form(returned: object, form: str) -> None:
    seen: list[object] = []

    def function(messages: object, reminders: object) -> object:
        seen.append((messages, reminders))
        return returned

    async def coroutine(messages: object, reminders: object) -> object:
        return function(messages, reminders)

    class Compacts:
        compact = staticmethod(function)

    forms: dict[str, Any] = {"function": function, "coroutine": coroutine, "object": Compacts()}
    compactor, messages = read_compactor(forms[form], ScriptedModel()), a_conversation()
    assert compactor is not None
    assert asyncio.run(compactor.compact(messages, ())) == ((SUMMARY,), None)
    assert seen == [(messages, ())]


# What becomes of the reminders.


def test_what_asked_to_be_preserved_survives_and_the_rest_is_told_to_go() -> None:
    scene = AScene()
    seen: list[tuple[str, int | None]] = []

    def compactor(messages: Sequence[Message], reminders: Sequence[Reminder]) -> list[Message]:
        seen.extend((reminder.body, reminder.ttl_turns) for reminder in reminders)
        return keep_one(messages, reminders)

    async def prepare() -> None:
        await scene.session.remind("stays", preserve_on_compact=True)
        await scene.session.remind("stays one turn less", preserve_on_compact=True, ttl_turns=3)
        await scene.session.remind("goes")
        await scene.session.remind("would have had one turn", preserve_on_compact=True, ttl_turns=2)

    asyncio.run(prepare())
    _, archived = compacting(scene, compactor)
    assert archived == 1
    assert seen == [("stays", None), ("stays one turn less", 1), ("goes", None)]
    assert [event.reason for event in scene.events(Expired)] == ["ttl", "compaction", "ttl"]
    assert [len(scene.requests_with(body)) for body in ("stays", "stays one turn", "goes", "would have")] == [
        2,
        2,
        1,
        1,
    ]
    assert same_state(scene)


def test_the_inbox_is_not_touched() -> None:
    scene = AScene()

    async def compactor(messages: Sequence[Message], reminders: Sequence[Reminder]) -> list[Message]:
        await scene.session.remind("waiting", mode="finish_step")
        await scene.session.inject("steered", mode="steer")
        return keep_one(messages, reminders)

    compacting(scene, compactor)
    assert scene.requests_with("waiting") == scene.requests_with("steered") == [2]
    assert scene.kinds.index("Compacted") < scene.kinds.index("Checkpoint")


def test_what_is_cleared_while_the_compactor_works_ends_once() -> None:
    scene = AScene()

    async def compactor(messages: Sequence[Message], reminders: Sequence[Reminder]) -> list[Message]:
        assert len(reminders) == 1
        assert await scene.session.clear(tag="t") == 1
        return keep_one(messages, reminders)

    asyncio.run(scene.session.remind("cleared meanwhile", tags=["t"]))
    run, archived = compacting(scene, compactor)
    assert run.result is not None
    assert (archived, run.result.problems) == (1, ())
    assert [event.reason for event in scene.events(Expired)] == ["cleared"]
    assert same_state(scene)


# What hooks and providers are told.


def test_hooks_are_told_before_and_after_and_a_recap_is_live() -> None:
    scene = AScene()
    told: list[dict[str, Any]] = []

    async def hook(context: dict[str, Any]) -> None:
        told.append(dict(context))

    scene.hooks.register_session_hook("pre_compact", hook)
    scene.hooks.register_session_hook("post_compact", hook)
    asyncio.run(scene.session.remind("stays", preserve_on_compact=True))
    compacting(scene, keep_one, reminders=True)
    before, after = told
    assert (before["messages"], before["reminders"]) == (3, 1)
    assert {name: after[name] for name in ("archived_messages", "summary", "kept_messages", "preserved_reminders")} == {
        "archived_messages": 1,
        "summary": "They mended the build.",
        "kept_messages": 3,
        "preserved_reminders": 1,
    }
    assert scene.requests_with("The summary that the compaction made of") == [2]


def test_a_hook_may_block_a_compaction() -> None:
    scene = AScene()

    async def hook(_context: object) -> object:
        return {"block": True, "reason": "not now"}

    scene.hooks.register_session_hook("pre_compact", hook)
    asked: list[object] = []
    run, archived = compacting(scene, lambda *given: asked.append(given), reminders=True)
    assert run.result is not None
    assert (archived, asked, run.result.problems) == (0, [], ())
    assert (scene.events(Compacted), scene.events(Injected)) == ([], [])


def test_a_second_recap_replaces_the_first() -> None:
    scene = AScene()
    scene.says(*[a_reply("work")] * 3, "Done.")

    async def main() -> None:
        run = await scene.begin(compactor=lambda messages, _: messages[-2:], reminders=True)
        for _ in range(2):
            await until(run, Step.TOOLS)
            assert await run.compact()
        await run.finish()

    asyncio.run(main())
    assert max(len(request.reminders) for request in scene.model.requests) == 1


def test_a_text_that_is_no_summary_is_not_told_as_one() -> None:
    scene = AScene()
    told: list[object] = []

    async def hook(context: dict[str, object]) -> None:
        told.append(context["summary"])

    scene.hooks.register_session_hook("post_compact", hook)
    scene.says(*[a_reply("work")] * 3)

    rounds: list[int] = []

    def compactor(messages: Sequence[Message], _reminders: Sequence[Reminder]) -> Sequence[Message]:
        """First a summary, whatever its role, then the summary without what came after it, then without the summary."""
        rounds.append(1)
        match len(rounds):
            case 1:
                return [{**SUMMARY, "role": "user"}, *messages[1:]]
            case 2:
                shortened = {**messages[-1], "content": "(shortened)"}
                return [{"role": "user", "content": messages[0]["content"]}, *messages[3:-1], shortened]
            case _:
                return messages[1:]

    async def main() -> None:
        run = await scene.begin(compactor=compactor)
        for _ in range(3):
            await until(run, Step.TOOLS)
            assert await run.compact()
        await run.finish()

    asyncio.run(main())
    assert told == ["They mended the build.", None, None]


# By itself.


def test_a_run_compacts_by_itself_when_nine_tenths_of_the_window_are_full() -> None:
    scene = AScene()
    scene.says(*(a_reply("work", tokens=tokens) for tokens in (89, 90, 30, 30)), context_window=100)
    asyncio.run(scene.play(compactor=lambda messages, _: messages[-2:]))
    assert scene.kinds.count("Compacted") == 1
    assert scene.kinds[: scene.kinds.index("Compacted")].count("TurnCommitted") == 2


def test_without_a_compactor_it_does_not() -> None:
    scene = AScene()
    scene.says(a_reply("work", tokens=99), context_window=100)
    asyncio.run(scene.play())
    assert scene.events(Compacted) == []


# What goes wrong.


@pytest.mark.parametrize(
    ("compactor", "words"),
    [
        pytest.param(lambda *_: 1 / 0, "ZeroDivisionError", id="one-that-raises"),
        pytest.param(lambda *_: None, "must return a list of messages or a transcript, not None", id="nothing"),
        pytest.param(lambda *_: ["text"], "must return a list of messages", id="no-messages"),
        pytest.param(lambda *_: [{"content": "by whom?"}], "message 0 with the role None; the roles are", id="no-role"),
        pytest.param(lambda *_: {"summary": "s"}, "must return a list of messages", id="another-mapping"),
        pytest.param(
            lambda *_: [{"role": "system", "content": None}], "message 0 with the content None", id="no-content"
        ),
        pytest.param(
            lambda *_: [{"role": "oracle", "content": "?"}], "message 0 with the role 'oracle'", id="an-unknown-role"
        ),
        pytest.param(
            lambda *_: [{"role": "assistant", "content": "", "tool_calls": [{"name": "run", "args": {}}]}],
            "each call needs an id, a name and args",
            id="a-call-that-no-result-could-name",
        ),
        pytest.param(
            lambda *_: [{"role": "assistant", "content": "", "tool_calls": "run"}],
            "message 0 with the tool_calls 'run'",
            id="no-calls",
        ),
        pytest.param(
            lambda *_: [{"role": "user", "content": [{"type": "text", "text": 5}]}],
            "content is a text or a list of blocks",
            id="a-text-that-is-none",
        ),
        pytest.param(
            lambda messages, _: [{"role": "user", "content": [{"type": "imge"}]}, *messages[1:]],
            "message 0 with a block that no request can show: content[0].type must be one of",
            id="a-block-of-no-kind",
        ),
        pytest.param(
            lambda messages, _: [SUMMARY, *messages],
            "returned all messages, in another order or with new ones; leave some out",
            id="more-than-there-was",
        ),
        pytest.param(lambda *_: [], "returned no message; return a summary", id="nothing-left"),
        pytest.param(
            lambda messages, _: [SUMMARY, *messages[:-1]], "the call 'c1' without its result", id="a-call-alone"
        ),
        pytest.param(
            lambda messages, _: [SUMMARY, messages[-1]], "the result of call 'c1' without its call", id="a-result-alone"
        ),
        pytest.param(
            lambda *_: [{"role": "user", "content": "x", "at": object()}],
            "that can be stored as JSON",
            id="what-no-journal-can-hold",
        ),
    ],
)
def test_a_compactor_that_fails_is_reported_and_nothing_has_changed(compactor: object, words: str) -> None:
    scene = AScene()
    run, archived = compacting(scene, compactor)
    assert run.result is not None
    assert (archived, run.result.status, scene.events(Compacted)) == (0, LoopStatus.COMPLETED, [])
    ((where, message, _),) = run.result.problems
    assert where == "compactor"
    assert words in message


def test_a_compactor_that_hangs_is_given_up_when_a_model_would_be() -> None:
    scene = AScene()
    scene.says(a_reply("work", tokens=95), context_window=100)
    result = run_schedule(1, lambda: scene.play(compactor=hang, model_seconds=60))
    assert result.status is LoopStatus.COMPLETED
    assert result.problems == (Problem("compactor", "Custom.compact took longer than 60 s"),)
    assert scene.events(Compacted) == []


def test_where_there_is_nothing_to_compact_nothing_happens() -> None:
    scene = AScene()
    asyncio.run(scene.session.remind("stays"))
    _, archived = compacting(scene, "keep_last", reminders=True)
    assert (archived, scene.events(Compacted), scene.events(Expired)) == (0, [], [])
    _, archived = compacting(AScene(), None)
    assert archived == 0


def test_a_compaction_in_the_middle_of_a_turn_is_discarded() -> None:
    scene = AScene()
    runs: list[AgentRun] = []

    async def line(_view: RequestView) -> str:
        assert await runs[0].compact() == 0
        return "Done."

    scene.says(line)

    async def main() -> None:
        runs.append(await scene.begin(compactor=lambda *_: [SUMMARY]))
        await runs[0].finish()

    asyncio.run(main())
    assert scene.events(Compacted) == []


def test_a_conversation_that_has_gone_on_meanwhile_is_not_compacted() -> None:
    scene = AScene()

    async def main() -> None:
        await scene.play()
        before = tuple(scene.state.messages)
        await scene.play("Go on.")
        assert await scene.session.talk.compact(before, [SUMMARY], begun_at=0) == 0
        assert await scene.session.talk.compact(tuple(scene.state.messages), [SUMMARY], begun_at=0) == 4

    asyncio.run(main())
    assert scene.state.messages == [{**SUMMARY, "id": "main-6"}]


def test_cancelling_reaches_a_compactor_that_hangs() -> None:
    scene = AScene()
    scene.says(a_reply("work", tokens=95), context_window=100)

    async def main() -> None:
        run = await scene.begin(compactor=hang)
        driving = asyncio.create_task(run.finish())
        await others()
        run.cancel()
        assert (await driving).status is LoopStatus.CANCELLED

    asyncio.run(main())
    assert scene.events(Compacted) == []
