"""A batch of tool calls: side by side, each with its own end, and exactly one result each."""

import asyncio
from typing import Any

import pytest

from sideband.core.messages import UNREADABLE, ToolCall
from sideband.loop.dispatch import MAX_RESULT_CHARACTERS
from sideband.loop.run import LoopStatus, Step
from sideband.ports import ToolContext, ToolOutput
from sideband.testing import run_schedule
from tests.loop_builders import AScene, ATool, a_call, a_reply, hang, others, unanswered_calls, until


def play(tool: ATool, **options: Any) -> AScene:  # noqa: ANN401 - those of agent_run
    """A run in which this tool is called once."""
    scene = AScene(tool)
    scene.says(a_reply(tool.name))
    result = asyncio.run(scene.play(**options))
    assert result.status is LoopStatus.COMPLETED
    assert unanswered_calls(scene.state.messages) == []
    return scene


def raising(error: BaseException) -> Any:  # noqa: ANN401 - what a tool does
    def do(*_: object) -> None:
        raise error

    return do


def test_calls_run_side_by_side_and_each_result_is_recorded_as_soon_as_it_is_there() -> None:
    doors = {name: asyncio.Event() for name in ("a", "b", "c")}

    async def do(args: Any, _context: ToolContext) -> str:  # noqa: ANN401 - a tool's own
        await doors[args["door"]].wait()
        return str(args["door"])

    scene = AScene(ATool(do=do))
    scene.says(a_reply(*(a_call("work", name, door=name) for name in doors)))

    async def main() -> None:
        run = await scene.begin()
        await until(run, Step.TURN)
        driving = asyncio.create_task(run.step())
        for name in ("b", "c", "a"):
            await others()
            doors[name].set()
        event = await driving
        assert event is not None
        assert [outcome.output.text for outcome in event.value] == ["a", "b", "c"]
        await run.finish()

    asyncio.run(main())
    assert scene.results() == [("b", "ok"), ("c", "ok"), ("a", "ok")]


def test_one_call_that_fails_leaves_its_siblings_alone() -> None:
    scene = AScene(ATool("good"), ATool("bad", raising(ValueError("no such file"))))
    scene.says(a_reply("good", "bad", "good"))
    asyncio.run(scene.play())
    assert dict(scene.results()) == {"c1": "ok", "c2": "error", "c3": "ok"}
    assert scene.result_text("c2") == "ValueError: no such file"


class AskedForNothing:
    """A permission that must not be asked."""

    async def ask(self, call: ToolCall) -> str | None:
        pytest.fail(f"asked for {call}")


@pytest.mark.parametrize(
    ("written", "text"),
    [
        pytest.param(
            "{oops",
            "Not run: the arguments must be a JSON object, not '{oops'. Call it again with an object.",
            id="no-json",
        ),
        pytest.param(
            "",
            "Not run: the reply was cut off before the arguments of this call. Call it again.",
            id="cut-before-there-were-any",
        ),
    ],
)
def test_a_call_whose_arguments_could_not_be_read_is_not_run_whatever_its_tool_would_take(
    written: str, text: str
) -> None:
    scene = AScene(ATool())
    scene.says(a_reply(a_call(**{UNREADABLE: written})))
    asyncio.run(scene.play(permission=AskedForNothing()))
    assert (scene.tools[0].calls, scene.results(), scene.result_text()) == ([], [("c1", "error")], text)


def test_a_hook_may_write_the_arguments_that_a_model_could_not() -> None:
    scene = AScene(ATool())
    scene.hooks.register_tool_hook("*", pre=lambda _context: {"args": {"path": "a"}})
    scene.says(a_reply(a_call(**{UNREADABLE: "{oops"})))
    asyncio.run(scene.play())
    assert (scene.tools[0].calls, scene.results()) == ([{"path": "a"}], [("c1", "ok")])


