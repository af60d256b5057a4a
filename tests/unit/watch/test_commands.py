"""Commands: their names and options, the bounds of what is told, and which files count as their output."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.errors import InvalidOption
from sideband.watch import text
from sideband.watch.commands import CommandWatcher, default_name
from sideband.watch.reruns import OUTPUT_RUNS, SUSPECTED_RUNS, Outputs


@given(st.lists(st.text(), max_size=6))
def test_bodies_are_bounded_and_printable_whatever_is_in_them(parts: Sequence[str]) -> None:
    output = "\n".join(parts) * 40
    body = text.body(text.name(output), *text.failing_lines(output))
    assert len(body.encode()) <= text.MAX_BODY_BYTES
    assert body.replace("\n", "").isprintable()


def test_a_file_is_taken_as_output_only_if_it_changes_in_run_after_run() -> None:
    outputs = Outputs()
    delays = []
    for _ in range(OUTPUT_RUNS):
        outputs.begin(completed=True)
        delays.append(outputs.changed({"out"}, during_run=True))
    assert delays == [0, 0, 1, 2, 4, 8, 16, None]
    assert outputs.changed({"out", "other"}, during_run=True) == 0
    assert outputs.paths() == ("out",)
    # A change while nothing runs is that of another program.
    assert outputs.changed({"out"}, during_run=False) == 0
    assert outputs.paths() == ()


def test_a_file_that_a_complete_run_does_not_change_is_not_its_output() -> None:
    outputs = Outputs()
    for _ in range(SUSPECTED_RUNS):
        outputs.begin(completed=False)
        outputs.changed({"out"}, during_run=True)
    for completed, paths in ((True, ("out",)), (False, ("out",)), (True, ())):
        outputs.begin(completed=completed)
        assert outputs.paths() == paths


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cargo check", "cargo-check"),
        ("make", "make"),
        ("/usr/bin/make -j 4", "make-4"),
        ("npm run build", "npm-run"),
        ("pytest tests/unit", "pytest-tests-unit"),
        ("./größe", "gr-e"),
    ],
)
def test_the_default_name_is_the_program_and_its_first_argument(command: str, name: str) -> None:
    assert default_name(command.split()) == name


def test_a_script_for_a_shell_is_not_part_of_the_name() -> None:
    assert default_name(["sh", "-c", "exit 1"]) == "sh"


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        pytest.param([], {}, "command must be a program and its arguments", id="no-command"),
        pytest.param("make", {}, "command must be a program and its arguments", id="a-string"),
        pytest.param(["make"], {"name": "a b"}, "name must have 1 to 64 letters", id="a-name-with-a-space"),
        pytest.param(["make"], {"timeout_seconds": 0}, "timeout_seconds must be a number above 0", id="no-time"),
        pytest.param(["make"], {"watch": Path("missing")}, "watch must be a directory", id="a-missing-directory"),
    ],
)
def test_a_wrong_option_is_refused(command: Any, options: dict[str, Any], said: str) -> None:  # noqa: ANN401 - wrong types too
    with pytest.raises(InvalidOption, match=said):
        CommandWatcher(command, **options)
