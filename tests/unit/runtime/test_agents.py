"""Running an agent with one call, and calling a model once."""

import asyncio
from typing import Any

import pytest

from sideband.core.errors import (
    InvalidOption,
    ReminderError,
    SessionBusy,
    TooManyPending,
    UnknownOption,
    UnknownSession,
)
from sideband.core.events import Compacted, Fired, ProviderEvaluated, TurnCommitted, TurnVoided
from sideband.core.limits import Limits
from sideband.core.messages import Reply
from sideband.loop.compaction import Custom, KeepLast, Summarize
from sideband.loop.guard import Problem
from sideband.loop.run import LoopStatus
from sideband.ports import FileChange, ModelError, OnText
from sideband.render.plan import Plan
from sideband.render.view import RequestView
from sideband.runtime.agents import agent_loop, agent_run, llm_call
from sideband.runtime.models import read_model
from sideband.runtime.options import read_compactor
from sideband.runtime.registries import HOOKS, PROVIDERS
from sideband.testing import FakeClock, ScriptedModel, run_schedule
from tests.loop_builders import AScene, ATool, a_reply, a_session, hang, others, unanswered_calls


def test_a_loop_needs_a_task_and_a_model_and_nothing_else() -> None:
    result = asyncio.run(agent_loop("Mend it.", model="scripted:Mended."))
    assert (result.status, result.text, result.turns) == (LoopStatus.COMPLETED, "Mended.", 1)


@pytest.mark.parametrize(
    ("model", "text"), [("scripted:Yes: done.", "Yes: done."), ("scripted:", "Done."), ("scripted", "Done.")]
)
def test_a_scripted_model_can_be_named(model: str, text: str) -> None:
    assert asyncio.run(llm_call("Hello?", model=model)).text == text


def test_a_model_object_is_itself() -> None:
    model = ScriptedModel()
    assert read_model(model) is model


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param({"model": "oracle:delphi"}, InvalidOption, id="an-unknown-model"),
        pytest.param({"queue_after_cancel": "drop"}, InvalidOption, id="another-fate-of-the-queue"),
        pytest.param({"compactor": "shred"}, InvalidOption, id="an-unknown-compactor"),
        pytest.param({"reminders": {"typo": 1}}, UnknownOption, id="an-unknown-option-for-reminders"),
        pytest.param({"reminders": "yes"}, InvalidOption, id="no-option-for-reminders"),
        pytest.param({"compactor": 5}, InvalidOption, id="no-compactor-at-all"),
        pytest.param({"permission": 5}, InvalidOption, id="permission-that-cannot-be-called"),
        pytest.param({"watcher": 5}, InvalidOption, id="not-a-watcher"),
        pytest.param({"tools": [ATool("a"), ATool("b"), ATool("a")]}, InvalidOption, id="two-tools-of-one-name"),
        pytest.param({"tools": [ATool("")]}, InvalidOption, id="a-tool-without-a-name"),
        pytest.param({"model": ScriptedModel(context_window="8k")}, InvalidOption, id="a-window-in-words"),  # type: ignore[arg-type]
        pytest.param({"model": ScriptedModel(context_window=0)}, InvalidOption, id="a-window-of-nothing"),
        pytest.param({"model": ScriptedModel(context_window=True)}, InvalidOption, id="a-window-that-is-true"),
    ],
)
def test_a_run_that_is_refused_has_changed_nothing(options: dict[str, Any], error: type[ReminderError]) -> None:
    scene = AScene()

    async def main() -> None:
        with pytest.raises(error):
            await scene.begin(**options)
        assert (scene.journal, scene.session.busy) == ([], False)

    asyncio.run(main())


def test_a_run_whose_prompt_is_refused_has_changed_nothing() -> None:
    session = a_session(limits=Limits(pending_per_session=1))

    async def main() -> None:
        await session.prompt("full")
        with pytest.raises(TooManyPending):
            await agent_run("Mend it.", session=session, model="scripted:")
        assert not session.busy
        assert (await agent_loop(None, session=session, model="scripted:")).status is LoopStatus.COMPLETED

    asyncio.run(main())


def test_one_loop_at_a_time() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> str:
        with pytest.raises(SessionBusy) as busy:
            await scene.play("Me too.")
        assert busy.value.reason == "session_busy"
        with pytest.raises(SessionBusy):
            await llm_call("Me too.", session=scene.session, model="scripted:")
        return "Done."

    scene.says(line)

    async def main() -> None:
        assert (await scene.play()).text == "Done."
        assert (await scene.play("Now me.")).status is LoopStatus.COMPLETED

    asyncio.run(main())
    assert scene.requests_with("Me too.") == []