def test_a_call_that_takes_too_long_times_out_alone_and_says_what_it_did() -> None:
    def do(_args: object, context: ToolContext) -> object:
        context.applied("wrote a.py")
        return hang()

    scene = AScene(ATool("slow", do), ATool("quick"))
    scene.says(a_reply("slow", "quick"))
    run_schedule(1, lambda: scene.play(tool_seconds=60))
    assert dict(scene.results()) == {"c1": "timed_out", "c2": "ok"}
    assert scene.result_text("c1") == "Timed out after 60 s. Changes already made: wrote a.py."


def test_one_call_can_be_cancelled_and_its_siblings_and_the_run_live_on() -> None:
    door = asyncio.Event()

    async def opened(*_: object) -> str:
        await door.wait()
        return "opened"

    scene = AScene(ATool("slow", hang), ATool("other", opened))
    scene.says(a_reply("slow", "other"), "Done.")

    async def main() -> None:
        run = await scene.begin()
        assert not run.cancel_call("c1")
        driving = asyncio.create_task(run.finish())
        await others()
        assert not run.cancel_call("unheard of")
        assert run.cancel_call("c1")
        await others()
        assert not run.cancel_call("c1")
        door.set()
        result = await driving
        assert (result.status, result.text) == (LoopStatus.COMPLETED, "Done.")

    asyncio.run(main())
    assert scene.results() == [("c1", "cancelled"), ("c2", "ok")]
    assert scene.result_text("c1") == "Cancelled. It has reported no changes."


def test_a_cancelled_call_that_has_written_lists_it() -> None:
    def do(_args: object, context: ToolContext) -> object:
        context.applied("wrote a.py")
        return hang()

    scene = AScene(ATool("write", do))
    scene.says(a_reply("write"))

    async def main() -> None:
        run = await scene.begin()
        driving = asyncio.create_task(run.finish())
        await others()
        run.cancel_call("c1")
        await driving

    asyncio.run(main())
    assert scene.result_text() == "Cancelled. Changes already made: wrote a.py."


@pytest.mark.parametrize("cancel", ["call", "run", "task"])
def test_a_tool_that_is_through_keeps_its_result_whatever_is_cancelled_behind_it(cancel: str) -> None:
    scene = AScene()
    scene.says(a_reply("work"))
    scene.hooks.register_tool_hook("*", post=hang)

    async def main() -> None:
        run = await scene.begin(hook_seconds=60)
        driving = asyncio.create_task(run.finish())
        await others()
        match cancel:
            case "call":
                run.cancel_call("c1")
            case "run":
                run.cancel()
            case _:
                driving.cancel()
        await asyncio.wait([driving])

    asyncio.run(main())
    assert scene.results() == [("c1", "ok")]
    assert scene.result_text() == "done"


# Tools that do not stop.


async def stubborn(*_: object) -> None:
    while True:
        try:
            await hang()
        except asyncio.CancelledError:
            continue


async def late(*_: object) -> str:
    try:
        await hang()
    except asyncio.CancelledError:
        return "late"
    return ""


def test_a_tool_that_comes_back_after_its_time_has_timed_out() -> None:
    scene = AScene(ATool(do=late))
    scene.says(a_reply("work"))
    run_schedule(1, lambda: scene.play(tool_seconds=60))
    assert (scene.results(), scene.result_text()) == ([("c1", "timed_out")], "Timed out after 60 s.")


@pytest.mark.parametrize("siblings", [0, 1], ids=["alone", "beside-another"])
def test_a_tool_that_does_not_stop_at_its_time_is_left_to_itself_and_reported(siblings: int) -> None:
    scene = AScene(ATool("slow", stubborn), ATool("quick"))
    scene.says(a_reply("slow", *["quick"] * siblings), "Done.")
    result = run_schedule(1, lambda: scene.play(tool_seconds=60))
    assert (result.status, result.text) == (LoopStatus.COMPLETED, "Done.")
    assert dict(scene.results())["c1"] == "timed_out"
    assert "did not stop when it was cancelled" in scene.result_text()
    ((where, message, _),) = result.problems
    assert where == "tool slow"
    assert "and was abandoned. Its call has the id 'c1'." in message


