"""Commands about a session of a running server, started as a user starts them."""

import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from sideband.cli.token import TOKEN_VARIABLE
from tests.conformance.test_cli_watch import started
from tests.programs import Answer, run_sideband
from tests.unit.cli.test_server_targets import ESCAPE, FakeServer, Served, a_stream, an_event, fill, http, in_store
from tests.unit.studio.studio_thread import a_studio_thread

SESSION: Final = {"id": "s", "state": "idle", "turn": 0, "live": 0, "queued": 0, "changedAt": 0}
FOUND: Final = http("200 OK", json.dumps(SESSION).encode())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a session that has run; its home is that of the commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(TOKEN_VARIABLE, raising=False)
        with a_studio_thread(tmp_path_factory.mktemp("served")) as running:
            found = Served(running)
            in_store(found.store, fill)
            yield found


def both(served: Served, *arguments: str) -> tuple[Answer, Answer]:
    """A command about the session: by its server, and by its store."""
    return (
        run_sideband(*arguments, "--to", served.to),
        run_sideband(*arguments, "--to", f"{served.store}#{served.session}"),
    )


@pytest.mark.requirement("cli:http:same-answers")
@pytest.mark.requirement("cli:http:every-command")
@pytest.mark.parametrize(
    "arguments",
    [
        ("pending",),
        ("pending", "--json"),
        ("transcript",),
        ("transcript", "--json"),
        ("timeline", "--width", "100"),
        ("timeline", "--json"),
        ("timeline", "--json", "--turns", "1"),
        ("events",),
        ("events", "--json", "--kind", "transcript.reminder.fired", "--after", "3"),
        ("facts", "--json"),
    ],
    ids=" ".join,
)
def test_a_session_of_a_server_reads_as_that_of_its_store(served: Served, arguments: tuple[str, ...]) -> None:
    by_server, by_store = both(served, *arguments)
    assert (by_server.returncode, by_server.stdout, by_server.stderr) == (0, by_store.stdout, "")
    assert by_server.stdout


@pytest.mark.requirement("cli:http:every-command")
def test_a_session_of_a_server_is_told_things_and_the_server_lists_its_sessions_and_facts(served: Served) -> None:
    reminded = json.loads(run_sideband("remind", "Red.", "--key", "build", "--to", served.to, "--json").stdout)
    assert reminded["session"] == served.session
    sent = run_sideband("inject", "On record.", "--mode", "audit_only", "--to", served.to, "--json").stdout
    message = json.loads(sent)["message_id"]
    rows = json.loads(run_sideband("pending", "--to", served.to, "--json").stdout)["pending"]
    assert {reminded["reminder_id"], message} <= {row["id"] for row in rows}
    assert json.loads(run_sideband("revoke", message, "--to", served.to, "--json").stdout)["status"] == "revoked"
    cleared = run_sideband("clear", "--key", "build", "--to", served.to, "--json").stdout
    assert json.loads(cleared)["removed_count"] == 1
    listed = run_sideband("sessions", "--to", served.url, "--json").stdout.splitlines()
    assert served.session in {json.loads(line)["session"] for line in listed}
    fact = json.loads(run_sideband("facts", "add", "decision", "Cut on Tuesdays.", "--to", served.url, "--json").stdout)
    assert fact["id"] in run_sideband("facts", "--to", served.url).stdout
    assert run_sideband("facts", "remove", fact["id"], "--to", served.url).returncode == 0
    every = run_sideband("events", "--all", "--to", served.url, "--json").stdout
    assert every == run_sideband("events", "--all", "--store", served.store, "--json").stdout


