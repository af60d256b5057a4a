"""The content of a user message."""

from typing import Any

import pytest

from sideband.core.errors import InvalidOption
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import read_content, text_of


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({"type": "text", "text": "Go on."}, id="a-text"),
        pytest.param({"text": "Go on."}, id="a-text-without-a-type"),
        pytest.param({"type": "image", "url": "https://example.com/a.png"}, id="another-type"),
    ],
)
def test_a_block_with_content_is_accepted(block: dict[str, Any]) -> None:
    assert read_content([block], DEFAULT_LIMITS) == (block,)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param({}, id="empty"),
        pytest.param({"type": "text"}, id="a-type-alone"),
        pytest.param({"text": " "}, id="a-blank-text-alone"),
        pytest.param({"type": "text", "text": "\n"}, id="a-blank-text"),
        pytest.param({"type": "text", "text": "\n", "annotations": {}}, id="a-blank-text-with-annotations"),
    ],
)
def test_a_blank_block_is_refused(block: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption, match="content is blank"):
        read_content([block], DEFAULT_LIMITS)


def test_the_text_of_a_message_is_that_of_its_text_blocks() -> None:
    image = {"type": "image", "url": "https://example.com/a.png"}
    assert text_of({"content": [{"text": "Look:"}, image, {"type": "text", "text": "a cat."}]}) == "Look:\na cat."
