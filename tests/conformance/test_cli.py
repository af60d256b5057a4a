"""The command line, started as a user starts it."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from typing import Final

import pytest
from rich.cells import cell_len

import sideband as sb
from sideband.cli.app import app
from sideband.cli.commands import COMMANDS, GROUPS
from sideband.cli.doctor import EXTRAS
from sideband.core.diagnostics import DIAGNOSTICS
from sideband.core.limits import DEFAULT_LIMITS
from sideband.protocols.artifacts import artifacts
from tests.programs import run_sideband

FINE: Final = 'session.remind("x", ttl_turns=1)\n'
ADVICE: Final = 'session.remind("Never tell the user.", ttl_turns=1)\n'
WARNING: Final = 'session.remind("x")\n'
ERROR: Final = 'session.remind("x", ttl_turns=0)\n'


def flat(text: str) -> str:
    return " ".join(text.split())


# The help


@pytest.mark.requirement("cli:help:options-and-examples")
def test_the_overview_shows_the_commands_in_groups() -> None:
    text = run_sideband("--help").stdout
    for title, group in GROUPS.items():
        (section,) = re.findall(rf"^{title}:\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
        assert [line.split()[0] for line in section.splitlines()] == [*group]


MCP: Final = ("listen", "watch-command", "watch-files", "watch-git", "watch-tests")


@pytest.mark.requirement("cli:help:options-and-examples")
@pytest.mark.parametrize(
    "line", [*(name for name in COMMANDS if name != "mcp"), "facts add", "facts remove", *map("mcp {}".format, MCP)]
)
def test_help_explains_every_option_of_a_command(line: str) -> None:
    name, *rest = line.split()
    command = app[name][rest[0]] if rest else app[name]
    shown = [
        option
        for option in command.assemble_argument_collection(parse_docstring=True)
        if option.parameter.show is not False
    ]
    assert [option.names for option in shown if not option.parameter.help] == []
    text = run_sideband(*line.split(), "--help", env={"COLUMNS": "200"}).stdout
    examples = () if name == "mcp" else COMMANDS[name].examples
    for example in (*(option.names[0] for option in shown if option.names), *examples):
        assert example in text


@pytest.mark.requirement("cli:help:options-and-examples")
def test_the_help_of_mcp_describes_its_commands_and_shows_examples() -> None:
    text = run_sideband("mcp", "--help", env={"COLUMNS": "200"}).stdout
    for name in MCP:
        assert re.search(rf"{name} +[A-Z]", text)
    for example in COMMANDS["mcp"].examples:
        assert example in text


# Mistakes


@pytest.mark.requirement("cli:errors:what-to-write")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("timeline ID", "no place for the argument 'ID'; a session is named with --to: sideband timeline --to ID"),
        ("transcript ID", "a session is named with --to: sideband transcript --to ID"),
        ("pending http://me:hunter2@h:1", "with --to: sideband pending --to http://HOST:PORT#ID"),
        ("events http://h:1#s", "a running server is named with --to: sideband events --to http://HOST:PORT#ID"),
        ("sessions http://h:1", "a running server is named with --to: sideband sessions --to http://HOST:PORT"),
        ("sessions fix-login", "`sideband sessions` has no place for the argument 'fix-login'"),
        ("pending sqlite:///s.db", "a store is named with --store: sideband pending --store STORE_URL"),
        ("facts ad", "no place for the argument 'ad'; did you mean 'add'?"),
        ("demo --slow", "there is no option --slow; the options are --fast"),
        ("timeline --wdith 80", "there is no option --wdith; did you mean '--width'?"),
        ("events --all --to http://h:1#s", "or --all with --to http://HOST:PORT for every session of a running server"),
    ],
)
def test_a_mistake_is_answered_with_what_to_write(line: str, said: str) -> None:
    answer = run_sideband(*line.split())
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: ")
    assert answer.stderr.endswith(f"{said}\n")
    assert answer.stderr.count("\n") == 1
    assert "hunter2" not in answer.stderr


@pytest.mark.requirement("cli:target:without-scheme")
@pytest.mark.parametrize("to", ["127.0.0.1:8640#s", "localhost:8640", "[::1]:8640/#s"])
def test_a_server_without_its_scheme_is_answered_with_the_address(to: str) -> None:
    for command in (("pending",), ("remind", "x"), ("events", "--follow"), ("watch", "--git")):
        answer = run_sideband(*command, "--to", to)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr == f"error: --to names a server without http://; write --to http://{to}\n"


# Tables


@pytest.mark.requirement("cli:output:columns")
def test_a_table_is_aligned_by_the_columns_of_the_terminal(tmp_path: Path) -> None:
    url, title = f"sqlite:///{tmp_path / 'store.db'}", "見出し" * 70

    async def begin() -> None:
        async with sb.open_store(url) as store:
            for session_id in ("plain", "日本語の名前"):
                session = await store.begin(session_id, attributes={"title": title})
                await session.remind("x")

    asyncio.run(begin())
    heading, *rows, _ = run_sideband("sessions", "--store", url).stdout.splitlines()
    assert {cell_len(row[: row.index("idle")]) for row in rows} == {heading.index("state")}
    assert {cell_len(row[row.index("見出し") :]) for row in rows} == {60}
    assert all(row.endswith(" ...") for row in rows)
    listed = run_sideband("sessions", "--store", url, "--json").stdout.splitlines()
    assert {json.loads(line)["about"] for line in listed} == {title}
    heading, *events = run_sideband("events", "--all", "--store", url).stdout.splitlines()
    assert {cell_len(row[: row.index("reminder.queued")]) for row in events} == {heading.index("kind")}


# explain


@pytest.mark.requirement("cli:explain:prints-the-entry")
@pytest.mark.parametrize("code", ["HARN-RMD-005", "SIDEBAND-101"])
def test_explain_prints_title_cause_remedy_and_example(code: str) -> None:
    entry = DIAGNOSTICS[code]
    answer = run_sideband("explain", code)
    assert (answer.returncode, answer.stderr) == (0, "")
    text = flat(answer.stdout)
    parts = (entry.title, entry.cause, entry.remedy, flat(entry.example.wrong), flat(entry.example.right))
    places = [text.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.requirement("cli:explain:unknown-code")
@pytest.mark.parametrize("code", ["HARN-RMD-999", "HARN-RMD-00", "nonsense", ""])
def test_explain_knows_no_other_codes(code: str) -> None:
    answer = run_sideband("explain", code)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("error: there is no diagnostic")


# lint


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param(FINE, 0, id="nothing", marks=pytest.mark.requirement("cli:lint:exit-0")),
        pytest.param("print('nothing of ours')\n", 0, id="not-ours", marks=pytest.mark.requirement("cli:lint:exit-0")),
        pytest.param(ADVICE, 0, id="advice", marks=pytest.mark.requirement("cli:lint:exit-0")),
        pytest.param(WARNING, 1, id="a-warning", marks=pytest.mark.requirement("cli:lint:exit-1")),
        pytest.param(ERROR, 1, id="an-error", marks=pytest.mark.requirement("cli:lint:exit-1")),
        pytest.param(FINE + ERROR, 1, id="one-error-among-others", marks=pytest.mark.requirement("cli:lint:exit-1")),
    ],
)
def test_lint_ends_with_a_status_that_says_what_it_found(tmp_path: Path, text: str, status: int) -> None:
    (tmp_path / "agent.py").write_text(text, encoding="utf-8")
    answer = run_sideband("lint", ".", cwd=tmp_path)
    assert (answer.returncode, answer.stderr) == (status, "")


@pytest.mark.requirement("cli:lint:exit-2")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(("missing.py",), "missing.py: No such file or directory", id="a-file-that-is-not-there"),
        pytest.param(("notes.txt",), "notes.txt: files of this kind are not checked", id="a-file-of-another-kind"),
        pytest.param(("agent.py", "missing.py"), "missing.py", id="one-of-several"),
        pytest.param(("--select", "HARN-RMD-999", "."), "there is no diagnostic", id="an-unknown-code"),
        pytest.param(("--model", "gpt-5.6", "."), "transport:model", id="a-model-without-a-transport"),
        pytest.param(("--format", "yaml", "."), "yaml", id="an-unknown-format"),
        pytest.param(("--loud", "."), "--loud", id="an-unknown-option"),
    ],
)
def test_lint_ends_with_2_when_it_is_used_wrongly_or_cannot_read(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    (tmp_path / "agent.py").write_text(FINE, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("remind", encoding="utf-8")
    answer = run_sideband("lint", *arguments, cwd=tmp_path)
    assert answer.returncode == 2
    assert complaint in answer.stderr


@pytest.mark.requirement("cli:lint:exit-2")
def test_lint_ends_with_2_when_there_is_nothing_to_look_at(tmp_path: Path) -> None:
    answer = run_sideband("lint", cwd=tmp_path)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "name files or folders" in answer.stderr


# schema


def written(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in files}


@pytest.mark.requirement("cli:schema:writes-the-artifacts")
def test_schema_writes_every_artifact_into_the_folder(tmp_path: Path) -> None:
    out = tmp_path / "a" / "new" / "folder"
    answer = run_sideband("schema", "--out", str(out))
    assert (answer.returncode, answer.stderr) == (0, "")
    assert written(out) == artifacts()


@pytest.mark.requirement("cli:schema:check")
def test_schema_checks_and_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "artifacts"

    def check() -> tuple[int, str]:
        before = written(tmp_path)
        answer = run_sideband("schema", "--out", str(out), "--check")
        assert written(tmp_path) == before
        return answer.returncode, answer.stdout

    status, findings = check()
    assert status == 1
    assert findings.count("missing: ") == len(artifacts())
    run_sideband("schema", "--out", str(out))
    assert check()[0] == 0
    (out / "mcp" / "reminder.schema.json").unlink()
    assert check() == (1, f"missing: {out / 'mcp' / 'reminder.schema.json'}\n")
    run_sideband("schema", "--out", str(out))
    with (out / "acp" / "types.ts").open("a", encoding="utf-8") as file:
        file.write("// one line more\n")
    assert check() == (1, f"differs: {out / 'acp' / 'types.ts'}\n")


# doctor

# What the interpreter runs before anything else: from then on the hidden modules cannot be found.
HIDE_EXTRAS: Final = """
import sys

