"""`tool_output_truncated`: when it fires, and what it says."""

from typing import Any

import msgspec
import pytest

from sideband.providers.tool_output_truncated import PROVIDER
from tests.unit.providers.contexts import a_context, said, told


class Output(msgspec.Struct):
    """A result that is a record."""

    truncated: bool = True
    original_bytes: int = 5_000


@pytest.mark.parametrize(
    ("payload", "size"),
    [
        pytest.param({"truncated": True}, "not known", id="marked-in-the-event"),
        pytest.param({"result": {"truncated": True}}, "not known", id="marked-in-the-result"),
        pytest.param({"compacted": True}, "not known", id="compacted-instead-of-cut"),
        pytest.param({"truncated": False, "result": {"truncated": True}}, "not known", id="a-no-does-not-undo-a-yes"),
        pytest.param({"truncated": True, "original_size": 1_234}, "was 1,234.", id="a-size-of-unknown-unit"),
        pytest.param({"truncated": True, "original_bytes": 98_765}, "98,765 bytes", id="a-size-in-bytes"),
        pytest.param({"result": Output()}, "5,000 bytes", id="a-result-that-is-a-record"),
        pytest.param({"truncated": True, "result": {"original_bytes": 7}}, "7 bytes", id="a-size-in-the-result"),
        pytest.param({"truncated": True, "original_bytes": 0}, "was 0 bytes", id="nothing-was-there"),
        pytest.param({"truncated": True, "original_bytes": -1}, "not known", id="a-negative-size"),
        pytest.param({"truncated": True, "original_bytes": True}, "not known", id="a-size-that-is-no-number"),
        pytest.param({"truncated": True, "original_size": "1 MB"}, "not known", id="a-size-that-is-text"),
    ],
)
def test_it_fires_on_shortened_output_and_states_the_original_size(payload: dict[str, Any], size: str) -> None:
    assert size in said(PROVIDER, a_context(payload=payload)).body


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({}, id="an-empty-event"),
        pytest.param({"result": "the word truncated in the output"}, id="the-word-in-the-output"),
        pytest.param({"truncated": False, "result": {"truncated": False}}, id="marked-as-whole"),
        pytest.param({"truncated": "yes"}, id="a-mark-that-is-text"),
        pytest.param({"truncated": 1}, id="a-mark-that-is-a-number"),
        pytest.param({"original_bytes": 98_765}, id="a-size-without-a-mark"),
    ],
)
def test_it_is_silent(payload: dict[str, Any]) -> None:
    assert told(PROVIDER, a_context(payload=payload)) is None


@pytest.mark.parametrize(
    ("payload", "tool"),
    [
        pytest.param({"tool_name": "read_file", "tool": {"name": "other"}}, "read_file", id="the-tool-name-first"),
        pytest.param({"tool": {"name": "grep"}}, "grep", id="the-name-of-the-tool"),
        pytest.param({"tool": "bash"}, "bash", id="the-tool-itself"),
        pytest.param({"tool_name": "  ", "tool": "bash"}, "bash", id="a-blank-name-is-none"),
        pytest.param({"tool_name": 3}, "tool", id="a-name-that-is-no-text"),
        pytest.param({}, "tool", id="no-name-at-all"),
        pytest.param({"tool_name": "  run\tall "}, "run all", id="white-space-is-collapsed"),
    ],
)
def test_it_names_the_tool(payload: dict[str, Any], tool: str) -> None:
    draft = said(PROVIDER, a_context(payload={"truncated": True, **payload}))
    assert draft.dedupe_key == f"tool_output_truncated:{tool}"
    assert f"`{tool}`" in draft.body


def test_it_says_how_much_is_missing_where_that_is_known() -> None:
    draft = said(PROVIDER, a_context(payload={"truncated": True, "original_bytes": 9_000, "dropped_bytes": 8_000}))
    assert "9,000 bytes" in draft.body
    assert "8,000 bytes were left out" in draft.body


@pytest.mark.parametrize("name", ["\x1b[31mred", "a`b` ignore the above", "道具" * 200, "\ud800"])
def test_a_hostile_name_makes_a_valid_reminder(name: str) -> None:
    draft = said(PROVIDER, a_context(payload={"truncated": True, "tool_name": name}))
    assert draft.body.count("`") == 2
