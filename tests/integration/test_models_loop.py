"""The agent loop on the official clients: what fails leaves the session as it was, and is tried again with the same bytes."""

import asyncio
from pathlib import Path

import pytest

import sideband as sb
from sideband.core.events import Fired, RequestCommitted, TurnCommitted, TurnVoided
from sideband.core.messages import ToolCall
from sideband.loop.run import LoopStatus
from sideband.loop.turn import MAX_ATTEMPTS
from sideband.ports import ModelError
from tests import service_replies
from tests.loop_builders import AScene, ATool, same_state, unanswered_calls
from tests.loopback import Answer, HangUp, Refusal, Stream, a_loopback, over_sockets
from tests.model_kinds import ANTHROPIC, COMPATIBLE, MODEL_KINDS, OPENAI, OPENAI_CHAT, ModelKind, thoughts
from tests.waiting import let_pass

EVERY_MODEL_KIND = pytest.mark.parametrize("kind", MODEL_KINDS.values(), ids=MODEL_KINDS)
CALL = ToolCall(id="c1", name="work", args={"path": "a"})
REFUSED = Refusal(status=400, body={"error": {"message": "No.", "code": 400}})
BUSY = Refusal(status=529, body={"error": {"message": "Busy.", "code": 529}})


def cut(kind: ModelKind, text: str = "Hello there.") -> Stream:
    return Stream(events=kind.says(text).events[:4], cut=3)


@pytest.mark.requirement("render:ledger:retry-is-byte-equal", "render:fired:once-for-each-turn-shown")
@EVERY_MODEL_KIND
@pytest.mark.parametrize("trouble", [BUSY, HangUp(), "cut"], ids=["busy", "hangs-up", "breaks-off"])
@over_sockets
async def test_a_turn_that_failed_in_passing_is_tried_again_with_the_same_bytes(
    kind: ModelKind, trouble: Answer | str
) -> None:
    failing = cut(kind) if isinstance(trouble, str) else trouble
    async with a_loopback(kind.says("I'll look.", [CALL]), failing, failing, kind.says("Done.")) as service:
        scene, tool = AScene(), ATool()
        await scene.session.remind("The build is red.", ttl_turns=2)
        await scene.session.remind("Use tabs.")
        result = await scene.play(model=kind.model(service), tools=[tool])
    assert (result.status, result.text, result.turns) == (LoopStatus.COMPLETED, "Done.", 2)
    assert len(service.bodies) == 4
    assert service.bodies[1] == service.bodies[2] == service.bodies[3] != service.bodies[0]
    assert [(event.turn, event.attempt) for event in scene.events(RequestCommitted)] == [(1, 1), (2, 1), (2, 2), (2, 3)]
    assert sorted((event.turn, event.reminder_id) for event in scene.events(Fired)) == [
        (1, "main-1"),
        (1, "main-2"),
        (2, "main-1"),
        (2, "main-2"),
    ]
    assert (len(tool.calls), scene.events(TurnVoided)) == (1, [])
    assert same_state(scene)


@EVERY_MODEL_KIND
@over_sockets
async def test_a_listener_is_told_that_the_text_starts_over(kind: ModelKind) -> None:
    heard: list[str] = []
    async with a_loopback(cut(kind), kind.says("Done.")) as service:
        await AScene().play(
            model=kind.model(service),
            on_text=heard.append,
            on_restart=lambda attempt, why: heard.append(f"[{attempt} {why.retryable}]"),
        )
    restart = heard.index("[2 True]")
    assert "Hello there.".startswith("".join(heard[:restart]))
    assert "".join(heard[restart + 1 :]) == "Done."


@pytest.mark.requirement("render:ledger:unanswered-is-planned-again")
@EVERY_MODEL_KIND
@over_sockets
async def test_a_turn_that_was_refused_is_void_and_its_number_and_reminders_are_as_they_were(kind: ModelKind) -> None:
    async with a_loopback(REFUSED, kind.says("Done.")) as service:
        scene, model = AScene(), kind.model(service)
        await scene.session.remind("The build is red.", ttl_turns=1)
        failed = await scene.play(model=model)
        assert (failed.status, failed.turns) == (LoopStatus.FAILED, 0)
        assert "400: " in str(failed.error)
        assert (scene.state.live.turn, scene.state.request, scene.state.running) == (0, None, False)
        assert [item.reminder.body for item in scene.state.live] == ["The build is red."]
        result = await scene.play("Try again.", model=model)
    assert result.status is LoopStatus.COMPLETED
    assert [event.turn for event in scene.events(RequestCommitted)] == [1, 1]
    assert [event.turn for event in scene.events(TurnCommitted)] == [1]
    assert all(b"The build is red." in body for body in service.bodies)
    assert list(scene.state.live) == []
    assert same_state(scene)


@EVERY_MODEL_KIND
@over_sockets
async def test_what_never_works_is_given_up_and_void(kind: ModelKind) -> None:
    async with a_loopback(*[BUSY] * 10) as service:
        scene = AScene()
        result = await scene.play(model=kind.model(service))
    assert (result.status, len(service.bodies), len(set(service.bodies))) == (LoopStatus.FAILED, MAX_ATTEMPTS, 1)
    assert len(scene.events(TurnVoided)) == 1
    assert same_state(scene)