class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden)
"""


@pytest.mark.requirement("cli:doctor:names-missing-extras")
def test_doctor_says_which_extras_are_there_and_how_to_get_the_others(tmp_path: Path) -> None:
    hidden = {module.partition(".")[0] for modules in EXTRAS.values() for module in modules} - {
        "watchfiles",
        "pathspec",
    }
    (tmp_path / "sitecustomize.py").write_text(HIDE_EXTRAS.format(hidden=hidden), encoding="utf-8")
    (tmp_path / "watchfiles.py").write_text("", encoding="utf-8")
    answer = run_sideband("doctor", env={"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})
    assert (answer.returncode, answer.stderr) == (0, "")
    (section,) = re.findall(r"^extras\n(.*?)\n\n", answer.stdout, re.MULTILINE | re.DOTALL)
    told = dict(line.split(maxsplit=1) for line in section.splitlines())
    assert told == {
        name: "installed" if name == "watch" else f"missing; pip install 'sideband[{name}]'" for name in EXTRAS
    }


@pytest.mark.requirement("cli:doctor:reports-the-limits")
def test_doctor_reports_every_limit_and_its_default() -> None:
    limits = json.loads(run_sideband("doctor", "--json").stdout)["limits"]
    plain = {name: getattr(DEFAULT_LIMITS, name) for name in DEFAULT_LIMITS.__struct_fields__}
    for name, value in plain.items():
        if isinstance(value, int):
            assert limits[name] == value
    for trust, size in DEFAULT_LIMITS.body_bytes.items():
        assert limits[f"body_bytes[{trust.name.lower()}]"] == size
    for trust, most in DEFAULT_LIMITS.pending_per_source.items():
        assert limits[f"pending_per_source[{trust.name.lower()}]"] == most
    for trust, rate in DEFAULT_LIMITS.accept_rate.items():
        assert limits[f"accept_rate[{trust.name.lower()}]"] == {"per_second": rate.per_second, "burst": rate.burst}
    assert {name.partition("[")[0] for name in limits} == plain.keys()
