"""One turn: sent, streamed, tried again where that helps, and given up where it does not."""

import asyncio

import pytest

from sideband.core.events import Fired, RequestCommitted, TurnCommitted, TurnVoided
from sideband.core.lifecycle import Selector, clear
from sideband.core.usage import Usage
from sideband.loop.asking import MAX_ATTEMPTS
from sideband.loop.run import LoopStatus
from sideband.models.scripted import Line
from sideband.ports import Committed, Decision, Lease, ModelError, OnText, Plan, Reply, ToolCall
from sideband.render.view import RequestView
from sideband.testing import MemoryStore, run_schedule
from tests.loop_builders import AScene, a_call, a_reply, hang, unanswered_calls


def raising(error: Exception) -> Line:
    def line(_view: RequestView) -> str:
        raise error

    return line


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ModelError("lost", retryable=True), id="what-says-so-itself"),
        *(
            pytest.param(ModelError("no", status=status), id=str(status))
            for status in (408, 409, 429, 500, 503, 529, 599)
        ),
        pytest.param(ConnectionResetError("by peer"), id="a-lost-connection"),
        pytest.param(TimeoutError("slow"), id="a-time-out"),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    scene = AScene()
    scene.says(raising(error), "Done.")
    result = asyncio.run(scene.play())
    assert (result.status, result.text, result.turns) == (LoopStatus.COMPLETED, "Done.", 1)
    assert len(scene.model.requests) == 2


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ModelError("no", retryable=False, status=503), id="what-says-so-itself"),
        *(pytest.param(ModelError("no", status=status), id=str(status)) for status in (400, 401, 404, 413, 422, 600)),
        pytest.param(ModelError("no"), id="without-a-status"),
        pytest.param(KeyError("choices"), id="a-bug-of-the-adapter"),
        pytest.param(asyncio.CancelledError(), id="a-cancellation-of-its-own"),
    ],
)
def test_what_will_not_pass_fails_at_once(error: Exception) -> None:
    scene = AScene()
    scene.says(raising(error), "never said")
    result = asyncio.run(scene.play())
    assert (result.status, result.turns, len(scene.model.requests)) == (LoopStatus.FAILED, 0, 1)
    assert result.error


def test_a_request_is_sent_at_most_five_times_with_longer_and_longer_pauses() -> None:
    scene = AScene()
    scene.says(*[ModelError("busy", status=503)] * 10)
    result = asyncio.run(scene.play())
    assert (result.status, result.error) == (LoopStatus.FAILED, "busy")
    assert len(scene.model.requests) == MAX_ATTEMPTS == 5
    assert scene.clock.monotonic() == 0.5 + 1 + 2 + 4


def test_every_attempt_is_on_record_under_one_turn_and_what_it_shows_fires_once() -> None:
    scene = AScene()
    scene.says(ModelError("busy", status=503), ModelError("busy", status=503), "Done.")

    async def main() -> None:
        await scene.session.remind("a fact", ttl_turns=1)
        await scene.play()

    asyncio.run(main())
    assert [(event.turn, event.attempt) for event in scene.events(RequestCommitted)] == [(1, 1), (1, 2), (1, 3)]
    assert [event.turn for event in scene.events(Fired)] == [1]
    assert [event.turn for event in scene.events(TurnCommitted)] == [1]
    assert scene.requests_with("a fact") == [1, 2, 3]


def test_a_retry_sends_what_was_planned_whatever_came_since() -> None:
    scene = AScene()

    async def line(_view: RequestView) -> str:
        await scene.session.remind("too late for this one", mode="interrupt_immediate")
        raise ModelError("busy", status=503)

    scene.says(line, "Done.")
    asyncio.run(scene.play())
    assert scene.requests_with("too late for this one") == [3]


class StoreWithRival(MemoryStore):
    """A store in which somebody else commits first, as soon as there is something for it to do."""

    rival: Decision | None = None

    def awaits_a_chance(self) -> bool:
        return self.rival is not None

    async def commit(self, session_id: str, decide: Decision, *, lease: Lease | None = None) -> Committed:
        if self.rival is not None and (await super().commit(session_id, self.rival, lease=lease)).events:
            self.rival = None
        return await super().commit(session_id, decide, lease=lease)


def test_the_request_is_built_in_the_commit_that_records_it() -> None:
    store = StoreWithRival()
    store.rival = lambda state: clear(state.live, Selector(tag="t"))
    scene = AScene(store=store)

    async def main() -> None:
        await scene.session.remind("cleared just in time", tags=["t"])
        await scene.play()

    asyncio.run(main())
    assert not store.awaits_a_chance()
    assert (scene.requests_with("cleared just in time"), scene.events(Fired)) == ([], [])


def test_a_slow_model_is_a_time_out() -> None:
    scene = AScene()
    scene.says(lambda _view: hang(), "Done.")
    result = run_schedule(1, lambda: scene.play(model_seconds=60))
    assert (result.status, result.text) == (LoopStatus.COMPLETED, "Done.")


# Failing for good.