@pytest.mark.parametrize("how", ["run", "call", "task"])
@pytest.mark.parametrize("calls", [1, 2], ids=["alone", "beside-another"])
def test_a_tool_that_does_not_stop_keeps_nobody_from_cancelling(how: str, calls: int) -> None:
    scene = AScene(ATool("slow", stubborn))
    scene.says(a_reply(*["slow"] * calls), "Done.")

    async def main() -> None:
        run = await scene.begin(tool_seconds=60)
        driving = asyncio.create_task(run.finish())
        await others()
        match how:
            case "run":
                run.cancel()
            case "call":
                assert run.cancel_call("c1")
            case _:
                driving.cancel()
        await asyncio.wait([driving])

    run_schedule(1, main)
    assert dict(scene.results())["c1"] == "cancelled"
    assert unanswered_calls(scene.state.messages) == []
    assert (scene.state.running, scene.session.busy) == (False, False)


# How long a tool may take.


@pytest.mark.parametrize(
    ("own", "limit"),
    [
        pytest.param(600, 600, id="what-the-tool-says-itself"),
        pytest.param(0.5, 0.5, id="also-where-that-is-less"),
        pytest.param(None, 60, id="nothing"),
        pytest.param(0, 60, id="no-time-at-all"),
        pytest.param(True, 60, id="a-truth"),
        pytest.param("long", 60, id="a-word"),
    ],
)
def test_a_tool_may_say_how_long_it_takes(own: object, limit: float) -> None:
    tool = ATool("slow", hang)
    tool.seconds = own  # type: ignore[attr-defined]
    scene = AScene(tool)
    scene.says(a_reply("slow"))
    run_schedule(1, lambda: scene.play(tool_seconds=60))
    assert scene.result_text() == f"Timed out after {limit:g} s."


# What tools give back.


@pytest.mark.parametrize(
    ("returned", "status", "text"),
    [
        pytest.param(ToolOutput(text="fine"), "ok", "fine", id="an-output"),
        pytest.param(ToolOutput(text="broken", is_error=True), "error", "broken", id="an-output-that-is-an-error"),
        pytest.param(None, "error", "The tool returned None, not a ToolOutput.", id="nothing"),
        pytest.param({"text": "hi"}, "error", "not a ToolOutput.", id="a-mapping"),
        pytest.param(ToolOutput(text=b"hi"), "error", "whose text must be a string, not b'hi'.", id="bytes-for-text"),  # type: ignore[arg-type]
        pytest.param(
            ToolOutput(text="hi", original_bytes="9"),  # type: ignore[arg-type]
            "error",
            "whose original_bytes must be a size or None, not '9'.",
            id="a-size-that-is-no-number",
        ),
        pytest.param(ToolOutput(text="a \udcff name"), "ok", "a ? name", id="text-no-journal-can-hold"),
        pytest.param(ToolOutput(text="日本語 🚀"), "ok", "日本語 🚀", id="text-of-many-bytes"),
    ],
)
def test_whatever_a_tool_returns_its_call_has_one_result(returned: object, status: str, text: str) -> None:
    scene = play(ATool(do=lambda *_: returned))
    assert scene.results() == [("c1", status)]
    assert scene.result_text().endswith(text)


class Odd(BaseException):
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(TimeoutError("the server was slow"), "TimeoutError: the server was slow", id="a-time-out"),
        pytest.param(asyncio.CancelledError(), "CancelledError", id="a-cancellation-of-its-own"),
        pytest.param(SystemExit(3), "SystemExit: 3", id="an-exit"),
        pytest.param(GeneratorExit(), "GeneratorExit", id="the-end-of-a-generator"),
        pytest.param(Odd("x"), "Odd: x", id="one-of-no-known-family"),
        pytest.param(Unprintable(), "Unprintable: (its message cannot be read)", id="one-that-cannot-be-printed"),
        pytest.param(ValueError("x" * 20_000), "x" * 100, id="a-very-long-one"),
    ],
)
def test_whatever_a_tool_raises_is_its_result(error: BaseException, text: str) -> None:
    scene = play(ATool(do=raising(error)))
    assert scene.results() == [("c1", "error")]
    assert text in scene.result_text()
    assert len(scene.result_text()) <= 10_000


