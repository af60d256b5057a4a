"""Rules of the repository as a whole that nothing else would notice being broken."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[2]
EXTRAS: Final = frozenset({"a2a", "mcp", "serve", "models", "postgres", "watch", "all"})

# Names that examples use for nobody in particular.
ANYBODY: Final = r"(?:user|you|me|alice|bob|dev)\b"
FOREIGN_PATHS: Final = (
    pytest.param(rf"/(?:home|Users)/(?!{ANYBODY})\w", id="a-home-directory"),
    pytest.param(r"(?<![\w./-])/root/\w", id="the-home-of-root"),
    pytest.param(r"(?<![\w./-])/work/\w", id="a-working-directory"),
    pytest.param(r"\.\./shared\b", id="a-folder-beside-the-repository"),
)

# What `import sideband` may cost is decided here: no SDK's models, no terminal, no event loop, no second SQLite.
HEAVY: Final = frozenset({"pydantic", "rich", "cyclopts", "asyncio", "anyio", "sqlite3"})

LOADED_BY: Final = """
import sys
before = set(sys.modules)
{statements}
print(*sorted(name.partition(".")[0] for name in set(sys.modules) - before))
"""
# Optional imports of msgspec itself would blur what our modules load, so everything but msgspec is made absent.
ONLY_MSGSPEC_INSTALLED: Final = """
import sys
class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] not in {"sideband", "msgspec", *sys.stdlib_module_names}:
            raise ModuleNotFoundError(f"{name} is not part of the base of the library")
sys.meta_path.insert(0, Absent)
"""
EVERY_PURE_MODULE: Final = """
import importlib, pkgutil
for name in ("sideband.core", "sideband.recall", "sideband.render", "sideband.providers"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
"""


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def texts() -> Iterator[tuple[str, str]]:
    """Every text file that is checked in or about to be, with its path."""
    # The checkout may belong to another user than the one who tests it.
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in sorted(listing.stdout.decode("utf-8").split("\0")):
        path = ROOT / name
        if path.is_file():
            try:
                yield name, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def locked() -> Mapping[str, str]:
    """Each requirement of the lock file, by its first line, with all that follows it."""
    text = (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    return {entry.partition(" \\\n")[0]: entry for entry in entries}


def declared() -> Iterator[Requirement]:
    """Every requirement that the lock file is made from."""
    project = pyproject()
    groups = project["dependency-groups"]
    pending = [*project["project"]["dependencies"], *groups["dev"]]
    while pending:
        match pending.pop():
            case {"include-group": str(group)}:
                pending.extend(groups[group])
            case str(requirement):
                yield Requirement(requirement)


def run_make(target: str) -> str:
    # A make that runs these tests would otherwise hand its own flags to the one inside.
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}
    answer = subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return answer.stdout


def loaded_by(statements: str) -> set[str]:
    """The top-level modules that a new interpreter loads for these statements."""
    answer = subprocess.run(
        [sys.executable, "-c", LOADED_BY.format(statements=statements)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return set(answer.stdout.split())


@pytest.mark.parametrize("pattern", FOREIGN_PATHS)
def test_no_file_names_a_path_of_one_machine(pattern: str) -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts()
        for number, line in enumerate(text.splitlines(), start=1)
        if re.search(pattern, line)
    ]
    assert found == []


def test_the_files_that_are_searched_include_the_sources() -> None:
    assert {"pyproject.toml", "src/sideband/__init__.py"} <= {name for name, _ in texts()}


def test_help_lists_exactly_the_phony_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = [target for line in re.findall(r"^\.PHONY:(.*)$", makefile, flags=re.MULTILINE) for target in line.split()]
    assert [line.split()[0] for line in run_make("help").splitlines()] == phony


def test_every_edge_has_its_extra() -> None:
    assert pyproject()["project"]["optional-dependencies"].keys() == EXTRAS


def test_the_extra_all_is_all_the_others() -> None:
    (everything,) = pyproject()["project"]["optional-dependencies"]["all"]
    assert Requirement(everything).extras == EXTRAS - {"all"}


def test_every_locked_requirement_has_an_exact_version_and_hashes() -> None:
    loose = [
        line
        for line, entry in locked().items()
        if not re.match(r"[a-z0-9-]+(\[[a-z0-9,-]+\])?==\S+", line)
        or not re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry)
    ]
    assert loose == []
    assert locked()


def test_the_lock_file_names_no_place_to_download_from() -> None:
    text = (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8")
    assert re.findall(r"\S*://\S*|\S+ @ \S+|^-.*|^\s+--(?!hash=).*|^[./].*", text, flags=re.MULTILINE) == []


def test_the_lock_file_satisfies_what_the_project_declares() -> None:
    versions = {
        canonicalize_name(requirement.name): requirement.specifier
        for requirement in (Requirement(line) for line in locked())
    }
    unmet = [
        str(wanted)
        for wanted in declared()
        if not (pinned := versions.get(canonicalize_name(wanted.name)))
        or not all(wanted.specifier.contains(pin.version, prereleases=True) for pin in pinned)
    ]
    assert unmet == []


def test_generated_files_are_marked_as_such() -> None:
    attributes = (ROOT / ".gitattributes").read_text(encoding="utf-8")
    marked = {line.split()[0] for line in attributes.splitlines() if "linguist-generated" in line}
    pages = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "docs").glob("*.md")
        if "enerated" in path.read_text(encoding="utf-8")[:200]
    }
    assert pages
    assert {*pages, "spec/protocol-artifacts/**"} <= marked


def test_sources_never_import_the_sqlite_of_the_standard_library() -> None:
    importers = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            match node:
                case ast.Import(names=names):
                    imported = [alias.name for alias in names]
                case ast.ImportFrom(module=str(module), level=0):
                    imported = [module]
                case _:
                    continue
            if any(name.partition(".")[0] in {"sqlite3", "_sqlite3"} for name in imported):
                importers.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert importers == []


@pytest.mark.parametrize("module", ["sideband", "sideband.core"])
def test_importing_the_library_loads_nothing_heavy(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert "sideband" in loaded
    assert loaded & HEAVY == set()


def test_the_pure_packages_need_msgspec_and_nothing_else() -> None:
    loaded = loaded_by(ONLY_MSGSPEC_INSTALLED + EVERY_PURE_MODULE)
    assert loaded - sys.stdlib_module_names == {"sideband", "msgspec"}