def test_hooks_and_providers_of_the_process_are_used_unless_others_are_given() -> None:
    told: list[str] = []

    async def hook(context: dict[str, str]) -> None:
        told.append(context["event"])

    HOOKS.register_session_hook("post_turn", hook)
    PROVIDERS.register(id="own", subscribes_to=["post_turn"], evaluate=lambda _ctx: told.append("provider"))
    try:
        asyncio.run(agent_loop("Mend it.", model="scripted:"))
    finally:
        HOOKS.clear()
        PROVIDERS.clear()
    assert told == ["post_turn", "provider"]


def test_tools_that_notice_changes_are_watched() -> None:
    class Watching(list[ATool]):
        def changes(self) -> list[FileChange]:
            return [FileChange(path="a.py")]

    scene = AScene()
    told: list[str] = []

    async def hook(context: dict[str, str]) -> None:
        told.append(context["path"])

    scene.hooks.register_session_hook("file_edited", hook)
    asyncio.run(scene.play(tools=Watching()))
    assert told == ["a.py"]


# Compactors.


def test_a_compactor_is_chosen_by_name_or_given() -> None:
    model = ScriptedModel()
    own = KeepLast(3)
    assert read_compactor(None, model) is None
    assert isinstance(read_compactor("keep_last", model), KeepLast)
    assert isinstance(read_compactor("summarize", model), Summarize)
    assert isinstance(read_compactor(lambda messages, _: messages, model), Custom)
    assert read_compactor(own, model) is own


def test_a_summary_is_made_by_the_model_without_showing_it_any_reminder() -> None:
    scene = AScene()
    scene.says(
        *[a_reply("work", tokens=tokens) for tokens in (1, 1, 1, 95)], "They worked.", "Done.", context_window=100
    )

    async def main() -> None:
        await scene.session.remind("a fact", preserve_on_compact=True)
        await scene.play(compactor="summarize")

    asyncio.run(main())
    summaries = [request for request in scene.model.requests if request.system.startswith("Summarise")]
    assert len(summaries) == 1
    assert summaries[0].reminders == ()
    assert scene.requests_with("They worked.") == [6]
    assert len(scene.events(TurnCommitted)) == 5


def test_an_empty_summary_takes_the_place_of_nothing() -> None:
    scene = AScene()
    scene.says(a_reply("work", tokens=95), " ", "Done.", context_window=100)
    result = asyncio.run(scene.play(compactor="summarize"))
    assert result.problems == (Problem("compactor", "the model wrote no summary: it returned an empty one"),)
    assert scene.events(Compacted) == []


# One call.


def test_a_call_without_a_session_shows_nothing_and_counts_nothing() -> None:
    model = ScriptedModel(["Hello."])
    heard: list[str] = []
    reply = asyncio.run(llm_call("Hi.", model=model, system="Be brief.", on_text=heard.append))
    (request,) = model.requests
    assert (reply.text, heard, request.system, request.reminders) == ("Hello.", ["Hello."], "Be brief.", ())
    assert request.messages == ({"role": "user", "content": "Hi."},)


def test_a_call_with_a_session_is_one_turn_that_shows_what_is_live() -> None:
    scene = AScene()

    async def main() -> None:
        await scene.session.remind("a fact", ttl_turns=2)
        await scene.play("First.", reminders=True)
        evaluated = len(scene.events(ProviderEvaluated))
        assert evaluated
        reply = await llm_call("And?", session=scene.session, model=scene.model, system="Be brief.")
        assert reply.text == "Done."
        assert len(scene.events(ProviderEvaluated)) == evaluated

    asyncio.run(main())
    assert scene.requests_with("a fact") == [1, 2]
    assert [event.turn for event in scene.events(Fired)] == [1, 2]
    assert scene.kinds[-3:] == ["TurnCommitted", "Expired", "Idled"]
    assert [message["role"] for message in scene.state.messages] == ["user", "assistant"] * 2
    assert not scene.state.running


def test_a_call_that_fails_never_happened_and_is_raised() -> None:
    scene = AScene()
    scene.says(ModelError("no", status=400), "Done.")

    async def main() -> None:
        with pytest.raises(ModelError, match="no"):
            await llm_call("Hi.", session=scene.session, model=scene.model)
        assert (scene.state.running, scene.state.request, scene.session.busy) == (False, None, False)
        await llm_call("Again.", session=scene.session, model=scene.model)

    asyncio.run(main())
    assert scene.events(TurnVoided) == [TurnVoided(turn=1)]
    assert [event.turn for event in scene.events(TurnCommitted)] == [1]


