"""The cheap look in front of grounded_review: what it lets pass unread has nothing in it."""

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.ports import ToolOutput
from sideband.providers.grounded_review import PROVIDER, _findings
from sideband.providers.wellness import went_well
from tests.unit.providers.contexts import FIXTURES, a_context, recorded

RUNS: Final = sorted(path.stem for path in FIXTURES.glob("*.txt"))
FAILURE: Final = "FAILED test_cart.py::test_total"
# Evidence, wherever it stands.
HIDDEN: Final[list[object]] = [{"parse_error": "unclosed bracket"}, [{"undefined_name": "x"}], FAILURE]


def a_call(text: str = "3 files written.", **changes: object) -> dict[str, Any]:
    """What a loop tells of a call that went well, but for the changes; those of the output are in `output`."""
    output: Any = changes.pop("output", {})
    data = {"command": "make", "exit_code": 0, "duration_ms": 12}
    result = msgspec.structs.replace(ToolOutput(text=text, data=dict(data)), **output)
    return {
        "tool_name": "run",
        "tool_call_id": "call-1",
        "args": {"command": "make"},
        "result": result,
        "status": "ok",
        "truncated": False,
        "original_bytes": None,
        "data": data,
        "text": text,
        **changes,
    }


def a_step(*results: object, **changes: object) -> dict[str, Any]:
    return {"turn": 3, "results": [*results], **changes}


def findings(event: str, payload: dict[str, Any]) -> list[object]:
    """All that the full evaluation finds, warnings included."""
    return [
        finding
        for config in ({}, {"include_warnings": True})
        for finding in _findings(a_context(event, payload=payload, config=config))
    ]


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        pytest.param("post_tool_use", a_call(), id="a-call"),
        pytest.param("post_tool_use", a_call(""), id="a-call-that-says-nothing"),
        pytest.param("post_tool_use", a_call(data={}, output={"data": {}}), id="a-call-that-ran-no-program"),
        pytest.param("post_tool_use", a_call(original_bytes=9, output={"original_bytes": 9}), id="a-shortened-output"),
        pytest.param("post_step", a_step(), id="a-step-without-calls"),
        pytest.param("post_step", a_step({"tool_name": "run", "status": "ok"}), id="a-step-that-went-well"),
        pytest.param("post_agent_turn", {"turn": 3, "text": FAILURE}, id="a-reply-whatever-it-says"),
    ],
)
def test_what_went_well_is_let_pass(event: str, payload: dict[str, Any]) -> None:
    assert went_well(event, payload)
    assert findings(event, payload) == []


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        pytest.param("post_tool_use", {}, id="nothing-is-known"),
        pytest.param("post_tool_use", a_call(status="error"), id="the-call-failed"),
        pytest.param("post_tool_use", a_call(FAILURE), id="the-text-may-report-a-failure"),
        pytest.param("post_tool_use", a_call("warning: unused"), id="the-text-may-report-a-warning"),
        pytest.param("post_tool_use", a_call("FAI\x1b[1mLED x.py::y"), id="a-sequence-parts-a-word"),
        pytest.param("post_tool_use", a_call("FAI\x9b1mLED x.py::y"), id="a-one-byte-sequence-does"),
        pytest.param("post_tool_use", {**a_call(), "text": None}, id="no-text"),
        pytest.param("post_tool_use", a_call(result="fine"), id="a-result-that-is-no-output"),
        pytest.param("post_tool_use", a_call(result=a_context()), id="a-record-of-another-kind"),
        pytest.param("post_tool_use", a_call(output={"text": "something else"}), id="two-texts"),
        pytest.param("post_tool_use", a_call(output={"is_error": True}), id="the-output-is-an-error"),
        pytest.param("post_tool_use", a_call(output={"original_bytes": FAILURE}), id="a-size-that-is-text"),
        pytest.param("post_tool_use", a_call(data=None), id="no-data"),
        pytest.param("post_tool_use", a_call(output={"data": None}), id="no-data-in-the-output"),
        pytest.param("post_tool_use", a_call(data={"exit_code": 1}), id="the-program-failed"),
        pytest.param("post_tool_use", a_call(output={"data": {"exit_code": 1}}), id="so-says-the-output"),
        pytest.param("post_tool_use", a_call(data={"diagnostics": []}), id="data-of-an-unknown-kind"),
        pytest.param("post_tool_use", a_call(output={"data": {"duration_ms": FAILURE}}), id="a-time-that-is-text"),
        pytest.param("post_tool_use", a_call(tool_name={"name": "run"}), id="a-tool-with-parts"),
        pytest.param("post_tool_use", a_call(tool_call_id=HIDDEN), id="an-id-with-parts"),
        pytest.param("post_tool_use", a_call(verifier_signals=[]), id="a-call-with-more-to-it"),
        pytest.param("post_step", {"turn": 3}, id="a-step-without-results"),
        pytest.param("post_step", a_step(turn={"parse_error": "x"}), id="a-turn-with-parts"),
        pytest.param("post_step", a_step(error="gone"), id="a-step-with-more-to-it"),
        pytest.param("post_step", a_step({"tool_name": "run", "status": "error"}), id="a-failed-call-in-a-step"),
        pytest.param("post_step", a_step({"status": "ok", "output": "x"}), id="a-result-with-more-to-it"),
        pytest.param("post_step", a_step("ok"), id="a-result-that-is-a-word"),
        pytest.param("post_step", a_step({"tool_name": HIDDEN, "status": "ok"}), id="a-tool-of-a-step-with-parts"),
        pytest.param("post_agent_turn", {"text": {"parse_error": "x"}}, id="a-reply-with-parts"),
        pytest.param("post_agent_turn", {"turn": 3, "text": "", "results": []}, id="a-reply-with-more-to-it"),
        pytest.param("session_idle", {}, id="another-event"),
    ],
)
def test_everything_else_is_looked_at(event: str, payload: dict[str, Any]) -> None:
    assert not went_well(event, payload)


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_is_let_pass_only_if_there_is_nothing_in_it(name: str) -> None:
    payload = a_call(recorded(name))
    assert not (went_well("post_tool_use", payload) and findings("post_tool_use", payload))


