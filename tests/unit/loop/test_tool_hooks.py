"""Hooks around tool calls: what they may add, refuse and replace; and the receipts of it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from sideband.core.events import Deduped, Injected
from sideband.loop.hooks import HookContext
from sideband.loop.receipts import ReminderReceipt, with_audit_log
from sideband.loop.run import LoopResult
from sideband.ports import ToolOutput
from tests.loop_builders import AScene, ATool, a_call, a_reply

Hook = Callable[[HookContext], Any]


def answering(*answers: object) -> Hook:
    """A hook that gives one answer after the other, the last for ever."""
    waiting = list(answers)

    async def hook(_context: HookContext) -> object:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return hook


def play(scene: AScene, *calls: Any, **options: Any) -> LoopResult:  # noqa: ANN401 - calls and options of agent_run
    scene.says(a_reply(*(calls or ("work",))))
    return asyncio.run(scene.play(**options))


def around(*, pre: Hook | None = None, post: Hook | None = None, do: Any = None) -> AScene:  # noqa: ANN401 - a tool's
    scene = AScene(ATool(do=do))
    scene.hooks.register_tool_hook("*", pre=pre, post=post)
    return scene


# Before.


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param({"deny": "not on a Friday"}, "Denied: not on a Friday", id="with-its-reason"),
        pytest.param({"deny": True, "reason": "too late"}, "Denied: too late", id="with-a-reason-beside-it"),
        pytest.param({"then": {"deny": True}}, "Denied: denied by a hook", id="without-a-reason"),
    ],
)
def test_a_hook_may_deny_a_call(answer: object, text: str) -> None:
    scene = around(pre=answering(answer))
    play(scene)
    assert (scene.tools[0].calls, scene.results(), scene.result_text()) == ([], [("c1", "denied")], text)


@pytest.mark.parametrize(
    "reminder",
    [
        pytest.param({"reminder": {"body": " "}}, id="a-blank-body"),
        pytest.param({"reminder": 42}, id="no-reminder-at-all"),
        pytest.param({"effects": [42]}, id="a-list-of-nonsense"),
        pytest.param({"effects": 42}, id="no-list"),
        pytest.param({"reminder": {"body": "x" * 9_000}}, id="a-body-that-is-too-long"),
    ],
)
def test_a_deny_is_a_deny_however_badly_its_reminder_is_worded(reminder: dict[str, object]) -> None:
    scene = around(pre=answering({**reminder, "then": {"deny": "no"}}))
    result = play(scene)
    assert (scene.tools[0].calls, scene.results()) == ([], [("c1", "denied")])
    (problem,) = result.problems
    assert problem.where.startswith("hook answering.<locals>.hook on pre_tool_use")
    assert scene.events(Injected) == []


def test_after_a_deny_no_other_hook_is_asked() -> None:
    scene = around(pre=answering({"deny": "no"}))
    asked: list[object] = []

    async def second(context: HookContext) -> None:
        asked.append(context)

    scene.hooks.register_tool_hook("*", pre=second, post=second)
    play(scene)
    assert asked == []


def test_a_hook_may_replace_the_arguments_and_the_next_one_sees_them() -> None:
    seen: list[object] = []

    async def second(context: HookContext) -> dict[str, object]:
        seen.append(context.args)
        return {"args": {**context.args, "limit": 10}}

    scene = around(pre=answering({"args": {"path": "b"}}))
    scene.hooks.register_tool_hook("*", pre=second)
    play(scene, a_call(path="a"))
    assert seen == [{"path": "b"}]
    assert scene.tools[0].calls == [{"path": "b", "limit": 10}]
    assert scene.state.messages[1]["tool_calls"][0]["args"] == {"path": "a"}


def test_arguments_that_are_no_arguments_are_reported_and_not_used() -> None:
    scene = around(pre=answering({"args": {"at": object()}}))
    result = play(scene, a_call(path="a"))
    assert scene.tools[0].calls == [{"path": "a"}]
    assert len(result.problems) == 1


def test_a_hook_that_changes_what_it_was_told_changes_nothing() -> None:
    async def meddle(context: HookContext) -> None:
        context.args["path"] = "elsewhere"

    scene = around(pre=meddle, post=meddle)
    play(scene, a_call(path="a"))
    assert scene.tools[0].calls == [{"path": "a"}]
    assert scene.state.messages[1]["tool_calls"][0]["args"] == {"path": "a"}


# After.


@pytest.mark.parametrize(
    ("result", "text"),
    [
        pytest.param("in short", "in short", id="a-text"),
        pytest.param({"lines": 3}, '{"lines":3}', id="a-mapping"),
        pytest.param(ToolOutput(text="rewritten"), "rewritten", id="an-output"),
    ],
)
def test_a_hook_may_replace_the_result(result: object, text: str) -> None:
    scene = around(post=answering({"result": result}))
    play(scene)
    assert (scene.result_text(), scene.results()) == (text, [("c1", "ok")])


def test_a_result_that_cannot_be_written_down_is_reported_and_not_used() -> None:
    scene = around(post=answering({"result": object()}))
    result = play(scene)
    assert scene.result_text() == "done"
    assert "cannot be written as text" in result.problems[0].message


def _cycle() -> list[object]:
    cycle: list[object] = []
    cycle.append(cycle)
    return cycle


class Hostile(Mapping[str, object]):
    """Has keys, and raises where it is asked for what they stand for."""

    def __init__(self, *keys: str) -> None:
        self._keys = keys

    def __getitem__(self, key: str) -> object:
        raise RuntimeError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(_cycle(), id="a-cycle"),
        pytest.param(ToolOutput(text=["a"]), id="an-output-without-a-text"),  # type: ignore[arg-type]
        pytest.param(ToolOutput(text="a", original_bytes="9"), id="a-size-that-is-no-number"),  # type: ignore[arg-type]
        pytest.param(ToolOutput(text="a", original_bytes=-9), id="a-size-below-nothing"),
        pytest.param({(1, 2): 3}, id="a-key-that-is-no-text"),
    ],
)
def test_a_result_that_is_none_is_reported_and_not_used(result: object) -> None:
    scene = around(post=answering({"result": result}))
    played = play(scene)
    assert (scene.results(), scene.result_text()) == ([("c1", "ok")], "done")
    assert "cannot be written as text" in played.problems[0].message


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"args": {"a": _cycle()}}, id="arguments-that-are-a-cycle"),
        pytest.param({"args": Hostile("a")}, id="arguments-that-cannot-be-read"),
        pytest.param(Hostile("args"), id="an-answer-that-cannot-be-read"),
        pytest.param(Hostile("body"), id="a-reminder-that-cannot-be-read"),
        pytest.param({"decision": "deny"}, id="another-word-for-a-denial"),
        pytest.param({"then": "deny"}, id="a-denial-in-a-word"),
        pytest.param({"block": True}, id="what-only-a-compaction-can-be"),
    ],
)
def test_an_answer_about_which_nothing_can_be_done_is_reported_and_the_call_is_made(answer: object) -> None:
    scene = around(pre=answering(answer))
    result = play(scene, a_call(path="a"))
    assert (scene.tools[0].calls, scene.results()) == ([{"path": "a"}], [("c1", "ok")])
    assert len(result.problems) == 1


def test_a_denial_beside_another_action_is_a_denial() -> None:
    scene = around(pre=answering({"reminder": {"body": "x"}, "then": {"args": {"q": 1}}, "deny": "frozen"}))
    play(scene)
    assert (scene.tools[0].calls, scene.result_text()) == ([], "Denied: frozen")


def test_a_body_beside_a_denial_is_no_reminder_and_that_is_said() -> None:
    scene = around(pre=answering({"body": "Fridays are frozen.", "deny": "frozen"}))
    result = play(scene)
    assert (scene.tools[0].calls, len(scene.state.live)) == ([], 0)
    assert "`body` is ignored when the hook returns a decision" in result.problems[0].message


def test_a_hook_that_shortens_a_result_says_by_how_much_and_the_model_is_told() -> None:
    scene = around(post=answering({"result": "short", "truncated": True, "dropped_bytes": 995}))
    play(scene, reminders=True)
    assert scene.state.messages[2]["truncated"] is True
    assert scene.requests_with("Its original size was 1,000 bytes.") == [2]


def test_a_later_hook_does_not_erase_the_mark() -> None:
    scene = around(post=answering({"result": "short", "truncated": True, "dropped_bytes": 995}))
    scene.hooks.register_tool_hook("*", post=answering({"result": "SHORT"}))
    scene.hooks.register_tool_hook("*", post=answering({"result": ToolOutput(text="shortest")}))
    play(scene)
    assert (scene.result_text(), scene.state.messages[2]["truncated"]) == ("shortest", True)


def test_of_two_that_shorten_the_larger_size_is_told() -> None:
    def do(*_: object) -> ToolOutput:
        return ToolOutput(text="page one", original_bytes=4_096)

    scene = around(post=answering({"result": "p", "truncated": True, "dropped_bytes": 7}), do=do)
    play(scene, reminders=True)
    assert scene.requests_with("Its original size was 4,096 bytes.") == [2]


def test_to_shorten_without_a_number_is_reported_and_not_done() -> None:
    scene = around(post=answering({"result": "short", "truncated": True}))
    result = play(scene)
    assert scene.result_text() == "done"
    assert "dropped_bytes" in result.problems[0].message


def test_a_hook_on_a_shortened_result_is_told_so() -> None:
    async def hook(context: HookContext) -> dict[str, object] | None:
        return {"body": f"{context.tool_name} was cut"} if context.result.truncated else None

    scene = around(post=hook, do=lambda *_: ToolOutput(text="a", original_bytes=9))
    play(scene)
    assert scene.requests_with("work was cut") == [2]


# Which ones, and in which order.


def test_patterns_choose_the_tools() -> None:
    scene = AScene(ATool("read_file"), ATool("write_file"), ATool("run"))
    asked: list[tuple[str, str]] = []

    def hook(pattern: str) -> Hook:
        async def note(context: HookContext) -> None:
            asked.append((pattern, context.tool_name))

        return note

    for pattern in ("*_file", "r??", "Run", "[rw]*_file", "run"):
        scene.hooks.register_tool_hook(pattern, pre=hook(pattern))
    for name in ("read_file", "write_file", "run"):
        play(scene, name)
    assert asked == [
        ("*_file", "read_file"),
        ("[rw]*_file", "read_file"),
        ("*_file", "write_file"),
        ("[rw]*_file", "write_file"),
        ("r??", "run"),
        ("run", "run"),
    ]


def test_reminders_become_live_in_the_order_of_the_hooks_and_of_their_lists() -> None:
    scene = around(pre=answering([{"body": "one"}, {"reminder": {"body": "two"}}]), post=answering({"body": "four"}))
    scene.hooks.register_tool_hook("*", pre=answering({"effects": [{"body": "three"}]}))
    play(scene)
    assert [event.reminder.body for event in scene.events(Injected)] == ["one", "two", "three", "four"]


# Receipts.


def test_a_receipt_names_the_reminders_of_a_call_and_never_a_body() -> None:
    spec = {"body": "secret: hunter2", "tags": ["t"], "dedupe_key": "k", "ttl_turns": 2, "role_hint": "developer"}
    scene = around(pre=answering({"reminder": spec}), post=answering({"reminder": spec, "then": {"deny": "ignored"}}))
    with with_audit_log() as log:
        play(scene, a_call(path="a"))
    (receipt,) = log.receipts
    assert (receipt.session_id, receipt.tool_call_id, receipt.tool_name, receipt.args, receipt.status) == (
        "main",
        "c1",
        "work",
        {"path": "a"},
        "ok",
    )
    ids = [event.reminder.id for event in scene.events(Injected)]
    assert receipt.audit.reminders == [
        ReminderReceipt(
            hook_event=event,
            session_id="main",
            tool_call_id="c1",
            reminder_id=reminder_id,
            tags=("t",),
            dedupe_key="k",
            source="hook",
            role_hint="developer",
            ttl_turns=2,
            deduped_count=replaced,
        )
        for event, reminder_id, replaced in zip(("pre_tool_use", "post_tool_use"), ids, (0, 1), strict=True)
    ]
    assert "hunter2" not in repr(log.receipts)
    assert len(scene.events(Deduped)) == 1


def test_each_call_has_its_own_receipt_and_end() -> None:
    scene = AScene(ATool("good"), ATool("bad", lambda *_: None))
    scene.hooks.register_tool_hook("good", pre=answering({"body": "noted"}))
    with with_audit_log() as log:
        play(scene, "good", "bad", "gone")
    assert [(receipt.tool_name, receipt.status, len(receipt.audit.reminders)) for receipt in log.receipts] == [
        ("good", "ok", 1),
        ("bad", "error", 0),
        ("gone", "error", 0),
    ]


def test_without_a_log_nothing_is_kept_and_nothing_fails() -> None:
    scene = around(pre=answering({"body": "noted"}))
    with with_audit_log() as log:
        pass
    play(scene)
    assert log.receipts == []
    assert scene.results() == [("c1", "ok")]
