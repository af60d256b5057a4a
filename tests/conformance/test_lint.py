"""`lint`: what it finds, in which files it looks, and how it reports."""

import json
from pathlib import Path, PurePath
from textwrap import dedent
from typing import Any, Final

import jsonschema
import pytest

from sideband.core.explanation import Severity
from sideband.lint.check import check, check_source
from tests.programs import ROOT, run_sideband

EXAMPLES: Final = ROOT / "examples" / "lint"
NINE: Final = ", ".join(f'"p{number}"' for number in range(1, 10))
EIGHT: Final = ", ".join(f'"p{number}"' for number in range(1, 9))


def found(text: str, name: str = "agent.py", *, model: str | None = None) -> list[tuple[str, int]]:
    """Code and line of everything that is wrong with a file of this name."""
    findings = check_source(dedent(text).encode(), PurePath(name), model=model)
    return [(finding.code, finding.line) for finding in findings]


def codes(text: str, name: str = "agent.py", *, model: str | None = None) -> list[str]:
    return [code for code, _ in found(text, name, model=model)]


# What is found.


@pytest.mark.parametrize(
    ("code", "text", "name"),
    [
        pytest.param(
            "HARN-RMD-001",
            'session.remind("x", ttl_turns=1, dedupe="k")',
            "agent.py",
            id="an-unknown-option",
            marks=pytest.mark.requirement("lint:code:001"),
        ),
        pytest.param(
            "HARN-RMD-001",
            'inject_reminder(transcript, body="x", ttl_turns=True)',
            "agent.py",
            id="an-option-of-the-wrong-type",
            marks=pytest.mark.requirement("lint:code:001"),
        ),
        pytest.param(
            "HARN-RMD-001",
            '{"reminder": {"body": " ", "ttl_turns": 1}}',
            "spec.json",
            id="a-blank-body",
            marks=pytest.mark.requirement("lint:code:001"),
        ),
        pytest.param(
            "HARN-RMD-002",
            '{"jsonrpc": "2.0", "method": "session/inject_reminder", "params": {"sessionId": "s", "body": "x", "ttlTurns": 0}}',
            "frame.json",
            id="a-bad-ttl-over-acp",
            marks=pytest.mark.requirement("lint:code:002"),
        ),
        pytest.param(
            "HARN-RMD-002",
            '{"jsonrpc": "2.0", "method": "notifications/reminder", "params": {"reminder": {"body": "x", "ttlTurns": 1}}}',
            "frame.json",
            id="no-id-over-mcp",
            marks=pytest.mark.requirement("lint:code:002"),
        ),
        pytest.param(
            "HARN-RMD-002",
            '{"jsonrpc": "2.0", "method": "tasks/inject_reminder", "params": {"taskId": "t", "reminder": {"body": 7, "ttlTurns": 1}}}',
            "frame.json",
            id="a-bad-body-over-a2a",
            marks=pytest.mark.requirement("lint:code:002"),
        ),
        pytest.param(
            "HARN-RMD-003",
            """
            session.remind("x", ttl_turns=1, role_hint="user_block")
            agent_loop("task", session=session, model="openai:gpt-5.6")
            """,
            "agent.py",
            id="a-user-block-for-a-route-without-one",
            marks=pytest.mark.requirement("lint:code:003"),
        ),
        pytest.param(
            "HARN-RMD-004",
            'session.remind("x")',
            "agent.py",
            id="neither-a-ttl-nor-preserved",
            marks=pytest.mark.requirement("lint:code:004"),
        ),
        pytest.param(
            "HARN-RMD-004",
            '{"reminder": {"body": "x", "preserve_on_compact": false}}',
            "spec.json",
            id="no-ttl-and-not-preserved-in-so-many-words",
            marks=pytest.mark.requirement("lint:code:004"),
        ),
        pytest.param(
            "HARN-RMD-005",
            'session.remind("x", ttl_turns=1, propagate="children")',
            "agent.py",
            id="an-unknown-propagate",
            marks=pytest.mark.requirement("lint:code:005"),
        ),
        pytest.param(
            "HARN-RMD-006",
            """
            def evaluate(ctx):
                return {"body": "", "ttl_turns": 1}

            register_reminder_provider(id="guard", subscribes_to=["session_idle"], evaluate=evaluate)
            """,
            "agent.py",
            id="a-provider-that-returns-a-blank-body",
            marks=pytest.mark.requirement("lint:code:006"),
        ),
        pytest.param(
            "HARN-RMD-007",
            f"[reminders]\nproviders = [{NINE}]\n",
            "loop.toml",
            id="nine-providers-beside-the-canonical-ones",
            marks=pytest.mark.requirement("lint:code:007"),
        ),
        pytest.param(
            "HARN-RMD-008",
            """
            def announce(event):
                return {"reminder": {"body": "x", "ttl_turns": 1}}

            register_session_hook("worker_completed", announce)
            """,
            "agent.py",
            id="a-reminder-of-a-hook-on-a-worker",
            marks=pytest.mark.requirement("lint:code:008"),
        ),
    ],
)
def test_a_mistake_is_found(code: str, text: str, name: str) -> None:
    assert codes(text, name) == [code]


