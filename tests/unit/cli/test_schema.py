"""`sideband schema`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sideband.cli.schema import schema
from sideband.protocols.artifacts import MARKER, artifacts, summaries


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A directory with fresh artifacts."""
    out = tmp_path / "spec" / "artifacts"
    assert schema(out=out) == 0
    capsys.readouterr()
    return out


def test_without_arguments_every_artifact_is_listed_with_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema() == 0
    listing, _, hint = capsys.readouterr().out.partition("\n\n")
    assert [line.split()[0] for line in listing.splitlines()] == list(summaries())
    assert "notifications/reminder: a server adds a reminder" in listing
    assert "--out" in hint


def test_a_protocol_lists_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema("mcp") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [path for path in summaries() if path.startswith("mcp/")]


@pytest.mark.parametrize("name", ["mcp/reminder", "mcp/reminder.schema.json"])
def test_a_schema_is_printed_by_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert schema(name) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "ReminderNotification"


def test_what_is_printed_is_what_would_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema("acp/types.ts") == 0
    assert capsys.readouterr().out == artifacts()["acp/types.ts"]


def test_a_name_nearly_right_is_answered_with_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema("acp/inject_remindr") == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "did you mean 'acp/inject_reminder'?" in output.err


def test_a_name_like_no_other_is_answered_with_how_to_find_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema("q") == 2
    assert "`sideband schema` lists them" in capsys.readouterr().err


def test_everything_is_written_in_directories_that_need_not_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a" / "b"
    assert schema(out=out) == 0
    assert contents(out) == artifacts()
    count = len(artifacts())
    assert capsys.readouterr().out == f"{count} artifacts in {out}: {count} written, 0 unchanged, 0 removed\n"


def test_line_ends_are_the_same_everywhere(written: Path) -> None:
    assert not [path for path in written.rglob("*.*") if b"\r" in path.read_bytes()]


def test_only_what_differs_is_written(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (written / "mcp/types.ts").write_text(f"// {MARKER}\nold\n", encoding="utf-8")
    before = (written / "README.md").stat().st_mtime_ns
    assert schema(out=written) == 0
    assert (written / "README.md").stat().st_mtime_ns == before
    assert contents(written) == artifacts()
    assert f"1 written, {len(artifacts()) - 1} unchanged, 0 removed" in capsys.readouterr().out


def test_artifacts_of_former_times_are_removed(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = written / "acp" / "forgotten.schema.json"
    stale.write_text(f'{{"$comment": "{MARKER}"}}\n', encoding="utf-8")
    assert schema(out=written) == 0
    assert not stale.exists()
    assert "1 removed" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["acp/notes.schema.json", "NOTES.md", "acp/deep/er/x.ts", "mine.txt"])
def test_files_that_were_not_generated_stay(written: Path, name: str) -> None:
    mine = written / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("my own words\n", encoding="utf-8")
    assert schema(out=written) == 0
    assert schema(out=written, check=True) == 0
    assert mine.read_text(encoding="utf-8") == "my own words\n"


def test_a_file_that_was_not_generated_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("# My project\n", encoding="utf-8")
    assert schema(out=tmp_path) == 1
    assert contents(tmp_path) == {"README.md": "# My project\n"}
    assert f"not generated: {tmp_path / 'README.md'}" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    assert schema(out=blocked) == 1
    assert str(blocked) in capsys.readouterr().err


def test_fresh_artifacts_pass_the_check(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert schema(out=written, check=True) == 0
    assert "up to date" in capsys.readouterr().out


def test_the_check_names_every_file_that_is_not_as_generated_and_changes_none(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (written / "mcp/reminder.schema.json").unlink()
    (written / "acp/types.ts").write_text(f"// {MARKER}\n", encoding="utf-8")
    (written / "a2a/gone.ts").write_text(f"// {MARKER}\n", encoding="utf-8")
    before = contents(written)
    assert schema(out=written, check=True) == 1
    output = capsys.readouterr()
    assert set(output.out.splitlines()) == {
        f"missing: {written / 'mcp/reminder.schema.json'}",
        f"differs: {written / 'acp/types.ts'}",
        f"stale: {written / 'a2a/gone.ts'}",
    }
    assert "3" in output.err
    assert contents(written) == before


@pytest.mark.parametrize(
    ("name", "out", "check"),
    [
        pytest.param(None, None, True, id="a-check-of-nothing"),
        pytest.param("mcp/reminder", Path("x"), False, id="one-artifact-and-all-of-them"),
        pytest.param("mcp/reminder", None, True, id="a-check-of-one"),
    ],
)
def test_arguments_that_make_no_sense_together_are_refused(
    name: str | None, out: Path | None, *, check: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert schema(name, out=out, check=check) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")


def test_the_command_is_light_to_import() -> None:
    script = "import sys, sideband.cli.schema; print('sideband.protocols.artifacts' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"
