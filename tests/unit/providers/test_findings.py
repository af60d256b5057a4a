"""Failures that a payload states in structured form."""

from typing import Any

import msgspec
import pytest

from sideband.providers.evidence import entries, tool_reports
from sideband.providers.findings import ACCEPTED, ReviewFinding, diagnostics, finding, runtime_errors, verifier_signals


class Output(msgspec.Struct):
    text: str
    is_error: bool = True


def errors(payload: dict[str, Any], event: str = "post_tool_use") -> list[str]:
    return [item.finding.summary for item in runtime_errors(payload, tool_reports(event, payload))]


def signals(payload: dict[str, Any]) -> list[str]:
    return [f"{item.source}: {item.summary}" for item in verifier_signals(entries(payload))]


def diagnosed(payload: dict[str, Any], *, include_warnings: bool = False) -> list[str]:
    return [
        f"{item.finding.source}: {item.finding.summary}"
        for item in diagnostics(entries(payload), include_warnings=include_warnings)
    ]


def test_a_finding_is_short_and_on_one_line() -> None:
    assert finding("a\nb", "c", "d\x00 " + "語" * 300) == ReviewFinding("a b", "c", "d\\x00 " + "語" * 213 + "…")
    assert len(finding("a", "b", "語" * 300).summary) == 220


class TestRuntimeErrors:
    @pytest.mark.parametrize(
        ("payload", "summary"),
        [
            pytest.param({"error": "no such file"}, "no such file", id="a-text"),
            pytest.param({"error": {"message": "no such file"}}, "no such file", id="a-message"),
            pytest.param({"error": {"type": "IOError", "message": "gone"}}, "IOError: gone", id="a-kind-and-a-message"),
            pytest.param({"error": {"code": -32000, "message": "gone"}}, "-32000: gone", id="a-code-and-a-message"),
            pytest.param({"error": {"code": [1], "message": "gone"}}, "gone", id="a-code-that-is-none"),
            pytest.param({"exception": KeyError("x")}, "KeyError('x')", id="an-exception"),
            pytest.param(
                {"status": "error", "text": "\nIOError: gone\nat line 3"}, "IOError: gone", id="a-failed-call"
            ),
            pytest.param(
                {"status": " Timed_Out ", "text": "Timed out after 5 s."}, "Timed out after 5 s.", id="a-late-call"
            ),
            pytest.param({"is_error": True, "message": "gone", "text": "x"}, "gone", id="marked-with-a-message"),
            pytest.param(
                {"status": "error", "data": {"exit_code": None}, "text": "working\n[timed out after 60 s]\n"},
                "[timed out after 60 s]",
                id="a-program-that-took-too-long",
            ),
            pytest.param(
                {"result": {"is_error": True, "returncode": -9, "stdout": "working\nkilled"}},
                "killed",
                id="a-killed-program",
            ),
            pytest.param({"result": {"error": "gone"}}, "gone", id="in-the-result"),
            pytest.param({"result": Output("gone")}, "gone", id="a-record-marked-as-an-error"),
            pytest.param(
                {"result": {"isError": True, "content": [{"type": "text", "text": "gone"}]}}, "gone", id="blocks"
            ),
            pytest.param(
                {"result": {"isError": True, "content": ["", "gone"]}}, "gone", id="the-first-that-says-anything"
            ),
            pytest.param({"tool_name": "read_file", "error": "gone"}, "gone", id="of-a-tool-that-shows-files"),
            pytest.param(
                {"tool_name": "read_file", "status": "error", "text": "gone"}, "gone", id="and-its-failed-call"
            ),
        ],
    )
    def test_what_the_harness_calls_an_error_is_one(self, payload: dict[str, Any], summary: str) -> None:
        assert errors(payload) == [summary]

    @pytest.mark.parametrize(
        "payload",
        [
            pytest.param({}, id="nothing"),
            pytest.param({"error": None}, id="null"),
            pytest.param({"error": " "}, id="blank"),
            pytest.param({"error": "None"}, id="a-word-for-none"),
            pytest.param({"error": False}, id="false"),
            pytest.param({"error": True}, id="an-error-that-says-nothing"),
            pytest.param({"error": {"message": " "}}, id="a-blank-message"),
            pytest.param({"error": {"code": 3}}, id="a-code-alone"),
            pytest.param({"status": "ok", "text": "error: gone"}, id="a-call-that-went-well"),
            pytest.param({"status": "error"}, id="a-failed-call-that-says-nothing"),
            pytest.param({"status": "interrupted", "text": "skipped"}, id="an-interrupted-call"),
            pytest.param({"status": "denied", "text": "no"}, id="a-denied-call"),
            pytest.param({"status": 3, "text": "no"}, id="a-status-that-is-no-word"),
            pytest.param({"is_error": 1, "text": "no"}, id="a-mark-that-is-a-number"),
            pytest.param({"exit_code": 1, "text": "no match"}, id="an-exit-code-alone"),
            pytest.param(
                {"status": "error", "data": {"exit_code": 1}, "text": "[exit code 1; no output]"},
                id="a-program-that-ran-to-its-end",
            ),
            pytest.param({"result": {"is_error": True, "exitCode": 2, "stdout": "x"}}, id="whatever-it-calls-its-code"),
            pytest.param({"result": {"data": {"error": "gone"}}}, id="an-error-among-the-data"),
            pytest.param({"tool_name": "read_file", "result": {"error": "gone"}}, id="the-contents-of-a-file"),
            pytest.param({"tool_name": "grep", "result": {"is_error": True, "text": "x"}}, id="what-was-searched-for"),
        ],
    )
    def test_a_call_that_is_not_marked_as_failed_is_no_error(self, payload: dict[str, Any]) -> None:
        assert errors(payload) == []

    def test_each_report_of_a_step_is_looked_at(self) -> None:
        payload = {"results": [{"status": "error"}, {"name": "run", "error": "gone"}], "error": "the step failed"}
        found = [failure.finding for failure in runtime_errors(payload, tool_reports("post_step", payload))]
        assert [(item.provenance, item.summary) for item in found] == [
            ("run results[1].error", "gone"),
            ("error", "the step failed"),
        ]

    def test_an_event_without_tools_may_state_an_error(self) -> None:
        assert errors({"error": "gone"}, "post_agent_turn") == ["gone"]
        assert errors({"status": "error", "text": "what the model said"}, "post_agent_turn") == []