def test_a_call_is_tried_again_like_any_other() -> None:
    scene = AScene()
    scene.says(ModelError("busy", status=503), "Done.")
    clock = FakeClock()
    reply = asyncio.run(llm_call("Hi.", session=scene.session, model=scene.model, clock=clock))
    assert (reply.text, clock.monotonic()) == ("Done.", 0.5)


@pytest.mark.parametrize("with_session", [False, True], ids=["alone", "in-a-session"])
def test_a_listener_that_fails_costs_a_call_no_reply_and_is_logged(
    with_session: bool,  # noqa: FBT001 - a column
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(_text: str) -> None:
        raise BrokenPipeError("connection closed")

    scene = AScene()
    session = scene.session if with_session else None
    reply = asyncio.run(llm_call("Hi.", session=session, model=scene.model, on_text=fails))
    assert reply.text == "Done."
    assert [record.getMessage() for record in caplog.records] == ["on_text: BrokenPipeError: connection closed"]
    assert len(scene.events(TurnCommitted)) == with_session


# Without a session a call is sent with no less care.


def test_a_call_without_a_session_is_tried_again_by_its_own_clock() -> None:
    clock = FakeClock()
    model = ScriptedModel([ModelError("busy", status=503), "Here."])
    assert asyncio.run(llm_call("Hi.", model=model, clock=clock)).text == "Here."
    assert clock.monotonic() == 0.5


def test_a_call_without_a_session_has_so_much_time_and_no_more() -> None:
    model = ScriptedModel([lambda _view: hang()] * 5)
    with pytest.raises(ModelError, match="no reply within 60 s"):
        run_schedule(1, lambda: llm_call("Hi.", model=model, model_seconds=60, clock=FakeClock()))


def test_an_object_that_is_no_reply_is_a_model_error_of_a_call_without_a_session() -> None:
    class Broken(ScriptedModel):
        async def complete(self, _plan: Plan, _on_text: OnText | None = None) -> Reply:
            return 5  # type: ignore[return-value]  # nonsense is the point

    with pytest.raises(ModelError, match="returned int instead of a Reply"):
        asyncio.run(llm_call("Hi.", model=Broken()))


def test_a_call_that_another_task_cancels_says_so() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> str:
        await scene.session.talk.cancel()
        return "too late"

    scene.says(line)
    with pytest.raises(ModelError, match="the turn was cancelled"):
        asyncio.run(llm_call("Hi.", session=scene.session, model=scene.model))
    assert not scene.state.running


def test_a_call_that_is_cancelled_leaves_an_idle_session() -> None:
    scene = AScene()
    scene.says(lambda _view: hang())

    async def main() -> None:
        calling = asyncio.create_task(llm_call("Hi.", session=scene.session, model=scene.model))
        await others()
        with pytest.raises(SessionBusy):
            await llm_call("Me too.", session=scene.session, model=scene.model)
        with pytest.raises(SessionBusy):
            await scene.begin()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    asyncio.run(main())
    assert (scene.state.running, scene.state.request, scene.session.busy) == (False, None, False)


def test_tools_that_a_model_asks_for_in_a_single_call_are_not_run_and_not_left_open() -> None:
    scene = AScene()
    scene.says(a_reply("work"))

    async def main() -> None:
        reply = await llm_call("Hi.", session=scene.session, model=scene.model)
        assert len(reply.tool_calls) == 1

    asyncio.run(main())
    assert scene.results() == [("c1", "cancelled")]
    assert unanswered_calls(scene.state.messages) == []


def test_a_closed_session_takes_no_call() -> None:
    scene = AScene()

    async def main() -> None:
        await scene.session.close()
        with pytest.raises(UnknownSession):
            await llm_call("Hi.", session=scene.session, model=scene.model)

    asyncio.run(main())
    assert scene.kinds == ["Closed"]


def test_an_unknown_option_is_a_type_error() -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="no option 'max_turn'"):
            await agent_run("Go.", model="scripted:", max_turn=3)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="needs a model"):
            await agent_run("Go.")  # type: ignore[call-arg]

    asyncio.run(main())


def test_a_cancel_from_another_handle_ends_a_single_call() -> None:
    async def story() -> None:
        scene = AScene()
        scene.says(lambda _view: hang())
        calling = asyncio.ensure_future(llm_call("Mend it.", model=scene.model, session=scene.session))
        await others()
        assert await a_session(store=scene.store).cancel()
        with pytest.raises(ModelError, match="the turn was cancelled"):
            await asyncio.wait_for(calling, 10)
        assert not scene.state.running

    asyncio.run(story())