def test_a_failing_run_is_never_let_pass() -> None:
    failing = [name for name in RUNS if "failing" in name]
    assert failing
    assert [name for name in failing if went_well("post_tool_use", a_call(recorded(name)))] == []


# Lines that report a failure, parted somewhere by what a terminal would not show.
PARTED: Final = st.builds(
    lambda line, at, between: f"{line[:at]}{between}{line[at:]}",
    st.sampled_from(
        [FAILURE, "src/lib.rs:7:5: error: x", "x.go:1:2: y", "not ok 1", "a.py:1:2: E501 long", "1 failing"]
    ),
    st.integers(0, 12),
    st.sampled_from(["", "\x1b[0m", "\x1b", "\x9b0m", "\x9b", "\r", "\n", " "]),
)
TEXTS: Final = PARTED | st.text(max_size=40)
# What stands where a number or a name belongs, and may have evidence in it.
VALUES: Final = st.integers(0, 9) | st.sampled_from(HIDDEN)
DATA: Final = st.fixed_dictionaries({"exit_code": st.just(0)}, optional={"duration_ms": VALUES, "command": TEXTS})
CALLS: Final = st.builds(
    lambda text, output, changes: a_call(text, output=output, **changes),
    TEXTS | st.just(""),
    st.fixed_dictionaries({}, optional={"original_bytes": VALUES, "data": DATA}),
    st.fixed_dictionaries({}, optional={"data": DATA} | dict.fromkeys(["tool_name", "truncated", "error"], VALUES)),
)
RESULTS: Final = st.fixed_dictionaries({"status": st.just("ok")}, optional={"tool_name": VALUES, "text": TEXTS})
STEPS: Final = st.builds(lambda results, turn: a_step(*results, turn=turn), st.lists(RESULTS, max_size=2), VALUES)
REPLIES: Final = st.fixed_dictionaries({}, optional=dict.fromkeys(["turn", "text", "results"], VALUES))


@pytest.mark.parametrize(
    ("event", "payloads"),
    [("post_tool_use", CALLS), ("post_step", STEPS), ("post_agent_turn", REPLIES)],
    ids=["call", "step", "reply"],
)
@given(data=st.data())
def test_in_whatever_is_let_pass_the_full_evaluation_finds_nothing(
    event: str, payloads: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    payload = data.draw(payloads)
    assert not (went_well(event, payload) and findings(event, payload))


def test_settings_of_ones_own_are_always_heard() -> None:
    # Whoever asks for warnings, or sets something wrongly, is answered also when all went well.
    silent = a_context("post_step", payload=a_step())
    assert PROVIDER.evaluate(silent) is None
    wrong = msgspec.structs.replace(silent, config={"max_findings": "many"})
    with pytest.raises(ValueError, match="max_findings"):
        PROVIDER.evaluate(wrong)
