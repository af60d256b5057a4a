"""Files: wrong options, lines that are no patterns, and a directory that cannot be watched."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.watch import events
from sideband.watch.files import FileWatcher
from sideband.watch.ignore import IgnoreRules
from tests.watching import filled, run


def test_a_line_that_is_no_pattern_is_skipped(tmp_path: Path) -> None:
    rules = IgnoreRules(filled(tmp_path, {".gitignore": "!\n*.log\n"}))
    assert rules.ignores("a.log")


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        pytest.param("missing", {}, "root must be a directory or a file that exists", id="a-missing-root"),
        pytest.param(".", {"debounce_seconds": 0}, "debounce_seconds must be a number above 0", id="no-debounce"),
        pytest.param(".", {"debounce_seconds": float("nan")}, "debounce_seconds must be", id="nan"),
    ],
)
def test_a_wrong_option_is_refused(tmp_path: Path, name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        FileWatcher(tmp_path / name, **options)


def test_a_directory_that_cannot_be_watched_at_all_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> Iterator[Any]:
        raise OSError("no watches")

    monkeypatch.setattr(events, "watch", refuse)

    async def scenario() -> None:
        async for _ in FileWatcher(tmp_path).notices():
            pass

    with pytest.raises(OSError, match="no watches"):
        run(scenario())
    assert len(caplog.records) == 2