def test_a_tool_that_cannot_be_awaited_is_an_error_like_any_other() -> None:
    class Sync(ATool):
        def call(self, _args: object, _context: object) -> ToolOutput:  # type: ignore[override]
            return ToolOutput(text="never seen")

    assert play(Sync()).results() == [("c1", "error")]


def test_an_unheard_of_tool_is_an_error_that_names_the_others() -> None:
    scene = AScene(ATool("read"), ATool("write"))
    scene.says(a_reply("reed"))
    asyncio.run(scene.play())
    assert scene.result_text() == "There is no tool 'reed'. Tools: read, write."


def test_without_any_tools_there_are_none_to_name() -> None:
    scene = AScene()
    scene.says(a_reply("work"))
    asyncio.run(scene.play(tools=()))
    assert scene.result_text().endswith("Tools: none.")


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("deny", id="why-a-hook-denied-it"),
        pytest.param("refuse", id="why-it-was-refused"),
        pytest.param("applied", id="what-it-has-done-already"),
    ],
)
def test_a_call_without_an_output_says_no_more_than_one_with_an_output_may(how: str) -> None:
    def do(_args: object, context: ToolContext) -> None:
        context.applied("x" * 2_000_000)
        raise ValueError

    class Refusing:
        async def ask(self, _call: object) -> str:
            return "x" * 2_000_000

    scene = AScene(ATool(do=do))
    scene.says(a_reply("work"))
    if how == "deny":
        scene.hooks.register_tool_hook("*", pre=lambda _: {"deny": "x" * 2_000_000})
    asyncio.run(scene.play(permission=Refusing() if how == "refuse" else None))
    (result,) = [message for message in scene.state.messages if message["role"] == "tool"]
    assert (len(result["content"]), result["truncated"]) == (MAX_RESULT_CHARACTERS, True)


@pytest.mark.parametrize("end", ["error", "cancel"])
def test_what_a_tool_notes_is_told_as_a_text_whatever_it_is(end: str) -> None:
    def do(_args: object, context: Any) -> object:  # noqa: ANN401 - a tool's own
        context.applied(5)
        if end == "error":
            raise ValueError("x")
        return hang()

    scene = AScene(ATool(do=do))
    scene.says(a_reply("work"))

    async def main() -> None:
        run = await scene.begin()
        driving = asyncio.create_task(run.finish())
        await others()
        run.cancel()
        await driving

    asyncio.run(main())
    assert scene.result_text().endswith("Changes already made: 5.")


def test_a_gigantic_result_is_shortened_and_says_so() -> None:
    scene = play(ATool(do=lambda *_: "ü" * (MAX_RESULT_CHARACTERS + 5)), reminders=True)
    (result,) = [message for message in scene.state.messages if message["role"] == "tool"]
    assert (len(result["content"]), result["truncated"]) == (MAX_RESULT_CHARACTERS, True)
    assert scene.requests_with("Its original size was 2,000,010 bytes.") == [2]


def test_a_tool_that_shortened_its_own_result_is_believed_about_its_size() -> None:
    scene = play(ATool(do=lambda *_: ToolOutput(text="first page", original_bytes=4_096)), reminders=True)
    assert scene.requests_with("Its original size was 4,096 bytes.") == [2]


def test_a_whole_result_has_no_mark() -> None:
    scene = play(ATool(do=lambda *_: "x" * MAX_RESULT_CHARACTERS), reminders=True)
    (result,) = [message for message in scene.state.messages if message["role"] == "tool"]
    assert "truncated" not in result
    assert scene.requests_with("shortened") == []


def test_a_tool_may_change_its_arguments_without_changing_what_was_asked() -> None:
    def do(args: Any, _context: ToolContext) -> str:  # noqa: ANN401 - a tool's own
        args["paths"].append("b")
        return "done"

    scene = AScene(ATool(do=do))
    scene.says(a_reply(a_call(paths=["a"])))
    asyncio.run(scene.play())
    (call,) = scene.state.messages[1]["tool_calls"]
    assert call["args"] == {"paths": ["a"]}
