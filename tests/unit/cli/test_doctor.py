"""`sideband doctor`: what it looks at, and when it finds something wrong."""

import json
import platform
import sys
import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw
import pytest

from sideband import __version__
from sideband.cli.doctor import EXTRAS, LIBRARIES, SUPPORTED_PYTHON, doctor
from sideband.core.limits import DEFAULT_LIMITS
from tests.programs import ROOT

Captured = pytest.CaptureFixture[str]
TOP_LEVEL = {module.partition(".")[0] for modules in EXTRAS.values() for module in modules}


class Hidden:
    """Makes the modules of every extra absent, whether or not they are installed."""

    def find_spec(self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None) -> None:
        if name.partition(".")[0] in TOP_LEVEL:
            raise ModuleNotFoundError(name)


@pytest.fixture
def _without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in TOP_LEVEL]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Hidden(), *sys.meta_path])


def report(capsys: Captured) -> dict[str, Any]:
    """What the check reports as JSON."""
    doctor(json=True)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def problems(capsys: Captured) -> list[str]:
    """The names of what is not in order; the status says whether there is any."""
    status = doctor(json=True)
    named = [entry["name"] for entry in json.loads(capsys.readouterr().out)["problems"]]
    assert status == (1 if named else 0)
    return named


def test_an_installation_in_order_is_reported_group_by_group(capsys: Captured) -> None:
    assert doctor() == 0
    text = capsys.readouterr().out
    headings = [line.partition(" (")[0] for line in text.splitlines() if line and not line.startswith(" ")]
    assert headings == ["versions", "sqlite", "extras", "limits", "No problems found."]


def test_the_versions_are_those_that_run(capsys: Captured) -> None:
    assert report(capsys)["versions"] == {
        "sideband": __version__,
        "python": platform.python_version(),
        **{library: metadata.version(library) for library in LIBRARIES},
    }


def test_the_libraries_and_extras_are_those_that_the_project_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {text.split(">")[0] for text in project["dependencies"]} == {*LIBRARIES}
    assert project["optional-dependencies"].keys() == {*EXTRAS, "all"}
    assert project["requires-python"] == ">=" + ".".join(map(str, SUPPORTED_PYTHON))


@pytest.mark.usefixtures("_without_extras")
def test_a_missing_extra_is_named_with_its_command_and_is_no_problem(capsys: Captured) -> None:
    assert report(capsys)["extras"] == {name: f"missing; pip install 'sideband[{name}]'" for name in EXTRAS}
    assert problems(capsys) == []


@pytest.mark.usefixtures("_without_extras")
def test_an_extra_is_installed_when_all_its_modules_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if not isinstance(finder, Hidden)])
    for name in ("watchfiles", "starlette", "uvicorn", "psycopg"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('never imported')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    extras = report(capsys)["extras"]
    assert (extras["watch"], extras["postgres"]) == ("installed", "installed")


@pytest.mark.usefixtures("_without_extras")
def test_an_extra_of_which_a_module_is_missing_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", platform)
    assert report(capsys)["extras"]["serve"] == "missing; pip install 'sideband[serve]'"


def test_every_limit_is_reported_with_its_default(capsys: Captured) -> None:
    limits = report(capsys)["limits"]
    assert {name.partition("[")[0] for name in limits} == {*DEFAULT_LIMITS.__struct_fields__}
    assert limits["pending_per_session"] == DEFAULT_LIMITS.pending_per_session
    for trust, size in DEFAULT_LIMITS.body_bytes.items():
        assert limits[f"body_bytes[{trust.name.lower()}]"] == size
    for trust, rate in DEFAULT_LIMITS.accept_rate.items():
        assert limits[f"accept_rate[{trust.name.lower()}]"] == {"per_second": rate.per_second, "burst": rate.burst}


def test_people_get_numbers_and_rates_that_can_be_read(capsys: Captured) -> None:
    doctor()
    text = capsys.readouterr().out
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith("  ")}
    assert "limits (defaults; change them with open_store(..., limits=Limits(...)))" in text.splitlines()
    assert lines["frame_bytes"].endswith("  1,048,576")
    assert lines["accept_rate[peer]"].endswith("  0.1 per second, bursts of 4")


def test_an_sqlite_that_can_corrupt_a_file_is_a_problem(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    assert doctor() == 1
    text = capsys.readouterr().out
    assert "write-ahead log" in text
    assert text.splitlines()[-2:] == [
        "! SQLite (through apsw): this SQLite can corrupt a database in WAL mode; upgrade apsw to 3.51.3 or newer",
        "1 problem found.",
    ]


@pytest.mark.parametrize(("version", "safe"), [("3.51.3", True), ("3.52.0", True), ("3.9.9", False), ("3.40.1", False)])
def test_the_versions_of_sqlite_are_compared_as_numbers(
    version: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured, *, safe: bool
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    assert problems(capsys) == ([] if safe else ["SQLite (through apsw)"])


def test_a_library_that_is_not_installed_is_a_problem(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def nothing_is_installed(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing_is_installed)
    assert problems(capsys) == [*LIBRARIES]


def test_without_apsw_there_is_no_sqlite_to_report(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(sys.modules, "apsw", None)
    assert "sqlite" not in report(capsys)


def test_a_python_that_is_too_old_is_a_problem(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version_info", (3, 10, 14))
        assert problems(capsys) == ["python"]
