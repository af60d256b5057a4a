"""The text of a reply while it arrives."""

import asyncio
import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sideband.models.speech import Speech, whole, whole_value

HIGH, LOW = "\ud83d", "\ude00"


def hear(pieces: Sequence[str]) -> tuple[list[str], str]:
    """What a listener hears of these pieces, and all that was said."""
    heard: list[str] = []

    async def main() -> str:
        speech = Speech(heard.append)
        for piece in pieces:
            await speech.say(piece)
        await speech.end()
        return speech.text

    return heard, asyncio.run(main())


def test_pieces_are_heard_as_they_come_and_silence_is_not() -> None:
    assert hear(["Hel", "", "lo"]) == (["Hel", "lo"], "Hello")


@pytest.mark.parametrize(
    ("pieces", "heard"),
    [
        pytest.param([f"a{HIGH}", f"{LOW}b"], ["a", "😀b"], id="one-torn-between-two-pieces-is-joined"),
        pytest.param([f"a{HIGH}{LOW}b"], ["a😀b"], id="one-torn-inside-a-piece-is-joined"),
        pytest.param([f"a{HIGH}", "b"], ["a", "�b"], id="a-first-half-alone-is-replaced"),
        pytest.param([f"a{LOW}", "b"], ["a�", "b"], id="a-second-half-alone-is-replaced"),
        pytest.param([f"a{HIGH}"], ["a", "�"], id="a-first-half-at-the-end-is-replaced"),
        pytest.param([HIGH, LOW], ["😀"], id="nothing-is-heard-of-a-half"),
    ],
)
def test_nobody_hears_half_a_character(pieces: list[str], heard: list[str]) -> None:
    assert hear(pieces) == (heard, "".join(heard))


@given(st.text(), st.lists(st.integers(0, 50)))
def test_however_a_text_is_torn_apart_all_of_it_arrives(text: str, cuts: list[int]) -> None:
    # What JSON makes of a text: every character beyond the first plane is two escapes.
    units = [json.loads(f'"\\u{unit:04x}"') for unit in memoryview(text.encode("utf-16-le")).cast("H")]
    edges = sorted({0, len(units), *(cut for cut in cuts if cut < len(units))})
    pieces = ["".join(units[start:end]) for start, end in pairwise(edges)]
    heard, said = hear(pieces)
    assert said == text == "".join(heard)


def test_a_listener_may_be_a_coroutine_function() -> None:
    heard: list[str] = []

    async def listen(text: str) -> None:
        await asyncio.sleep(0)
        heard.append(text)

    asyncio.run(Speech(listen).say("Hello."))
    assert heard == ["Hello."]


def test_nobody_has_to_listen() -> None:
    speech = Speech(None)
    asyncio.run(speech.say("Hello."))
    assert speech.text == "Hello."


@given(st.text(st.characters()))
def test_whatever_was_whole_stays_as_it_is_and_everything_can_be_encoded(text: str) -> None:
    whole(text).encode()
    assert whole(whole(text)) == whole(text)
    assert whole(text.encode(errors="replace").decode()) == text.encode(errors="replace").decode()


def test_every_text_in_a_value_is_made_whole() -> None:
    value = {f"k{HIGH}": [f"v{LOW}", 1, None, {"deep": HIGH + LOW}]}
    assert whole_value(value) == {"k�": ["v�", 1, None, {"deep": "😀"}]}