class TestVerifierSignals:
    @pytest.mark.parametrize(
        ("payload", "expected"),
        [
            pytest.param(
                {"verifier_signals": [{"verifier": "typecheck", "signal": "refine", "reason": "x is undefined"}]},
                ["typecheck: refine: x is undefined"],
                id="a-list-of-signals",
            ),
            pytest.param(
                {"routing": {"verifier_outcome": {"name": "lint", "verdict": "escalate", "message": "no"}}},
                ["lint: escalate: no"],
                id="one-outcome-further-down",
            ),
            pytest.param({"verifier_outcome": "refine: too long"}, ["verifier: refine: no reason given"], id="a-word"),
            pytest.param(
                {"verification": {"passed": False, "detail": "red"}}, ["verifier: not passed: red"], id="a-flag"
            ),
            pytest.param({"verification": {"ok": False}}, ["verifier: not ok: no reason given"], id="another-flag"),
            pytest.param(
                {"verifier_signal": {"status": "FAILED"}}, ["verifier: FAILED: no reason given"], id="a-status"
            ),
        ],
    )
    def test_a_verdict_that_is_no_acceptance_is_a_finding(self, payload: dict[str, Any], expected: list[str]) -> None:
        assert signals(payload) == expected

    @pytest.mark.parametrize("word", sorted(ACCEPTED))
    def test_an_acceptance_is_no_finding(self, word: str) -> None:
        assert signals({"verifier_signals": [{"signal": f" {word.upper()} "}, word]}) == []

    @pytest.mark.parametrize(
        "signal",
        [
            pytest.param({"signal": "skipped"}, id="a-verifier-that-did-not-run"),
            pytest.param({"signal": "pending", "reason": "x"}, id="a-verdict-not-yet-reached"),
            pytest.param({"reason": "no verdict"}, id="no-verdict"),
            pytest.param({"signal": "all of it looks good to me"}, id="a-sentence"),
            pytest.param({"passed": None}, id="a-flag-that-is-open"),
            pytest.param({"passed": 0}, id="a-flag-that-is-a-number"),
            pytest.param({"signal": "accept", "passed": False}, id="the-word-goes-before-the-flag"),
            pytest.param({"signal": "refine", "kind": "llm_judge", "reason": "ugly"}, id="a-model-that-judges"),
            pytest.param({"signal": "refine", "verifier": "Critic", "reason": "ugly"}, id="a-critic"),
            pytest.param({"signal": "refine", "source": "llm", "verifier": "review"}, id="a-model-by-its-source"),
            pytest.param(3, id="a-number"),
        ],
    )
    def test_a_signal_without_a_refusal_is_no_finding(self, signal: object) -> None:
        assert signals({"verifier_signals": [signal]}) == []

    def test_a_signal_under_another_name_is_no_finding(self) -> None:
        assert signals({"signals": [{"signal": "refine"}]}) == []

    def test_a_name_that_only_contains_the_word_is_no_model(self) -> None:
        assert len(signals({"verifier_signals": [{"signal": "refine", "verifier": "critical_path"}]})) == 1


