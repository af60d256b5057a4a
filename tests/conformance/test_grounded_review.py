"""The provider that repeats what verifiers and the runtime report as failed, and nothing else."""

import re
from typing import Any

import pytest

import sideband as sb
from sideband.providers.context import ProviderContext
from sideband.providers.grounded_review import PROVIDER
from tests.agents import AnAgent, awaited
from tests.conformance.provoked import FAILURE, reminders_of, with_output
from tests.loop_builders import ATool, a_reply
from tests.unit.providers.contexts import a_context, recorded, said, told


def a_review(
    event: str = "post_tool_use", /, *, config: dict[str, Any] | None = None, **payload: object
) -> ProviderContext:
    return a_context(event, payload=payload, config=config or {})


def reported(ctx: ProviderContext) -> list[str]:
    draft = told(PROVIDER, ctx)
    return [] if draft is None else [line[2:] for line in draft.body.split("\n") if line.startswith("> ")]


@pytest.mark.requirement("providers:grounded_review:concrete-evidence")
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"error": "connection refused"}, id="a-runtime-error"),
        pytest.param({"status": "error", "text": "no such file"}, id="a-failed-call"),
        pytest.param({"verifier_signals": [{"verifier": "lint", "signal": "reject"}]}, id="a-verifier-that-refuses"),
        pytest.param({"result": {"parse_errors": ["unclosed bracket"]}}, id="a-parse-error"),
        pytest.param({"result": {"undefined_names": ["total"]}}, id="an-undefined-name"),
        pytest.param({"diagnostics": [{"severity": "error", "message": "bad type"}]}, id="an-error-diagnostic"),
        pytest.param({"tool_name": "run", "result": FAILURE}, id="a-failure-line"),
    ],
)
def test_grounded_review_fires_on_concrete_evidence(payload: dict[str, Any]) -> None:
    assert len(reported(a_review(**payload))) == 1


@pytest.mark.requirement("providers:grounded_review:concrete-evidence")
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"result": "I think there is an error in the second test."}, id="somebody's-words"),
        pytest.param(
            {"reply": FAILURE, "messages": [{"role": "assistant", "content": FAILURE}]}, id="what-a-model-says"
        ),
        pytest.param({"verifier_signals": [{"verifier": "llm-judge", "signal": "reject"}]}, id="what-a-model-thinks"),
        pytest.param({"verifier_signals": [{"verifier": "lint", "signal": "accepted"}]}, id="an-acceptance"),
        pytest.param({"diagnostics": [{"severity": "hint", "message": "could be shorter"}]}, id="a-hint"),
        pytest.param({"error": "none", "status": "ok"}, id="no-error"),
    ],
)
def test_grounded_review_fires_on_nothing_else(payload: dict[str, Any]) -> None:
    assert reported(a_review(**payload)) == []


@pytest.mark.requirement("providers:grounded_review:concrete-evidence")
@awaited
async def test_grounded_review_tells_a_running_agent_what_its_tool_reported() -> None:
    (reminder,) = await with_output(sb.ToolOutput(text=FAILURE), "grounded_review")
    assert f"> pytest, in run result.text: {FAILURE}" in reminder.body
    assert await with_output(sb.ToolOutput(text="3 passed"), "grounded_review") == []


@pytest.mark.requirement("providers:grounded_review:commands")
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("cargo", recorded("cargo_check_failing")),
        ("cargo", recorded("cargo_test_failing")),
        ("harn lint", "error[HARN-LNT-066]: the result is discarded\n  --> src/main.harn:3:1"),
        ("pytest", recorded("pytest_failing")),
        ("go", recorded("go_test_failing")),
        ("tsc", recorded("tsc_failing")),
        ("ruff", recorded("ruff_failing")),
        ("mypy", recorded("mypy_failing")),
        ("npm test", recorded("npm_test_jest_failing")),
        ("eslint", recorded("eslint_failing")),
    ],
    ids=["cargo-check", "cargo-test", "harn-lint", "pytest", "go-test", "tsc", "ruff", "mypy", "npm-test", "eslint"],
)
def test_grounded_review_reads_the_failure_lines_of(command: str, output: str) -> None:
    lines = reported(a_review(tool_name="run", result=output))
    assert {line.partition(",")[0] for line in lines} == {command}


@pytest.mark.requirement("providers:grounded_review:never-from-file-display")
@pytest.mark.parametrize("tool", ["read_file", "cat", "grep", "view", "search", "list_dir"])
@awaited
async def test_grounded_review_reads_nothing_out_of_what_a_tool_displays(tool: str) -> None:
    output = sb.ToolOutput(text=recorded("pytest_failing"))
    assert await with_output(output, "grounded_review", tool) == []