@pytest.mark.parametrize(
    ("text", "name", "model"),
    [
        pytest.param(
            'session.remind("x", ttl_turns=2)',
            "agent.py",
            None,
            id="a-finite-ttl",
            marks=pytest.mark.requirement("lint:004:finite-ttl-is-fine"),
        ),
        pytest.param(
            'session.remind("x", preserve_on_compact=True)',
            "agent.py",
            None,
            id="preserved",
            marks=pytest.mark.requirement("lint:004:finite-ttl-is-fine"),
        ),
        pytest.param(
            '{"reminder": {"body": "x", "ttl_turns": 2, "preserve_on_compact": false}}',
            "spec.json",
            None,
            id="a-finite-ttl-though-not-preserved",
            marks=pytest.mark.requirement("lint:004:finite-ttl-is-fine"),
        ),
        pytest.param(
            f"[reminders]\nproviders = [{EIGHT}, 'token_pressure', '-idle_nudge']\n",
            "loop.toml",
            None,
            id="eight-providers-beside-the-canonical-ones",
            marks=pytest.mark.requirement("lint:code:007"),
        ),
        pytest.param(
            'session.remind("x", ttl_turns=1, role_hint="user_block")',
            "agent.py",
            "anthropic:claude-opus-5",
            id="a-user-block-for-a-route-that-keeps-it",
            marks=pytest.mark.requirement("lint:code:003"),
        ),
        pytest.param(
            """
            def announce(event):
                return {"reminder": {"body": "x", "ttl_turns": 1}}

            register_session_hook("post_agent_turn", announce)
            """,
            "agent.py",
            None,
            id="a-reminder-of-a-hook-that-may",
            marks=pytest.mark.requirement("lint:code:008"),
        ),
    ],
)
def test_what_is_in_order_is_not_reported(text: str, name: str, model: str | None) -> None:
    assert found(text, name, model=model) == []


# Where it looks.


@pytest.mark.requirement("lint:input:python-calls")
@pytest.mark.parametrize(
    "call",
    [
        'sb.inject_reminder(transcript, body="x", ttl_turns=0)',
        'session.remind("x", ttl_turns=0)',
        'await self.session.remind(body="x", ttl_turns=0)',
        "sb.clear_reminders(transcript)",
    ],
)
def test_calls_of_producers_are_read(call: str) -> None:
    assert found(f"import sideband as sb\nasync def work(self, session, transcript):\n    {call}\n") == [
        ("HARN-RMD-001", 3)
    ]


