"""The rehearsal on the command line, started as a user starts it."""

import signal
from pathlib import Path

import pytest

from tests.conformance.test_cli_watch import started
from tests.programs import run_sideband


@pytest.mark.requirement("cli:demo:signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with started("demo", env={"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}) as process:
        assert process.stdout is not None
        assert any(line.startswith("-- turn 1 ") for line in process.stdout)
        assert len([*tmp_path.iterdir()]) == 1
        process.send_signal(number)
        _, errors = process.communicate()
    assert (process.returncode, errors) == (128 + number, "")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.requirement("cli:serve:rehearsal-model")
def test_the_server_says_that_a_script_plays_the_rehearsal(tmp_path: Path) -> None:
    unset = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SIDEBAND_MODEL"), "")
    env = {**unset, "XDG_DATA_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    with started("serve", "--rehearsal", "--fast", "--port", "0", "--no-open", env=env) as process:
        assert process.stdout is not None
        said = next(line for line in process.stdout if line.startswith("model:"))
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert said.split(maxsplit=1)[1].startswith("a script, for the rehearsal; ")


@pytest.mark.requirement("cli:demo:narrow")
def test_a_narrow_terminal_shows_keys_and_words_in_full() -> None:
    answer = run_sideband("demo", "--fast", env={"COLUMNS": "40"})
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    assert [line for line in lines if len(line) > 40] == []
    told, receipts = lines[: lines.index("reminder")], lines[lines.index("reminder") :]
    for key in ("build:status", "file_changed:discount.py", "review:report", "editing:test_cart.py", "editor:unsaved"):
        # Once when it was queued, and once with its receipt.
        assert any(line.strip().startswith(key) for line in told)
        assert key in receipts
    assert "  T1 editor, never, dropped (too_large)" in receipts
    # What is cut is cut once.
    assert [line for line in lines if line.count("…") > 1 or "..." in line.removesuffix(" ...")] == []
