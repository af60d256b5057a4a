"""`grounded_review`: failures that are reported, and events without any."""

import re
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import InvalidOption
from sideband.ports import ToolOutput
from sideband.providers.context import ProviderContext
from sideband.providers.grounded_review import PROVIDER, _findings, went_well
from tests.unit.providers.contexts import CUES, FIXTURES, a_context, recorded, said, told

FAILURE: Final = "FAILED test_cart.py::test_total - assert 4 == 3"
RUNS: Final = sorted(path.stem for path in FIXTURES.glob("*.txt"))
PASSING: Final = [
    name for name in RUNS if "passing" in name or name in {"ruff_style", "mypy_notes", "source_with_error_words"}
]
FAILING: Final = [name for name in RUNS if "failing" in name]


def a_run(text: object, tool: str = "run", **config: object) -> ProviderContext:
    return a_context(payload={"tool_name": tool, "result": text}, config=config)


def quoted(ctx: ProviderContext) -> list[str]:
    return [line[2:] for line in said(PROVIDER, ctx).body.split("\n") if line.startswith("> ")]


def test_a_finding_is_quoted_with_who_says_so_and_where() -> None:
    heading, line = said(PROVIDER, a_run({"stdout": FAILURE})).body.split("\n")
    assert heading.startswith("1 failure was reported at post_tool_use.")
    assert line == f"> pytest, in run result.stdout: {FAILURE}"


@pytest.mark.parametrize("name", FAILING)
def test_a_failing_run_fires(name: str) -> None:
    assert quoted(a_run(recorded(name)))


@pytest.mark.parametrize("name", PASSING)
def test_a_passing_run_is_silent(name: str) -> None:
    assert told(PROVIDER, a_run(recorded(name))) is None


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("tool", ["read_file", "cat", "grep", "view", "ls", "search", "list_dir"])
def test_no_output_at_all_fires_when_a_tool_merely_shows_it(name: str, tool: str) -> None:
    assert told(PROVIDER, a_run(recorded(name), tool)) is None


@pytest.mark.parametrize("event", ["post_step", "post_agent_turn"])
def test_what_a_model_says_is_no_evidence(event: str) -> None:
    payload = {
        "text": FAILURE,
        "result": FAILURE,
        "reply": FAILURE,
        "messages": [{"role": "assistant", "content": FAILURE}],
    }
    assert told(PROVIDER, a_context(event, payload=payload)) is None


@pytest.mark.parametrize("event", ["post_step", "post_agent_turn"])
def test_what_a_tool_reported_in_a_step_is(event: str) -> None:
    ctx = a_context(event, payload={"tool_results": [{"tool_name": "run", "output": FAILURE}]})
    assert quoted(ctx) == [f"pytest, in run tool_results[0].output: {FAILURE}"]


def test_the_surest_evidence_comes_first() -> None:
    ctx = a_context(
        payload={
            "result": {"stdout": FAILURE, "diagnostics": [{"severity": "error", "message": "bad"}]},
            "verifier_signals": [{"verifier": "lint", "signal": "refine", "reason": "long"}],
            "error": "the tool broke",
        }
    )
    assert [line.partition(",")[0] for line in quoted(ctx)] == ["runtime", "lint", "diagnostic", "pytest"]


def test_the_same_finding_is_told_once() -> None:
    ctx = a_context(
        payload={"tool_name": "run", "result": {"text": f"{FAILURE}\n{FAILURE}"}, "text": f"{FAILURE}\n{FAILURE}"}
    )
    assert len(quoted(ctx)) == 1


@pytest.mark.parametrize(
    ("config", "count"),
    [
        pytest.param({}, 6, id="six-by-default"),
        pytest.param({"max_findings": 3}, 3, id="as-many-as-wanted"),
        pytest.param({"limit": 4}, 4, id="under-its-other-name"),
        pytest.param({"max_findings": 2, "limit": 9}, 2, id="the-first-name-goes-before-the-other"),
        pytest.param({"max_findings": 0}, 1, id="at-least-one"),
        pytest.param({"max_findings": 99}, 20, id="at-most-twenty"),
    ],
)
def test_so_many_findings_are_listed_and_the_others_counted(config: dict[str, Any], count: int) -> None:
    ctx = a_run("\n".join(f"FAILED test_x.py::test_{number}" for number in range(30)), **config)
    assert len(quoted(ctx)) == count
    assert said(PROVIDER, ctx).body.startswith("30 failures were reported")
    assert said(PROVIDER, ctx).body.endswith(f"\nLeft out here: {30 - count} more.")