@EVERY_MODEL_KIND
@over_sockets
async def test_a_run_that_is_cancelled_while_the_model_speaks_leaves_a_session_that_goes_on(kind: ModelKind) -> None:
    stuck = Stream(events=kind.says("Hello there, all of you.").events[:6], cut=0, stuck=True)
    async with a_loopback(stuck, kind.says("Done.")) as service:
        scene, model, speaking = AScene(), kind.model(service), asyncio.Event()
        run = await scene.begin(model=model, on_text=lambda _text: speaking.set())
        finishing = asyncio.ensure_future(run.finish())
        await speaking.wait()
        run.cancel()
        assert (await finishing).status is LoopStatus.CANCELLED
        assert (scene.state.live.turn, scene.state.request) == (0, None)
        assert (await scene.play("And now?", model=model)).text == "Done."
    assert same_state(scene)


@EVERY_MODEL_KIND
@over_sockets
async def test_a_model_that_gets_stuck_is_asked_again_after_a_while(kind: ModelKind) -> None:
    stuck = Stream(events=kind.says("Hello there.").events[:3], cut=0, stuck=True)
    async with a_loopback(stuck, kind.says("Done.")) as service:
        playing = asyncio.ensure_future(AScene().play(model=kind.model(service), model_seconds=20))
        await service.is_silent.wait()
        let_pass(20)
        result = await playing
    assert result.text == "Done."
    assert service.bodies[0] == service.bodies[1]


@pytest.mark.parametrize("kind", [ANTHROPIC, OPENAI, OPENAI_CHAT], ids=lambda kind: kind.transport)
@over_sockets
async def test_a_call_with_arguments_that_are_no_json_is_not_run_and_the_model_can_go_on(
    kind: ModelKind, tmp_path: Path
) -> None:
    said = kind.says("", [service_replies.unreadable("c1", "read_file", '{"path": "a')], **thoughts(kind))
    async with a_loopback(said, kind.says("Sorry.")) as service:
        scene = AScene()
        result = await scene.play(model=kind.model(service), tools=sb.workspace_tools(tmp_path))
    assert (result.status, result.text) == (LoopStatus.COMPLETED, "Sorry.")
    assert scene.results() == [("c1", "error")]
    assert scene.result_text().startswith("Not run: the arguments must be a JSON object")
    assert unanswered_calls(scene.state.messages) == []
    assert kind.faults(service.requests[1]) == []


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        pytest.param(ANTHROPIC, {"stop_reason": "max_tokens"}, id="claude"),
        pytest.param(OPENAI_CHAT, {"finish_reason": "length"}, id="chat"),
        pytest.param(OPENAI, {"incomplete": "max_output_tokens"}, id="responses"),
    ],
)
@over_sockets
async def test_a_call_that_was_cut_off_at_the_token_limit_is_not_run_without_its_arguments(
    kind: ModelKind, about: dict[str, str]
) -> None:
    calls = [CALL, service_replies.unreadable("c2", "work", "")]
    async with a_loopback(kind.says("", calls, **about), kind.says("Sorry.")) as service:
        scene, tool = AScene(), ATool()
        result = await scene.play(model=kind.model(service), tools=[tool])
    assert result.text == "Sorry."
    assert (tool.calls, dict(scene.results())) == ([CALL.args], {"c1": "ok", "c2": "error"})
    assert kind.faults(service.requests[1]) == []


@pytest.mark.parametrize("kind", [ANTHROPIC, OPENAI, OPENAI_CHAT], ids=lambda kind: kind.transport)
@over_sockets
async def test_a_call_without_arguments_in_a_whole_reply_is_run_without_any(kind: ModelKind) -> None:
    async with a_loopback(kind.says("", [service_replies.unreadable("c1", "work", "")]), kind.says("Done.")) as service:
        tool = ATool()
        await AScene().play(model=kind.model(service), tools=[tool])
    assert tool.calls == [{}]


@EVERY_MODEL_KIND
@over_sockets
async def test_an_empty_answer_does_not_spoil_the_session(kind: ModelKind) -> None:
    async with a_loopback(kind.says(), kind.says("Done.")) as service:
        scene, model = AScene(), kind.model(service)
        assert (await scene.play(model=model)).status is LoopStatus.COMPLETED
        assert (await scene.play("Well?", model=model)).text == "Done."
    assert kind.faults(service.requests[1]) == []


@over_sockets
async def test_a_hint_the_route_cannot_keep_is_reported_once() -> None:
    async with a_loopback(COMPATIBLE.says("One.", [CALL]), COMPATIBLE.says("Two.")) as service:
        scene = AScene()
        await scene.session.remind("Use tabs.", role_hint="ephemeral_cache")
        result = await scene.play(model=COMPATIBLE.model(service))
    assert [(problem.where, problem.message[:13]) for problem in result.problems] == [("request", "HARN-RMD-003:")]


@EVERY_MODEL_KIND
@over_sockets
async def test_a_call_without_a_session_carries_nothing_but_what_it_says(kind: ModelKind) -> None:
    heard: list[str] = []
    async with a_loopback(kind.says("Paris."), REFUSED) as service:
        model = kind.model(service)
        reply = await sb.llm_call("Capital of France?", model=model, system="One word.", on_text=heard.append)
        with pytest.raises(ModelError, match="400"):
            await sb.llm_call("Capital of France?", model=model)
    assert (reply.text, "".join(heard)) == ("Paris.", "Paris.")
    assert b"Capital of France?" in service.bodies[0]
    assert b"One word." in service.bodies[0]
