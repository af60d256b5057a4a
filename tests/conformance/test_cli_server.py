"""Commands about a session of a running server, started as a user starts them."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sideband.cli.token import TOKEN_VARIABLE
from tests.programs import Answer, run_sideband
from tests.unit.cli.test_server_targets import ESCAPE, FakeServer, Served, _fill, a_stream, an_event, http, in_store
from tests.unit.studio.studio_thread import a_studio_thread

SECONDS: Final = 30.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a session that has run; its home is that of the commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(TOKEN_VARIABLE, raising=False)
        with a_studio_thread(tmp_path_factory.mktemp("served")) as running:
            found = Served(running)
            in_store(found.store, _fill)
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
        ("events",),
        ("events", "--json", "--kind", "transcript.reminder"),
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
    process = subprocess.Popen(
        [sys.executable, "-m", "sideband.cli", "watch", "--files", str(tmp_path), "--json", "--to", served.to],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    with process:
        assert process.stderr is not None
        assert process.stdout is not None
        assert f"watching for session {served.session}" in process.stderr.readline()
        (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
        told = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert (told["session"], told["dedupe_key"]) == (served.session, "file_changed:a.py")
    assert run_sideband("clear", "--id", told["reminder_id"], "--to", served.to).stdout.startswith("cleared 1 ")


@pytest.mark.requirement("cli:http:same-refusals")
@pytest.mark.parametrize(
    "arguments",
    [
        ("remind", "x", "--ttl", "0"),
        ("remind", "x", "--mode", "later"),
        ("remind", " "),
        ("inject", "x", "--mode", "steer"),
        ("revoke", "nothing"),
    ],
    ids=" ".join,
)
def test_a_refusal_has_the_status_and_names_the_option_as_with_the_store(
    served: Served, arguments: tuple[str, ...]
) -> None:
    by_server, by_store = both(served, *arguments)
    assert by_server.returncode == by_store.returncode != 0
    assert by_server.stdout == by_store.stdout == ""
    assert by_server.stderr.split(": ")[:2] == by_store.stderr.split(": ")[:2]


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
    assert "refused the token" in wrong.stderr


@pytest.mark.requirement("cli:http:follow")
def test_following_goes_on_after_the_last_event_when_the_connection_was_lost() -> None:
    session = {"id": "s", "state": "idle", "turn": 0, "live": 0, "queued": 0, "changedAt": 0}
    with FakeServer(
        http("200 OK", json.dumps(session).encode()), a_stream(an_event(1), an_event(2)), a_stream(an_event(3))
    ) as fake:
        arguments = ["events", "--follow", "--json", "--to", f"{fake.url}#s"]
        process = subprocess.Popen(
            [sys.executable, "-m", "sideband.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        with process:
            assert process.stdout is not None
            found = [json.loads(process.stdout.readline())["seq"] for _ in range(3)]
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=SECONDS)
    assert found == [1, 2, 3]
    assert process.returncode == 0
    assert "connecting again" in errors
    assert "Last-Event-ID: 2" in fake.requests[-1]


@pytest.mark.requirement("cli:http:no-control-bytes")
@pytest.mark.parametrize("command", ["pending", "transcript", "timeline", "events"])
def test_no_control_character_of_a_text_reaches_the_terminal(served: Served, command: str) -> None:
    answer = run_sideband(command, "--to", served.to, env={"FORCE_COLOR": ""})
    assert answer.returncode == 0
    assert "\x1b" not in answer.stdout


@pytest.mark.requirement("cli:http:no-control-bytes")
def test_no_control_character_of_an_answer_reaches_the_terminal() -> None:
    fault: dict[str, Any] = {"error": {"reason": "not_found", "message": ESCAPE, "code": ESCAPE}}
    with FakeServer(http("404 Not Found", json.dumps(fault).encode())) as fake:
        answer = run_sideband("pending", "--to", f"{fake.url}#s")
    assert answer.returncode == 2
    assert "\x1b" not in answer.stderr + answer.stdout
