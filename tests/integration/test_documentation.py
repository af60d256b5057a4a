"""Every Python block of the documentation runs, page by page, as one program."""

import re
from pathlib import Path

import pytest

from sideband.loop.hooks import WHEN
from sideband.testing import plugin
from tests.programs import ROOT, run_python

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
# Shows mistakes on purpose; the snippets of that page have a test of their own.
NO_PROGRAM = ROOT / "docs" / "diagnostics.md"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


def programs() -> list[Path]:
    return [page for page in PAGES if page != NO_PROGRAM and BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", programs(), ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_as_one_program(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = []
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start(1))
        blocks.append(compile("\n" * line + found.group(1), str(page), "exec"))
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)  # noqa: S102 - the page is ours


def test_the_page_on_testing_is_a_test_file_that_passes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    blocks = [found.group(1) for found in BLOCK.finditer(page)]
    (tmp_path / "test_page.py").write_text("\n\n".join(blocks), encoding="utf-8")
    answer = run_python("-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py", cwd=tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_page_on_testing_tells_of_every_fixture() -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(sideband_\w+)` \|", page, re.MULTILINE)
    assert sorted(told) == sorted(name for name in vars(plugin) if name.startswith("sideband_"))


def test_the_first_page_shows_a_program() -> None:
    assert ROOT / "README.md" in programs()


@pytest.mark.parametrize(
    "page", sorted([*PAGES, ROOT / "AGENTS.md", *ROOT.glob("docs/decisions/*.md")]), ids=lambda page: page.name
)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_page_on_agents_tells_when_each_session_event_is_told() -> None:
    rows = "\n".join(f"| `{event.value}` | {moment} |" for event, moment in WHEN.items())
    assert rows in (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
