"""What `python -m sideband.render` prints."""

import sys
from importlib import import_module
from typing import Final

import pytest

from sideband.render.gallery import EXAMPLES, gallery, show
from sideband.render.profile import Placement, Wire

PROGRAM: Final = "sideband.render.__main__"


def test_there_is_a_page_for_every_wire_and_placement() -> None:
    titles = [page.splitlines()[0] for page in gallery()]
    assert titles == [f"== {wire}, {placement} ==" for wire in EXAMPLES for placement in Placement]
    assert list(EXAMPLES) == list(Wire)


def test_every_reminder_is_on_every_page() -> None:
    for page in gallery():
        for body in ("The build is red.", "src/auth.py changed", "in English.", "a new step.", "3 tests fail."):
            assert body in page


def test_it_is_printed_where_the_program_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    show("__main__")
    assert capsys.readouterr().out == "\n\n".join(gallery()) + "\n"


def test_nothing_is_printed_where_it_is_imported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, PROGRAM, raising=False)
    import_module(PROGRAM)
    assert capsys.readouterr().out == ""
