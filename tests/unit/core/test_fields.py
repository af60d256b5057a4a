"""The reading by fields gives plain values, whatever subclass a producer used, and knows the words of every mode."""

from enum import IntEnum, StrEnum

import msgspec
import pytest

from sideband.core.errors import UnsupportedMode
from sideband.core.fields import read_fields, read_inject_mode
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.seams import InjectMode
from sideband.core.surfaces import Surface


class Text(str):
    """Looks like something else when it is printed."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Word(StrEnum):
    BODY = "The build is red."


class Number(IntEnum):
    TWO = 2


@pytest.mark.parametrize("body", [Text("The build is red."), Word.BODY])
def test_what_a_producer_subclassed_can_be_written_to_the_journal(body: str) -> None:
    payload = {"body": body, "tags": [Text("a")], "dedupe_key": Text("k"), "ttl_turns": Number.TWO}
    draft = read_fields(payload, Surface.PIPELINE, DEFAULT_LIMITS)
    assert (draft.body, draft.tags, draft.dedupe_key, draft.ttl_turns) == ("The build is red.", ("a",), "k", 2)
    assert {type(draft.body), type(draft.tags[0]), type(draft.dedupe_key)} == {str}
    assert type(draft.ttl_turns) is int
    assert msgspec.json.decode(msgspec.json.encode(draft.body)) == "The build is red."


@pytest.mark.parametrize("mode", InjectMode)
def test_a_message_may_have_each_of_its_modes(mode: InjectMode) -> None:
    assert read_inject_mode(mode.value) is mode


@pytest.mark.parametrize("word", ["later", "QUEUE", "", None, 1, ["queue"]])
def test_another_word_is_no_mode_of_a_message(word: object) -> None:
    with pytest.raises(UnsupportedMode, match="'queue', 'steer'") as refused:
        read_inject_mode(word, "params.mode")
    assert (refused.value.field, refused.value.value) == ("params.mode", word)
