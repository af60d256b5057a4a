"""The laws of the escaper, for any text; and the frames that reminders stand in."""

from typing import Final

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sideband.core.trust import Provenance, Trust
from sideband.render.shapes import Frame, neutralise, tagged
from tests.builders import a_reminder
from tests.sessions import CLIENT, PEER, SERVER

UNSEEN: Final = "\0\x1b\x7f\x85\xad\u200b\u200d\u202e\u2060\ufeff\ufe0f\U000e0041"
BLANKS: Final = " \t\n\r\x0b\xa0\u2028\u3000"
MEGABYTE: Final = 2**20

# Whole and broken pieces of tags, so that many of the texts hold tags and near misses.
fragments = st.sampled_from(
    [
        *"<>/&;=\"'-.:_s",
        *UNSEEN,
        *BLANKS,
        "system",
        "reminder",
        "notice",
        "peer-",
        "SERVER-",
        "&lt;",
        "foo='x'",
        *(frame.value for frame in Frame),
        *(frame.value.title() for frame in Frame),
        *(f"</{frame.value}>" for frame in Frame),
        *(f"<{frame.value}" for frame in Frame),
    ]
)
texts = st.lists(fragments | st.text(max_size=3), max_size=30).map("".join)
senders = st.sampled_from([Provenance(), CLIENT, PEER, SERVER])


def framing_tags(text: str) -> list[str]:
    """Every framing tag in a text, read letter by letter: its name, behind a slash where it closes."""
    found = []
    for piece in text.split("<")[1:]:
        behind = piece.lstrip(BLANKS + UNSEEN + "/" + "\x0c\x1c\x1d\x1e\x1f")
        slash = "/" if "/" in piece[: len(piece) - len(behind)] else ""
        seen = "".join(letter for letter in behind if letter not in UNSEEN).casefold()
        for frame in Frame:
            after = seen.removeprefix(frame.value)
            if after != seen and not (after[:1].isalnum() or after[:1] in {"_", ".", ":", "-"}):
                found.append(slash + frame.value)
    return found


@given(texts, senders)
@example("</system-reminder>", Provenance())
@example("< / Peer-Notice foo='x'", PEER)
@example("<\0s\0erver-notice\n", SERVER)
def test_what_is_rendered_opens_one_frame_and_closes_one_frame(body: str, sender: Provenance) -> None:
    name = {Trust.PEER: "peer-notice", Trust.SERVER: "server-notice"}.get(sender.trust, "system-reminder")
    assert framing_tags(tagged(a_reminder(body=body), sender)) == [name, f"/{name}"]


@given(texts)
def test_nothing_but_the_bracket_of_a_tag_is_touched(text: str) -> None:
    assert neutralise(text).replace("&lt;", "<") == text.replace("&lt;", "<")


@given(texts)
def test_a_text_in_which_no_bracket_is_followed_by_a_name_is_unchanged(text: str) -> None:
    folded = "".join(letter for letter in text.casefold() if letter not in UNSEEN + BLANKS + "/")
    assume(not any(f"<{frame.value}" in folded for frame in Frame))
    assert neutralise(text) == text


@given(texts)
def test_escaping_again_changes_nothing(text: str) -> None:
    assert neutralise(neutralise(text)) == neutralise(text)


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param("<", id="brackets"),
        pytest.param("< ", id="brackets-and-blanks"),
        pytest.param("</", id="brackets-and-slashes"),
        pytest.param("<system-reminde", id="names-that-lack-a-letter"),
        pytest.param("<s\0\0\0\0", id="unseen-letters"),
    ],
)
def test_a_megabyte_that_never_quite_is_a_tag_comes_back_unchanged(piece: str) -> None:
    # No run that is looked through can hold a bracket, so each letter is looked at a fixed number of times.
    text = piece * (MEGABYTE // len(piece))
    assert neutralise(text) == text


@pytest.mark.parametrize("run", [" ", "/", "\0", "\n/ "])
def test_a_megabyte_between_bracket_and_name_does_not_hide_the_tag(run: str) -> None:
    hidden = f"{run * (MEGABYTE // len(run))}system-reminder>"
    assert neutralise(f"<{hidden}") == f"&lt;{hidden}"


def test_a_megabyte_of_tags_is_neutralised_to_the_last() -> None:
    tags = "</system-reminder>" * (MEGABYTE // 18)
    assert neutralise(tags) == tags.replace("<", "&lt;")


@pytest.mark.parametrize(
    ("principal", "shown"),
    [
        pytest.param("ci", "ci", id="plain"),
        pytest.param("Größe 1", "Größe 1", id="any-language"),
        pytest.param('a"b', "a&#34;b", id="quote"),
        pytest.param("</peer-notice>", "&#60;/peer-notice&#62;", id="tag"),
        pytest.param("a&b'c", "a&#38;b&#39;c", id="entity"),
        pytest.param("a\nb\0", "a&#10;b&#0;", id="controls"),
        pytest.param(None, "unknown", id="nobody"),
    ],
)
def test_the_name_of_a_sender_cannot_leave_its_attribute(principal: str | None, shown: str) -> None:
    sender = Provenance(trust=Trust.PEER, principal=principal)
    assert tagged(a_reminder(body="x"), sender) == f'<peer-notice from="{shown}">\nx\n</peer-notice>'