@pytest.mark.requirement("providers:grounded_review:passing-lines")
@pytest.mark.parametrize(
    "output",
    [
        "12 passed, 0 failed",
        "test result: ok. 3 passed; 0 failed; 0 ignored",
        "Tests:       0 failed, 4 passed, 4 total",
        "Found 0 errors.",
        "ok  \texample.com/cart\t0.002s",
        *(recorded(name) for name in ("pytest_passing", "cargo_test_passing", "go_test_passing", "mypy_passing")),
    ],
)
def test_grounded_review_takes_passing_lines_for_no_failure(output: str) -> None:
    assert reported(a_review(tool_name="run", result=output)) == []


@pytest.mark.requirement("providers:grounded_review:ansi")
@pytest.mark.parametrize("name", ["cargo_test_failing", "cargo_check_failing", "npm_test_jest_failing"])
def test_grounded_review_reads_coloured_output_as_if_it_were_plain(name: str) -> None:
    coloured = recorded(f"{name}_coloured")
    assert "\x1b[" in coloured
    lines = reported(a_review(tool_name="run", result=coloured))
    assert lines == reported(a_review(tool_name="run", result=recorded(name)))
    assert lines


@pytest.mark.requirement("providers:grounded_review:max-findings")
@pytest.mark.parametrize(
    ("config", "count"),
    [({}, 6), ({"max_findings": 3}, 3), ({"limit": 4}, 4), ({"max_findings": 0}, 1), ({"max_findings": 99}, 20)],
)
@awaited
async def test_grounded_review_lists_so_many_findings(config: dict[str, Any], count: int) -> None:
    output = sb.ToolOutput(text="\n".join(f"FAILED test_x.py::test_{number}" for number in range(30)))
    (reminder,) = await with_output(output, "grounded_review", **config)
    assert reminder.body.count("\n> ") == count
    assert reminder.body.startswith("30 failures were reported")


@pytest.mark.requirement("providers:grounded_review:text-scan")
def test_grounded_review_scans_no_text_with_text_scan_off() -> None:
    off = {"text_scan": False}
    assert reported(a_review(config=off, tool_name="run", result=FAILURE)) == []
    assert reported(a_review(config=off, error="connection refused"))


@pytest.mark.requirement("providers:grounded_review:warnings-on-demand")
@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"diagnostics": [{"severity": "warning", "message": "unused"}]}, id="a-diagnostic"),
        pytest.param({"tool_name": "run", "result": recorded("eslint_warnings")}, id="a-line"),
    ],
)
def test_grounded_review_reports_warnings_on_demand(payload: dict[str, Any]) -> None:
    assert reported(a_review(**payload)) == []
    assert reported(a_review(config={"include_warnings": True}, **payload))


@pytest.mark.requirement("providers:grounded_review:key")
def test_the_key_of_grounded_review_is_its_name_the_event_and_a_digest_of_the_findings() -> None:
    drafts = [
        said(PROVIDER, ctx)
        for ctx in (
            a_review(tool_name="run", result=FAILURE),
            a_review(tool_name="run", result=f"{FAILURE}\n{FAILURE}"),
            a_review(tool_name="run", result=f"{FAILURE} again"),
            a_review("post_step", tool_results=[{"tool_name": "run", "output": FAILURE}]),
        )
    ]
    keys = [draft.dedupe_key or "" for draft in drafts]
    assert [re.sub("[0-9a-f]{16}$", "", key) for key in keys] == [
        *["grounded_review:post_tool_use:"] * 3,
        "grounded_review:post_step:",
    ]
    assert keys[0] == keys[1]
    assert len({*keys}) == 3


# One finding is counted once.

RUSTC: str = "error[E0308]: mismatched types\n --> src/lib.rs:7:5\nerror: could not compile `cart` (lib)"
NO_UNDEF: dict[str, Any] = {"ruleId": "no-undef", "severity": 2, "message": "'a' is not defined."}
E0308: dict[str, Any] = {"level": "error", "message": "mismatched types", "code": {"code": "E0308"}}