@pytest.mark.requirement("lint:input:python-calls")
def test_a_file_is_read_and_never_run(tmp_path: Path) -> None:
    program = tmp_path / "agent.py"
    program.write_text(
        dedent(
            """
            from pathlib import Path

            Path("was-run").touch()
            session.remind("x", ttl_turns=0)
            raise SystemExit("was run")
            """
        ),
        encoding="utf-8",
    )
    answer = run_sideband("lint", program.name, cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (1, "")
    assert "agent.py:5:" in answer.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["agent.py"]


@pytest.mark.requirement("lint:input:python-literals")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            'inject_reminder(transcript, {"body": "x", "ttl_turns": 0})', ("HARN-RMD-001", 1), id="given-to-a-producer"
        ),
        pytest.param(
            """\
            def shorten(ctx):
                if ctx["result"]["truncated"]:
                    return {"reminder": {"body": "x", "ttl_turns": 0}}

            register_tool_hook(pattern="read_file", post=shorten)
            """,
            ("HARN-RMD-001", 3),
            id="returned-from-a-hook",
        ),
        pytest.param(
            """\
            register_reminder_provider(
                id="guard",
                subscribes_to=["session_idle"],
                evaluate=lambda ctx: [{"reminder": {"body": "x", "ttl_turns": 0}}],
            )
            """,
            ("HARN-RMD-006", 4),
            id="returned-from-a-provider",
        ),
        pytest.param(
            """\
            send({
                "jsonrpc": "2.0",
                "method": "session/remind",
                "params": {"body": "x", "ttl_turns": 0},
            })
            """,
            ("HARN-RMD-002", 4),
            id="a-message-of-a-protocol",
        ),
    ],
)
def test_dicts_given_to_or_returned_from_producers_are_read(text: str, expected: tuple[str, int]) -> None:
    assert found(text) == [expected]


@pytest.mark.parametrize(
    ("text", "name", "line"),
    [
        pytest.param(
            '{\n  "reminder": {\n    "body": "x",\n    "ttl_turns": 0\n  }\n}\n',
            "spec.json",
            4,
            id="a-reminder-in-json",
            marks=pytest.mark.requirement("lint:input:json"),
        ),
        pytest.param(
            '[\n  {"reminder": {"body": "x", "ttl_turns": 1}},\n  {"reminder": {"body": "x", "ttl_turns": 0}}\n]\n',
            "specs.json",
            3,
            id="one-of-several-in-json",
            marks=pytest.mark.requirement("lint:input:json"),
        ),
        pytest.param(
            '{"reminder": {"body": "x", "ttl_turns": 1}}\n{"reminder": {"body": "x", "ttl_turns": 0}}\n',
            "specs.jsonl",
            2,
            id="one-document-per-line",
            marks=pytest.mark.requirement("lint:input:json"),
        ),
        pytest.param(
            '[[reminder]]\nbody = "x"\nttl_turns = 1\n\n[[reminder]]\nbody = "x"\nttl_turns = 0\n',
            "specs.toml",
            7,
            id="one-of-several-in-toml",
            marks=pytest.mark.requirement("lint:input:toml"),
        ),
    ],
)
def test_reminders_in_data_files_are_read(text: str, name: str, line: int) -> None:
    assert found(text, name) == [("HARN-RMD-001", line)]


# How it reports.


@pytest.mark.requirement("lint:finding:file-and-line")
def test_each_finding_names_its_file_and_its_line() -> None:
    for finding in check([EXAMPLES]).findings:
        path = Path(finding.path)
        assert path.parent == EXAMPLES
        lines = path.read_text(encoding="utf-8").splitlines()
        # Each example explains itself on its own line or, where there are no comments, on the next.
        assert finding.code in "\n".join(lines[finding.line - 1 : finding.line + 1])


@pytest.mark.requirement("lint:finding:severity")
def test_003_and_004_are_warnings_and_the_others_errors() -> None:
    assert {finding.code: finding.severity for finding in check([EXAMPLES]).findings} == {
        "HARN-RMD-001": Severity.ERROR,
        "HARN-RMD-002": Severity.ERROR,
        "HARN-RMD-003": Severity.WARNING,
        "HARN-RMD-004": Severity.WARNING,
        "HARN-RMD-005": Severity.ERROR,
        "HARN-RMD-006": Severity.ERROR,
        "HARN-RMD-007": Severity.ERROR,
        "HARN-RMD-008": Severity.ERROR,
    }


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """Two files with an error and a warning in them."""
    (tmp_path / "agent.py").write_text('\nsession.remind("x", ttl_turns=0)\n', encoding="utf-8")
    (tmp_path / "spec.toml").write_text('[[reminder]]\nbody = "x"\n', encoding="utf-8")
    return tmp_path


