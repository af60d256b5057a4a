"""Files that describe a request."""

import re
from pathlib import Path

import pytest

from sideband.inspect.scene import SceneError, read_scene


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "cannot be read: No such file or directory", id="absent"),
        pytest.param(b"{", "is not a request: Input data was truncated", id="not-json"),
        pytest.param(b'{"messages": [], "system": "\xff"}', "cannot be read: it is not UTF-8", id="not-utf-8"),
    ],
)
def test_a_file_that_is_no_file_is_one_sentence(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SceneError, match=re.escape(f"{path} {said}")):
        read_scene(path)