@pytest.mark.requirement("providers:grounded_review:counted-once")
@pytest.mark.parametrize(
    ("text", "data", "lines"),
    [
        pytest.param(
            RUSTC,
            {"diagnostics": [{**E0308, "file": "/repo/src/lib.rs", "line": 7}]},
            ["diagnostic, in data.diagnostics: error: mismatched types [E0308] (/repo/src/lib.rs:7)"],
            id="a-diagnostic-and-its-line",
        ),
        pytest.param(
            RUSTC,
            {"diagnostics": [E0308]},
            ["diagnostic, in data.diagnostics: error: mismatched types [E0308]"],
            id="a-diagnostic-without-a-place",
        ),
        pytest.param(
            RUSTC,
            {"diagnostics": [{**E0308, "file": "src/lib.rs", "line": 9}]},
            [
                "diagnostic, in data.diagnostics: error: mismatched types [E0308] (src/lib.rs:9)",
                "cargo, in run result.text: error[E0308]: mismatched types (src/lib.rs:7:5)",
            ],
            id="two-diagnostics-of-the-same-words",
        ),
        pytest.param(
            "cart.ts(2,3): error TS2304: Cannot find name 'totl'.",
            {"diagnostics": [{"severity": 1, "message": "Cannot find name 'totl'.", "file": "cart.ts", "line": 2}]},
            ["diagnostic, in data.diagnostics: error: Cannot find name 'totl'. (cart.ts:2)"],
            id="a-diagnostic-of-tsc",
        ),
        pytest.param(
            "src/app.ts\n  3:1  error  'a' is not defined  no-undef\n\n✖ 1 problem (1 error, 0 warnings)",
            {"undefined_names": ["'a' is not defined"]},
            ["undefined name, in data.undefined_names: 'a' is not defined"],
            id="an-undefined-name-of-eslint",
        ),
        pytest.param(
            "/repo/a.js\n  3:1  error  'a' is not defined  no-undef\n  9:1  error  'a' is not defined  no-undef\n",
            {"diagnostics": [{**NO_UNDEF, "filePath": "/repo/a.js", "line": 3}]},
            [
                "diagnostic, in data.diagnostics: error: 'a' is not defined. [no-undef] (/repo/a.js:3)",
                "eslint, in run result.text: /repo/a.js:9:1 error 'a' is not defined no-undef",
            ],
            id="a-diagnostic-of-eslint-and-another-of-the-same-words",
        ),
    ],
)
@awaited
async def test_a_failure_that_is_stated_and_printed_is_counted_once(
    text: str, data: dict[str, Any], lines: list[str]
) -> None:
    output = sb.ToolOutput(text=text, data=data)
    (reminder,) = await with_output(output, "grounded_review")
    quoted = [line.removeprefix("> ") for line in reminder.body.split("\n") if line.startswith("> ")]
    assert [line.replace("run data.", "data.").replace("result.data.", "data.") for line in quoted] == lines
    count = "1 failure was" if len(lines) == 1 else f"{len(lines)} failures were"
    assert reminder.body.startswith(f"{count} reported at post_tool_use.")


@pytest.mark.requirement("providers:grounded_review:counted-once")
@awaited
async def test_the_failures_in_the_output_of_a_failed_call_are_not_counted_with_the_call() -> None:
    output = sb.ToolOutput(text=f"collected 2 items\n{FAILURE}\n=== 1 failed, 1 passed in 0.1s ===", is_error=True)
    (reminder,) = await with_output(output, "grounded_review")
    assert reminder.body.startswith("1 failure was reported at post_tool_use.")
    (other,) = await with_output(sb.ToolOutput(text="no such file", is_error=True), "grounded_review")
    assert other.body.endswith("> runtime, in run error: no such file")
    counted = sb.ToolOutput(text="=== 2 failed, 1 passed in 0.1s ===", is_error=True)
    (count,) = await with_output(counted, "grounded_review")
    assert count.body.endswith("shortened:\n> pytest, in run result.text: 2 failed, 1 passed")


@pytest.mark.requirement("providers:grounded_review:concrete-evidence")
@pytest.mark.parametrize(
    ("output", "line"),
    [
        pytest.param(
            RUSTC, "cargo, in run result.text: error[E0308]: mismatched types (src/lib.rs:7:5)", id="a-known-line"
        ),
        pytest.param(
            "error: linking with `cc` failed: exit status: 1\n\nerror: could not compile `cart` (bin)",
            "runtime, in run error: RuntimeError: error: linking with `cc` failed: exit status: 1",
            id="any-other-line",
        ),
    ],
)
@awaited
async def test_the_error_that_a_tool_raises_is_quoted_and_not_only_counted(output: str, line: str) -> None:
    def raises(*_: object) -> sb.ToolOutput:
        raise RuntimeError(output)

    agent = AnAgent(a_reply("run"), tools=[ATool("run", raises)])
    await agent.play(reminders=True)
    (reminder,) = reminders_of(agent, "grounded_review")
    assert f"\n> {line}" in reminder.body


@pytest.mark.requirement("providers:grounded_review:counted-once")
@awaited
async def test_a_line_that_only_counts_failures_is_not_called_one_failure() -> None:
    (reminder,) = await with_output(sb.ToolOutput(text="=== 2 failed, 1 passed in 0.1s ==="), "grounded_review")
    assert reminder.body.startswith("Failures were reported at post_tool_use.")