class TestDiagnostics:
    @pytest.mark.parametrize(
        ("diagnostic", "expected"),
        [
            pytest.param({"severity": "error", "message": "bad"}, "diagnostic: error: bad", id="an-error"),
            pytest.param(
                {"severity": "Error", "message": "bad", "source": "mypy", "code": "misc", "file": "a.py", "line": 3},
                "mypy: error: bad [misc] (a.py:3)",
                id="with-all-that-is-known",
            ),
            pytest.param(
                {"severity": 1, "message": "bad", "uri": "file:///a.ts", "range": {"start": {"line": 2}}},
                "diagnostic: error: bad (file:///a.ts:3)",
                id="of-a-language-server",
            ),
            pytest.param(
                {"severity": 2, "message": "bad", "ruleId": "no-undef", "line": 4},
                "diagnostic: error: bad [no-undef]",
                id="of-eslint",
            ),
            pytest.param(
                {"level": "error", "message": "bad", "code": {"code": "E0308"}},
                "diagnostic: error: bad [E0308]",
                id="of-rustc",
            ),
            pytest.param(
                {"code": "F821", "message": "Undefined name `x`", "filename": "a.py", "location": {"row": 5}},
                "diagnostic: error: Undefined name `x` [F821] (a.py:5)",
                id="an-undefined-name-without-a-severity",
            ),
            pytest.param(
                {"severity": "warning", "code": "undefined_name", "message": "x"},
                "diagnostic: error: x [undefined_name]",
                id="an-undefined-name-called-a-warning",
            ),
            pytest.param(
                {"type": "fatal", "text": "bad", "code": 1005}, "diagnostic: error: bad [1005]", id="a-number-as-code"
            ),
        ],
    )
    def test_an_error_is_a_finding(self, diagnostic: dict[str, Any], expected: str) -> None:
        assert diagnosed({"result": {"diagnostics": [diagnostic]}}) == [expected]

    @pytest.mark.parametrize(
        "diagnostic",
        [
            pytest.param({"severity": "info", "message": "x"}, id="an-information"),
            pytest.param({"severity": 3, "message": "x"}, id="a-low-severity"),
            pytest.param({"severity": True, "message": "x"}, id="a-severity-that-is-true"),
            pytest.param({"severity": ["error"], "message": "x"}, id="a-severity-that-is-a-list"),
            pytest.param({"message": "an error"}, id="no-severity"),
            pytest.param({"severity": "error"}, id="no-message"),
            pytest.param({"severity": "error", "message": "ugly", "source": "LLM review"}, id="an-opinion"),
            pytest.param("error: x", id="a-text"),
        ],
    )
    def test_a_lesser_or_empty_diagnostic_is_no_finding(self, diagnostic: object) -> None:
        assert diagnosed({"diagnostics": [diagnostic]}, include_warnings=True) == []

    @pytest.mark.parametrize(
        "diagnostic",
        [{"severity": "warning"}, {"level": "warn"}, {"severity": 2}, {"severity": 1, "ruleId": "eqeqeq"}],
    )
    def test_a_warning_is_a_finding_on_demand(self, diagnostic: dict[str, Any]) -> None:
        payload = {"problems": [{"message": "x", **diagnostic}]}
        assert diagnosed(payload) == []
        assert [line.partition(" [")[0] for line in diagnosed(payload, include_warnings=True)] == [
            "diagnostic: warning: x"
        ]

    @pytest.mark.parametrize(
        ("payload", "expected"),
        [
            pytest.param({"parse_error": "unexpected }"}, ["parse error: unexpected }"], id="a-parse-error"),
            pytest.param({"syntax_errors": [{"message": "x", "path": "a.py"}]}, ["parse error: x (a.py)"], id="a-list"),
            pytest.param({"undefined_names": ["x", "y"]}, ["undefined name: x", "undefined name: y"], id="names"),
            pytest.param({"undefined_names": [{"name": "x"}]}, ["undefined name: x"], id="a-named-one"),
            pytest.param({"parse_errors": []}, [], id="none"),
            pytest.param({"parse_error": " "}, [], id="a-blank-one"),
            pytest.param({"parse_error": {"at": 3}}, [], id="one-that-says-nothing"),
        ],
    )
    def test_parse_errors_and_undefined_names_need_no_severity(
        self, payload: dict[str, Any], expected: list[str]
    ) -> None:
        assert diagnosed(payload) == expected

    def test_a_number_too_large_to_be_written_is_left_out(self) -> None:
        huge = 10**5_000
        diagnostic = {"severity": "error", "message": "bad", "file": "a.py", "line": huge, "code": huge}
        assert diagnosed({"diagnostics": [diagnostic]}) == ["diagnostic: error: bad (a.py)"]
        assert errors({"error": {"code": huge, "message": "gone"}}) == ["gone"]

    def test_the_contents_of_a_file_are_no_diagnostics(self) -> None:
        diagnostic = {"severity": "error", "message": "bad"}
        assert diagnosed({"tool_name": "read_file", "result": {"diagnostics": [diagnostic]}}) == []
        assert diagnosed({"tool_name": "read_lints", "result": {"diagnostics": [diagnostic]}}) != []