@pytest.mark.requirement("cli:http:every-command")
def test_changes_are_watched_for_a_session_of_a_server(served: Served, tmp_path: Path) -> None:
    with started("watch", "--files", str(tmp_path), "--json", "--to", served.to) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert f"watching for session {served.session}" in process.stderr.readline()
        (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
        told = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 0
    assert (told["session"], told["dedupe_key"]) == (served.session, "file_changed:a.py")
    assert run_sideband("clear", "--id", told["reminder_id"], "--to", served.to).stdout.startswith("cleared 1 ")


@pytest.mark.requirement("cli:http:same-refusals")
@pytest.mark.parametrize(
    "arguments",
    [
        ("remind", "x", "--ttl", "0"),
        ("remind", "x", "--mode", "later"),
        ("remind", "x", "--propagate", "far"),
        ("remind", "x", "--id", "no spaces"),
        ("remind", "x", "--key", "\a"),
        ("remind", " "),
        ("remind", "x" * 40_000),
        ("inject", "x", "--mode", "steer"),
        ("inject", "x", "--mode", "now"),
        ("revoke", "nothing"),
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_a_refusal_of_a_server_is_that_of_its_store(served: Served, arguments: tuple[str, ...]) -> None:
    by_server, by_store = both(served, *arguments)
    assert by_server.returncode == by_store.returncode != 0
    assert by_server.stdout == by_store.stdout == ""
    # A client has its own code for a wrong payload.
    assert by_server.stderr.replace("HARN-RMD-002", "HARN-RMD-001") == by_store.stderr


@pytest.mark.requirement("cli:http:which-session")
def test_several_open_sessions_and_an_unknown_one_are_errors_that_list_sessions(served: Served) -> None:
    several = run_sideband("pending", "--to", served.url)
    assert several.returncode == 2
    assert several.stderr.startswith(f"error: several sessions are open at {served.url}; choose one with --to ")
    assert served.session in several.stderr
    unknown = run_sideband("remind", "x", "--to", f"{served.url}#fix-lgoin")
    assert unknown.returncode == 2
    assert "similar ids are:\n  fix-login" in unknown.stderr


@pytest.mark.requirement("cli:http:which-session")
def test_the_only_open_session_of_a_server_is_meant(tmp_path: Path) -> None:
    with a_studio_thread(tmp_path) as running:
        answer = run_sideband("remind", "x", "--to", f"http://127.0.0.1:{running.port}", "--json")
        assert json.loads(answer.stdout)["session"] == running.session


@pytest.mark.requirement("cli:http:token")
def test_the_token_is_that_of_the_environment_or_the_operators_own(served: Served, tmp_path: Path) -> None:
    stranger = {"XDG_DATA_HOME": str(tmp_path)}
    assert run_sideband("pending", "--to", served.to).returncode == 0
    refused = run_sideband("pending", "--to", served.to, env=stranger)
    assert refused.returncode == 2
    assert f"set ${TOKEN_VARIABLE} to the token" in refused.stderr
    given = {**stranger, TOKEN_VARIABLE: served.running.token}
    assert run_sideband("pending", "--to", served.to, env=given).returncode == 0


@pytest.mark.requirement("cli:http:token")
def test_another_machine_does_not_get_the_operators_token(served: Served) -> None:
    from sideband.cli.token import token_for  # noqa: PLC0415 - what the commands use

    assert token_for(served.url) == served.running.token
    assert token_for("http://192.0.2.7:8640") is None
    assert token_for("http://localhost.example.org:8640") is None


@pytest.mark.requirement("cli:http:unreachable")
def test_what_is_no_running_server_is_an_error_that_says_what_to_do(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    nothing = run_sideband("remind", "x", "--to", f"{url}#s")
    assert (nothing.returncode, nothing.stdout) == (2, "")
    assert "start one with `sideband serve`" in nothing.stderr
    with FakeServer(http("200 OK", b"<html>", "text/html")) as other:
        another = run_sideband("remind", "x", "--to", f"{other.url}#s")
    assert another.returncode == 2
    assert "is not `sideband serve`" in another.stderr
    wrong = run_sideband("remind", "x", "--to", served.to, env={TOKEN_VARIABLE: "wrong"})
    assert wrong.returncode == 2
    assert f"refused the token in ${TOKEN_VARIABLE}; correct it, or unset it" in wrong.stderr


@pytest.mark.requirement("cli:http:unknown-outcome")
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(b"", id="closed"),
        pytest.param(None, id="reset"),
        pytest.param(http("200 OK", b'{"reminderId"', "application/json", "Content-Length: 90"), id="in-the-answer"),
    ],
)
def test_a_request_whose_answer_is_lost_may_have_been_accepted(end: bytes | None) -> None:
    for arguments, answers, shown_by in (
        (("remind", "x"), (FOUND, end), "sideband pending"),
        (("facts", "add", "decision", "x"), (end,), "sideband facts"),
        (("facts", "remove", "x"), (end,), "sideband facts"),
    ):
        with FakeServer(*answers) as fake:
            answer = run_sideband(*arguments, "--to", f"{fake.url}#s")
        assert (answer.returncode, answer.stdout) == (2, "")
        assert "It is not known whether the request was accepted; " in answer.stderr
        assert f"`{shown_by}` with the same --to shows it" in answer.stderr


@pytest.mark.requirement("cli:http:not-text")
@pytest.mark.parametrize(
    "arguments",
    [
        ("remind", "{}"),
        ("remind", "x", "--key", "{}"),
        ("inject", "{}"),
        ("clear", "--key", "{}"),
        ("revoke", "{}"),
        ("facts", "add", "decision", "{}"),
        ("facts", "--query", "{}"),
        ("pending",),
    ],
    ids=" ".join,
)
def test_an_argument_that_is_not_utf_8_is_refused(served: Served, arguments: tuple[str, ...]) -> None:
    # Python reads the byte 0xFF of an argument as this character, and writes it as that byte.
    to = served.to if "{}" in arguments else f"{served.url}#\udcff"
    answer = run_sideband(*(argument.format("\udcff") for argument in arguments), "--to", to)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "error: '\\udcff' is not text in UTF-8; write the argument in UTF-8\n"


@pytest.mark.requirement("cli:events:export-spares-stores")
@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_an_export_does_not_replace_a_store(served: Served, tmp_path: Path, suffix: str) -> None:
    store = Path(shutil.copy(served.running.folder / "store.db", tmp_path))
    before = store.read_bytes()
    for source in (("--to", served.url), ("--store", f"sqlite:///{store}")):
        answer = run_sideband("events", "--all", *source, "--export", f"{store}{suffix}")
        assert (answer.returncode, answer.stdout) == (2, "")
        assert "belongs to a store; export to another file" in answer.stderr
    assert store.read_bytes() == before


@pytest.mark.requirement("cli:open:printed-link")
def test_a_page_is_opened_by_the_address_or_by_the_printed_link(served: Served) -> None:
    for url in (served.url, f"{served.url}/", f"{served.url}/#login=used"):
        answer = run_sideband("open", url, "--print")
        assert (answer.returncode, answer.stderr) == (0, "")
        link, _, code = answer.stdout.strip().partition("#login=")
        assert link.rstrip("/") == served.url
        assert code not in ("", "used")
    for wrong in ("127.0.0.1:8640", "http://me:hunter2@127.0.0.1:8640", f"{served.url}?x=1"):
        answer = run_sideband("open", wrong)
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr.startswith("error: URL must have an address like http://HOST:PORT, with no query")
        assert "hunter2" not in answer.stderr


@pytest.mark.requirement("cli:http:follow")
def test_following_goes_on_after_the_last_event_when_the_connection_was_lost() -> None:
    with (
        FakeServer(FOUND, a_stream(an_event(1), an_event(2)), None, a_stream(an_event(3))) as fake,
        started("events", "--follow", "--json", "--to", f"{fake.url}#s") as process,
    ):
        assert process.stdout is not None
        found = [json.loads(process.stdout.readline())["seq"] for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert found == [1, 2, 3]
    assert process.returncode == 0
    assert errors.splitlines()[:2] == [
        f"lost {fake.url} (it ended the stream); trying again",
        f"connected to {fake.url} again",
    ]
    assert "Last-Event-ID: 2" in fake.requests[-1]


def in_terminal(*arguments: str) -> str:
    """What a command prints on a terminal that knows no colours."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sideband.cli", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb", "PYTHONUTF8": "1"},
    )
    os.close(theirs)
    printed = b""
    with process, os.fdopen(ours, "rb", buffering=0) as terminal, suppress(OSError):
        # Linux reports the end of a terminal as an error.
        while part := terminal.read(65_536):
            printed += part
    assert process.returncode == 0
    return printed.decode().replace("\r\n", "\n")


def texts(value: object) -> Iterator[str]:
    """Every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts(part)


@pytest.mark.requirement("cli:output:no-control-characters")
@pytest.mark.parametrize("command", ["pending", "transcript", "timeline", "events", "sessions"])
def test_no_control_character_of_a_text_reaches_the_terminal(served: Served, command: str) -> None:
    by_server = ("--to", served.url if command == "sessions" else served.to)
    by_store = ("--store", served.store) if command == "sessions" else ("--to", f"{served.store}#{served.session}")
    for target in (by_server, by_store):
        for options in ((), ("--json",)):
            printed = in_terminal(command, *target, *options)
            assert [char for char in {*printed} if char != "\n" and not char.isprintable()] == []
            if options and command != "events":
                assert any(ESCAPE in text for line in printed.splitlines() for text in texts(json.loads(line)))


@pytest.mark.requirement("cli:http:no-control-bytes")
def test_no_control_character_of_an_answer_reaches_the_terminal() -> None:
    fault: dict[str, Any] = {"error": {"reason": "not_found", "message": ESCAPE, "code": ESCAPE}}
    with FakeServer(http("404 Not Found", json.dumps(fault).encode())) as fake:
        answer = run_sideband("pending", "--to", f"{fake.url}#s")
    assert answer.returncode == 2
    assert "\x1b" not in answer.stderr + answer.stdout