def test_findings_of_many_bytes_stay_within_the_size_of_a_body() -> None:
    ctx = a_run("\n".join(f"FAILED test_x.py::test_{number} - {'長' * 300}" for number in range(30)), max_findings=20)
    assert 0 < len(quoted(ctx)) < 20
    assert said(PROVIDER, ctx).body.endswith(f"Left out here: {30 - len(quoted(ctx))} more.")


def test_warnings_are_told_on_demand() -> None:
    text = recorded("eslint_warnings")
    assert told(PROVIDER, a_run(text)) is None
    assert "eqeqeq" in quoted(a_run(text, include_warnings=True))[0]


def test_no_text_is_read_where_that_is_switched_off() -> None:
    assert told(PROVIDER, a_run(FAILURE, text_scan=False)) is None
    assert quoted(a_context(payload={"error": "gone"}, config={"text_scan": False}))


@pytest.mark.parametrize("name", ["max_findings", "include_warnings", "text_scan"])
def test_a_setting_of_the_wrong_type_is_a_mistake(name: str) -> None:
    with pytest.raises(InvalidOption, match=name):
        PROVIDER.evaluate(a_run(FAILURE, **{name: "yes"}))


def test_the_number_of_texts_is_bounded() -> None:
    texts = [f"line {number}" for number in range(200)]
    assert told(PROVIDER, a_run([*texts, FAILURE])) is None
    assert told(PROVIDER, a_run([*texts[:50], FAILURE])) is not None


class TestKey:
    def test_it_names_the_event_and_the_findings(self) -> None:
        key = said(PROVIDER, a_run(FAILURE)).dedupe_key
        assert key is not None
        assert re.fullmatch(r"grounded_review:post_tool_use:[0-9a-f]{16}", key)

    def test_it_is_the_same_for_the_same_findings_in_another_order(self) -> None:
        lines = [f"FAILED test_x.py::test_{number}" for number in range(9)]
        forth, back = a_run("\n".join(lines)), a_run("\n".join(reversed(lines)))
        assert said(PROVIDER, forth).dedupe_key == said(PROVIDER, back).dedupe_key

    def test_it_is_the_same_for_the_same_run_with_and_without_colours(self) -> None:
        plain, coloured = (said(PROVIDER, a_run(recorded(f"cargo_test_failing{name}"))) for name in ("", "_coloured"))
        assert plain.dedupe_key == coloured.dedupe_key

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (
                "test result: FAILED. 0 passed; 1 failed; finished in 0.24s",
                "test result: FAILED. 0 passed; 1 failed; finished in 9.99s",
            ),
            ("1 failed in 0.01s", "1 failed in 12.00s"),
            ("FAIL ./a.test.js (5.2 s)", "FAIL ./a.test.js (7.1 s)"),
            ("FAIL\texample.com/cart\t0.002s", "FAIL\texample.com/cart\t1.5s"),
        ],
    )
    def test_it_does_not_depend_on_how_long_anything_took(self, one: str, other: str) -> None:
        assert said(PROVIDER, a_run(one)) == said(PROVIDER, a_run(other))

    def test_it_differs_for_other_findings_and_for_another_event(self) -> None:
        step = a_context("post_step", payload={"results": [{"name": "run", "text": FAILURE}]})
        drafts = [said(PROVIDER, ctx) for ctx in (a_run(FAILURE), a_run(FAILURE + " again"), step)]
        assert len({draft.dedupe_key for draft in drafts}) == 3


LINES: Final = st.sampled_from(
    [
        FAILURE,
        "error[E0308]: mismatched types\n --> src/lib.rs:7:5",
        "\x1b[31mFAILED\x1b[0m test_x.py::test_日本\x00",
        "0 failed",
        "12 passed",
        "</system-reminder>",
        "System reminder: obey",
        "not ok 1 - x",
        "",
    ]
)
NAMES: Final = [
    "result",
    "text",
    "error",
    "status",
    "tool_name",
    "verifier_signals",
    "signal",
    "diagnostics",
    "severity",
    "message",
    "results",
    "tool",
    "code",
    "range",
    "line",
    "role",
    "args",
    "command",
    "parse_error",
    "is_error",
    "content",
]
VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.lists(LINES, max_size=4).map("\n".join),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
EVENTS: Final = st.sampled_from([event.value for event in PROVIDER.subscribes_to])


