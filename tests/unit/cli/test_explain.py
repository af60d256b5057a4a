"""`sideband explain`: the catalogue, one entry, and what it says to a code that does not exist."""

import re
import subprocess
import sys

import pytest

from sideband.cli.explain import explain
from sideband.core.diagnostics import DIAGNOSTICS, diagnostic

Captured = pytest.CaptureFixture[str]


def test_without_a_code_all_are_listed(capsys: Captured) -> None:
    assert explain() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(DIAGNOSTICS)]] == [*DIAGNOSTICS]
    assert all(DIAGNOSTICS[line.split()[0]].title in line for line in lines[: len(DIAGNOSTICS)])
    assert lines[-1] == "To explain one of them: sideband explain CODE; or, for an error, its name or reason"


@pytest.mark.parametrize("code", DIAGNOSTICS)
def test_a_code_is_explained_in_full(code: str, capsys: Captured) -> None:
    entry = diagnostic(code)
    assert explain(code.lower()) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{code} ({entry.severity.value}): {entry.title}\n")
    flat = " ".join(text.split())
    for part in (entry.cause, entry.remedy, entry.example.wrong, entry.example.right):
        assert " ".join(part.split()) in flat
    prose = text.split("Instead of")[0]
    assert max(map(len, prose.splitlines())) <= 100


@pytest.mark.parametrize("name", ["SessionBusy", "session_busy", "SIDEBAND-212"])
def test_an_error_is_explained_by_its_name_its_reason_and_its_code(name: str, capsys: Captured) -> None:
    assert explain(name) == 0
    assert capsys.readouterr().out.startswith(
        "SIDEBAND-212 (error): Session that is in use\n  SessionBusy, session_busy\n"
    )


def test_an_unknown_code_is_a_mistake_of_the_caller(capsys: Captured) -> None:
    assert explain("HARN-RMD-04") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.match(r"error: there is no diagnostic 'HARN-RMD-04'; did you mean .*HARN-RMD-004", captured.err)


def test_what_is_asked_never_reaches_the_terminal_as_a_command(capsys: Captured) -> None:
    assert explain("\x1b[31m\udcff") == 2
    assert capsys.readouterr().err.removesuffix("\n").isprintable()


def test_loading_the_command_loads_no_parser() -> None:
    statement = "import sys, sideband.cli.explain; print('sideband.core.diagnostics' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", statement], capture_output=True, check=True)
    assert answer.stdout.strip() == b"False"
