"""A set of files: what is reported of it, what is left out, and what cannot be read."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.core.diagnostics import DIAGNOSTICS, UnknownDiagnostic
from sideband.core.explanation import Severity
from sideband.lint.check import LintFinding, Report, check, check_source
from sideband.lint.files import MAX_BYTES, SUFFIXES
from sideband.lint.rules import UnknownRoute

ENDLESS = 'session.remind("x")\n'


def a_tree(root: Path, **texts: str | bytes) -> Path:
    """A folder with files; `agent_py` is the file `agent.py`."""
    for name, text in texts.items():
        path = root / name.replace("_", ".")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def lines(report: Report) -> list[tuple[str, int, str]]:
    return [(Path(finding.path).name, finding.line, finding.code) for finding in report.findings]


def test_findings_come_in_the_order_of_path_and_place(tmp_path: Path) -> None:
    a_tree(tmp_path, b_py=ENDLESS * 2, a_json='{"body": "x", "ttl_turns": 0, "propagate": "up"}')
    assert lines(check([tmp_path])) == [
        ("a.json", 1, "HARN-RMD-001"),
        ("a.json", 1, "HARN-RMD-005"),
        ("b.py", 1, "HARN-RMD-004"),
        ("b.py", 2, "HARN-RMD-004"),
    ]


def test_a_finding_says_all_there_is_to_say(tmp_path: Path) -> None:
    a_tree(tmp_path, agent_py='\nsession.remind("x", ttl_turns=1, propagate="up")')
    assert check([tmp_path]).findings == (
        LintFinding(
            path=(tmp_path / "agent.py").as_posix(),
            line=2,
            column=34,
            code="HARN-RMD-005",
            severity=Severity.ERROR,
            message="propagate must be 'all', 'session' or 'none', not 'up'",
            key="propagate",
        ),
    )


def test_paths_are_reported_as_they_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_tree(tmp_path, agent_py=ENDLESS)
    monkeypatch.chdir(tmp_path)
    assert check([Path()]).findings[0].path == "agent.py"
    assert check([Path("agent.py")]).findings[0].path == "agent.py"
    assert check([tmp_path]).findings[0].path == (tmp_path / "agent.py").as_posix()


def test_files_are_counted_whether_or_not_they_speak_of_us(tmp_path: Path) -> None:
    a_tree(tmp_path, a_py="x = 1", b_json="{}", c_toml="", d_py=ENDLESS)
    report = check([tmp_path])
    assert (report.files, report.count(Severity.WARNING), report.count(Severity.ERROR)) == (4, 1, 0)


# Providers of all files together.


def test_providers_are_counted_over_all_files(tmp_path: Path) -> None:
    registrations = [f"register_reminder_provider(id='own{number}')\n" for number in range(9)]
    a_tree(tmp_path, a_py="".join(registrations[:5]), b_py="\n" + "".join(registrations[5:]))
    assert lines(check([tmp_path])) == [("b.py", 5, "HARN-RMD-007")]
    assert lines(check([tmp_path / "a.py"])) == []


def test_a_choice_in_one_file_speaks_of_what_another_registers(tmp_path: Path) -> None:
    registrations = "".join(f"register_reminder_provider(id='own{number}')\n" for number in range(9))
    a_tree(tmp_path, a_py=registrations, loop_toml='[reminders]\nproviders = ["-own8", "-idle_nudge"]\n')
    assert lines(check([tmp_path])) == []
    a_tree(tmp_path, loop_toml='[reminders]\nproviders = ["-own8", "more"]\n')
    assert lines(check([tmp_path])) == [("loop.toml", 2, "HARN-RMD-007")]


def test_a_comment_silences_too_many_providers(tmp_path: Path) -> None:
    registrations = "".join(f"register_reminder_provider(id='own{number}')\n" for number in range(8))
    a_tree(tmp_path, a_py=f"{registrations}register_reminder_provider(id='own8')  # sideband: ignore[007]\n")
    assert lines(check([tmp_path])) == []


# What is wanted.


def test_only_selected_codes_are_reported(tmp_path: Path) -> None:
    a_tree(tmp_path, a_py='session.remind("", propagate="up")')
    assert [code for _, _, code in lines(check([tmp_path], select=["5", "rmd-004"]))] == [
        "HARN-RMD-004",
        "HARN-RMD-005",
    ]
    assert [code for _, _, code in lines(check([tmp_path], ignore=["HARN-RMD-001"]))] == [
        "HARN-RMD-004",
        "HARN-RMD-005",
    ]
    assert lines(check([tmp_path], select=["004"], ignore=["004"])) == []


def test_an_unknown_code_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UnknownDiagnostic):
        check([tmp_path / "missing"], select=["nonsense"])
    with pytest.raises(UnknownDiagnostic):
        check([tmp_path / "missing"], ignore=["nonsense"])


def test_the_model_that_is_asked_for_takes_the_place_of_those_in_the_files(tmp_path: Path) -> None:
    a_tree(tmp_path, a_py='session.remind("x", ttl_turns=1, role_hint="user_block")\nloop(model="anthropic:claude")')
    assert lines(check([tmp_path])) == []
    assert lines(check([tmp_path], model="openai:gpt-5.6")) == [("a.py", 1, "HARN-RMD-003")]
    a_tree(tmp_path, a_py='session.remind("x", ttl_turns=1, role_hint="user_block")\nloop(model="openai:gpt-5.6")')
    assert lines(check([tmp_path], model="anthropic:claude")) == []


def test_a_model_without_a_transport_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownRoute, match=r"transport:model, not 'gpt-5\.6'"):
        check([tmp_path], model="gpt-5.6")


# What cannot be read.


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        pytest.param("a.py", b"session.remind(\n", (1, 15), id="python"),
        pytest.param("a.json", b'{"reminder": \n}', (2, 1), id="json"),
        pytest.param("a.toml", b"[reminder]\nbody = \n", (2, 8), id="toml"),
        pytest.param("a.jsonl", b'{}\n{"reminder"}\n', (2, 12), id="lines-of-json"),
        pytest.param("a.json", b'{\n"reminder": "\xff"}', (2, 14), id="not-utf-8"),
        pytest.param("a.toml", b"\xef\xbb\xbfreminder = '\xff'", (1, 13), id="not-utf-8-after-a-mark"),
    ],
)
def test_a_broken_file_that_speaks_of_reminders_is_reported(
    tmp_path: Path, name: str, text: bytes, place: tuple[int, int]
) -> None:
    (tmp_path / name).write_bytes(text)
    (finding,) = check([tmp_path]).findings
    assert (finding.code, finding.severity, finding.line, finding.column) == ("SIDEBAND-100", Severity.ERROR, *place)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(
            "tsconfig.json", b'{\n  // comments are allowed here\n  "compilerOptions": {}\n}', id="with-comments"
        ),
        pytest.param("terraform.json", b'{"providers": ["aws",]}', id="with-a-word-that-others-use-too"),
        pytest.param("old.py", b"print 'providers'", id="of-an-older-python"),
        pytest.param("image.json", b"\x89PNG\r\n\x1a\n\x00\xff", id="binary"),
    ],
)
def test_a_broken_file_is_ignored_unless_it_was_named(tmp_path: Path, name: str, text: bytes) -> None:
    (tmp_path / name).write_bytes(text)
    assert lines(check([tmp_path])) == []
    assert [code for _, _, code in lines(check([tmp_path / name]))] == ["SIDEBAND-100"]


def test_a_file_that_is_too_large_is_passed_over_unless_it_was_named(tmp_path: Path) -> None:
    a_tree(tmp_path, log_jsonl=b'{"reminder": 1}\n' * (MAX_BYTES // 16 + 1))
    found = check([tmp_path])
    assert (lines(found), found.too_large) == ([], ((tmp_path / "log.jsonl").as_posix(),))
    named = check([tmp_path / "log.jsonl"])
    assert (lines(named), named.too_large) == ([("log.jsonl", 1, "SIDEBAND-100")], ())


def test_what_cannot_be_opened_is_listed_and_the_rest_is_checked(tmp_path: Path) -> None:
    a_tree(tmp_path, agent_py=ENDLESS)
    report = check([tmp_path / "missing.py", tmp_path])
    assert report.unreadable == (f"{tmp_path / 'missing.py'}: No such file or directory",)
    assert lines(report) == [("agent.py", 1, "HARN-RMD-004")]


def test_a_file_that_vanishes_in_between_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_tree(tmp_path, agent_py=ENDLESS)

    def vanish(path: str) -> str:
        Path(path).unlink()
        return path

    monkeypatch.setattr(os.path, "realpath", vanish)
    report = check([tmp_path])
    assert (report.files, report.unreadable) == (0, (f"{tmp_path / 'agent.py'}: No such file or directory",))


@given(st.binary(), st.sampled_from(SUFFIXES))
def test_no_content_is_too_strange_for_any_kind_of_file(raw: bytes, suffix: str) -> None:
    for finding in check_source(raw, Path(f"file{suffix}")):
        assert finding.code in DIAGNOSTICS
        assert finding.line >= 1
        assert finding.column >= 1


NESTED = ("[", "{", '{"a":', "(", "a=[", "{a=", "[[", "lambda:", "-", "not ", "f'{", '"', "'''")


@given(st.sampled_from(NESTED), st.integers(1, 3000), st.sampled_from(SUFFIXES))
def test_no_depth_is_too_great_for_any_kind_of_file(piece: str, times: int, suffix: str) -> None:
    check_source((piece * times).encode(), Path(f"file{suffix}"))
    check_source(f"x = {piece * times}".encode(), Path(f"file{suffix}"))