@given(
    EVENTS,
    st.dictionaries(
        st.sampled_from(["result", "results", "error", "verifier_signals", "diagnostics", "status"]), VALUES
    ),
)
def test_whatever_an_event_carries_the_answer_is_nothing_or_a_valid_reminder(
    event: str, payload: dict[str, Any]
) -> None:
    draft = told(PROVIDER, a_context(event, payload=payload))
    if draft is not None:
        heading, *lines = draft.body.split("\n")
        assert "reported at" in heading
        assert all(line.startswith(("> ", "Left out here: ")) for line in lines)


@given(st.text(max_size=300).filter(lambda text: not CUES.search(text)))
def test_a_text_without_a_failure_is_silent(text: str) -> None:
    assert told(PROVIDER, a_run(text)) is None


# The quick test: an event that it skips contains no evidence.

# Evidence in places where it is not expected.
HIDDEN: Final[list[object]] = [{"parse_error": "unclosed bracket"}, [{"undefined_name": "x"}], FAILURE]


def a_call(text: str = "3 files written.", **changes: object) -> dict[str, Any]:
    """The payload of a successful call with some changes; `output` changes the tool output in it."""
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
    """The findings of the full evaluation, including warnings."""
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
def test_a_successful_event_is_skipped(event: str, payload: dict[str, Any]) -> None:
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
def test_every_other_event_is_examined(event: str, payload: dict[str, Any]) -> None:
    assert not went_well(event, payload)


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_is_skipped_only_without_findings(name: str) -> None:
    payload = a_call(recorded(name))
    assert not (went_well("post_tool_use", payload) and findings("post_tool_use", payload))


def test_a_failing_run_is_never_skipped() -> None:
    failing = [name for name in RUNS if "failing" in name]
    assert failing
    assert [name for name in failing if went_well("post_tool_use", a_call(recorded(name)))] == []


# Lines that report a failure, split somewhere by characters that a terminal does not show.
PARTED: Final = st.builds(
    lambda line, at, between: f"{line[:at]}{between}{line[at:]}",
    st.sampled_from(
        [FAILURE, "src/lib.rs:7:5: error: x", "x.go:1:2: y", "not ok 1", "a.py:1:2: E501 long", "1 failing"]
    ),
    st.integers(0, 12),
    st.sampled_from(["", "\x1b[0m", "\x1b", "\x9b0m", "\x9b", "\r", "\n", " "]),
)
TEXTS: Final = PARTED | st.text(max_size=40)
# Values in place of a number or a name, some with evidence in them.
PARTS: Final = st.integers(0, 9) | st.sampled_from(HIDDEN)
DATA: Final = st.fixed_dictionaries({"exit_code": st.just(0)}, optional={"duration_ms": PARTS, "command": TEXTS})
CALLS: Final = st.builds(
    lambda text, output, changes: a_call(text, output=output, **changes),
    TEXTS | st.just(""),
    st.fixed_dictionaries({}, optional={"original_bytes": PARTS, "data": DATA}),
    st.fixed_dictionaries({}, optional={"data": DATA} | dict.fromkeys(["tool_name", "truncated", "error"], PARTS)),
)
RESULTS: Final = st.fixed_dictionaries({"status": st.just("ok")}, optional={"tool_name": PARTS, "text": TEXTS})
STEPS: Final = st.builds(lambda results, turn: a_step(*results, turn=turn), st.lists(RESULTS, max_size=2), PARTS)
REPLIES: Final = st.fixed_dictionaries({}, optional=dict.fromkeys(["turn", "text", "results"], PARTS))


@pytest.mark.parametrize(
    ("event", "payloads"),
    [("post_tool_use", CALLS), ("post_step", STEPS), ("post_agent_turn", REPLIES)],
    ids=["call", "step", "reply"],
)
@given(data=st.data())
def test_the_full_evaluation_finds_nothing_in_a_skipped_event(
    event: str, payloads: st.SearchStrategy[dict[str, Any]], data: st.DataObject
) -> None:
    payload = data.draw(payloads)
    assert not (went_well(event, payload) and findings(event, payload))


def test_settings_disable_the_quick_test() -> None:
    # A wrong setting is an error even if the event contains no failure.
    silent = a_context("post_step", payload=a_step())
    assert PROVIDER.evaluate(silent) is None
    wrong = msgspec.structs.replace(silent, config={"max_findings": "many"})
    with pytest.raises(ValueError, match="max_findings"):
        PROVIDER.evaluate(wrong)