def test_a_turn_that_failed_for_good_never_happened_and_a_later_run_works() -> None:
    scene = AScene()
    scene.says(ModelError("bad request", status=400), "Done.")
    errors: list[str] = []

    async def hook(context: dict[str, str]) -> dict[str, str]:
        errors.append(context["error"])
        return {"body": "the last request failed"}

    scene.hooks.register_session_hook("session_error", hook)

    async def main() -> None:
        await scene.session.remind("a fact", ttl_turns=1)
        result = await scene.play()
        assert (result.status, result.error, result.turns) == (LoopStatus.FAILED, "bad request", 0)
        assert (scene.state.running, scene.state.request) == (False, None)
        assert (await scene.play("Again.")).status is LoopStatus.COMPLETED

    asyncio.run(main())
    assert errors == ["bad request"]
    assert scene.events(TurnVoided) == [TurnVoided(turn=1)]
    assert [event.turn for event in scene.events(TurnCommitted)] == [1]
    assert scene.requests_with("a fact") == [1, 2]
    assert scene.requests_with("the last request failed") == [2]


def test_a_request_that_cannot_be_built_is_not_on_record() -> None:
    class Broken:
        context_window = None

        def plan(self, _view: RequestView) -> Plan:
            raise ValueError("no such role")

        async def complete(self, _plan: Plan, _on_text: OnText | None = None) -> Reply:
            raise AssertionError("nothing to send")

    scene = AScene()
    result = asyncio.run(scene.play(model=Broken()))
    assert (result.status, result.error) == (
        LoopStatus.FAILED,
        "no request could be built: ValueError: no such role",
    )
    assert scene.events(RequestCommitted) == []


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        pytest.param(None, "NoneType, which is no reply", id="nothing"),
        pytest.param({"text": "hi"}, "dict, which is no reply", id="a-mapping"),
        pytest.param(Reply(text=None, usage=Usage(prompt_tokens=1)), "cannot be kept", id="text-that-is-none"),  # type: ignore[arg-type]
        pytest.param(
            Reply(tool_calls=(ToolCall(id="1", name="work", args=None),)),  # type: ignore[arg-type]
            "cannot be kept",
            id="arguments-that-are-none",
        ),
        pytest.param(
            Reply(tool_calls=(ToolCall(id="1", name="work", args={"at": object()}),)),
            "cannot be kept",
            id="arguments-no-journal-can-hold",
        ),
        pytest.param(Reply(text="x" * 10_000_001), "10,000,001 characters", id="far-too-long"),
    ],
)
def test_a_reply_that_cannot_be_kept_is_a_failure(answer: object, complaint: str) -> None:
    scene = AScene()
    scene.says(lambda _view: answer)  # type: ignore[arg-type, return-value]  # nonsense is the point
    result = asyncio.run(scene.play())
    assert result.status is LoopStatus.FAILED
    assert complaint in str(result.error)


def test_calls_with_the_same_id_get_a_result_each() -> None:
    scene = AScene()
    calls = [a_call(call_id=call_id) for call_id in ("a", "a", "a'", "a", "b")]
    scene.says(a_reply(*calls))
    asyncio.run(scene.play())
    assert [call_id for call_id, _ in scene.results()] == ["a", "a'", "a''", "a'''", "b"]
    assert unanswered_calls(scene.state.messages) == []


def test_text_that_no_journal_can_hold_is_replaced() -> None:
    scene = AScene()
    scene.says("half a \ud83d character, a whole 日本 one")
    asyncio.run(scene.play())
    assert scene.state.messages[-1]["content"] == "half a ? character, a whole 日本 one"


# Listening.


@pytest.mark.parametrize("awaits", [False, True], ids=["a-function", "a-coroutine"])
def test_text_is_streamed_as_it_arrives(awaits: bool) -> None:  # noqa: FBT001 - a parameter of the table
    heard: list[str] = []

    async def slowly(text: str) -> None:
        heard.append(text)

    scene = AScene()
    scene.says(a_reply("work", text="I work."), "Done.")
    asyncio.run(scene.play(on_text=slowly if awaits else heard.append))
    assert heard == ["I work.", "Done."]


class Stuttering:
    """Streams its reply in two pieces; the first time it breaks off between them."""

    context_window = None

    def __init__(self) -> None:
        self.attempts = 0

    def plan(self, _view: RequestView) -> Plan:
        return Plan()

    async def complete(self, _plan: Plan, on_text: OnText | None = None) -> Reply:
        self.attempts += 1
        for piece in ("Do", "ne."):
            told = None if on_text is None else on_text(piece)
            if told is not None:
                await told
            if self.attempts == 1:
                raise ModelError("connection lost", retryable=True)
        return Reply(text="Done.", usage=Usage(prompt_tokens=1))


def test_a_restart_is_announced_before_the_text_begins_anew() -> None:
    heard: list[str] = []
    scene = AScene()
    asyncio.run(
        scene.play(
            model=Stuttering(),
            on_text=heard.append,
            on_restart=lambda attempt, error: heard.append(f"<{attempt}: {error}>"),
        )
    )
    assert heard == ["Do", "<2: connection lost>", "Do", "ne."]


def test_a_listener_that_fails_is_reported_once_and_costs_no_reply() -> None:
    heard: list[str] = []

    def fail(*what: object) -> None:
        heard.append(str(what[0]))
        raise BrokenPipeError("nobody there")

    def fail_at_the_second(text: str) -> None:
        if heard:
            fail(text)
        heard.append(text)

    scene = AScene()
    result = asyncio.run(scene.play(model=Stuttering(), on_text=fail_at_the_second, on_restart=fail))
    assert (result.status, result.text) == (LoopStatus.COMPLETED, "Done.")
    assert heard == ["Do", "2", "Do"]
    assert result.problems == (
        ("on_restart", "BrokenPipeError: nobody there"),
        ("on_text", "BrokenPipeError: nobody there"),
    )