@pytest.mark.requirement("lint:output:text", "lint:finding:file-and-line")
def test_findings_are_lines_of_text(folder: Path) -> None:
    answer = run_sideband("lint", cwd=folder)
    first, second, blank, summary, *_ = answer.stdout.splitlines()
    assert first.startswith("agent.py:2:")
    assert ": error HARN-RMD-001 ttl_turns must be between 1 and 1,000,000" in first
    assert second.startswith("spec.toml:")
    assert ": warning HARN-RMD-004 " in second
    assert (blank, summary) == ("", "1 error, 1 warning in 2 of 2 files.")


@pytest.mark.requirement("lint:output:json")
def test_findings_are_printed_as_json(folder: Path) -> None:
    report = json.loads(run_sideband("lint", "--format", "json", cwd=folder).stdout)
    found_here = [(entry["path"], entry["line"], entry["code"], entry["severity"]) for entry in report["findings"]]
    assert found_here == [("agent.py", 2, "HARN-RMD-001", "error"), ("spec.toml", 1, "HARN-RMD-004", "warning")]
    assert all(entry["message"] and entry["column"] >= 1 for entry in report["findings"])
    assert report["summary"] == {"files": 2, "error": 1, "warning": 1, "advice": 0}


# What SARIF 2.1.0 demands of the objects that a log of ours has: required properties, and the types of all of them.
_MESSAGE: Final = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
_LEVEL: Final = {"enum": ["none", "note", "warning", "error"]}
_LOCATION: Final = {
    "type": "object",
    "properties": {
        "physicalLocation": {
            "type": "object",
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "properties": {"uri": {"type": "string", "format": "uri-reference"}},
                },
                "region": {
                    "type": "object",
                    "properties": {name: {"type": "integer", "minimum": 1} for name in ("startLine", "startColumn")},
                },
            },
        }
    },
}
SARIF: Final = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "$schema": {"type": "string"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {"shortDescription": _MESSAGE, "help": _MESSAGE},
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "invocations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["executionSuccessful"],
                            "properties": {"executionSuccessful": {"type": "boolean"}},
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["message"],
                            "properties": {
                                "message": _MESSAGE,
                                "level": _LEVEL,
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": -1},
                                "locations": {"type": "array", "uniqueItems": True, "items": _LOCATION},
                            },
                        },
                    },
                },
            },
        },
    },
}


def located(result: dict[str, Any]) -> tuple[str, int]:
    (location,) = result["locations"]
    place = location["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]["startLine"]


@pytest.mark.requirement("lint:output:sarif")
def test_findings_are_printed_as_a_sarif_log(folder: Path) -> None:
    log = json.loads(run_sideband("lint", "--format", "sarif", cwd=folder).stdout)
    jsonschema.validate(log, SARIF)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [(result["ruleId"], result["level"], *located(result)) for result in run["results"]] == [
        ("HARN-RMD-001", "error", "agent.py", 2),
        ("HARN-RMD-004", "warning", "spec.toml", 1),
    ]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])


@pytest.mark.requirement("lint:output:sarif")
def test_a_sarif_log_without_findings_and_one_of_a_failure_are_valid_too(folder: Path) -> None:
    for arguments, successful in ((("--select", "008", "."), True), (("missing.py",), False)):
        log = json.loads(run_sideband("lint", "--format", "sarif", *arguments, cwd=folder).stdout)
        jsonschema.validate(log, SARIF)
        (run,) = log["runs"]
        assert run["results"] == []
        assert run["invocations"][0]["executionSuccessful"] is successful
