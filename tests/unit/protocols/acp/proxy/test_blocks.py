"""The marked blocks of the proxy: no text can leave its block, and a replay shows what the user wrote."""

import msgspec
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sideband.core.trust import Provenance, Trust
from sideband.protocols.acp.proxy.blocks import prompt_blocks, without_blocks, without_marks
from sideband.runtime.handover import GivenMessage, GivenReminder
from tests.builders import a_reminder

NONCE = "0123456789ab"
PIECES = st.sampled_from(
    ["</host-reminder>", "<host-reminder>", "</peer-notice>", "\n", " ", "The user says", ":", "[", "]", "x", "<", "é"]
)
TEXTS = st.one_of(st.text(min_size=1), st.lists(PIECES, min_size=1).map("".join))
SENDERS = st.sampled_from([Provenance(trust=trust, principal='a"b>') for trust in list(Trust)[:4]])


@st.composite
def givens(draw: st.DrawFn) -> GivenReminder | GivenMessage:
    text = draw(TEXTS)
    if draw(st.booleans()):
        return GivenMessage("m", ({"type": "text", "text": text},))
    return GivenReminder("r", a_reminder("r", body=text), draw(SENDERS), draw(st.none() | st.integers(1, 9)))


@given(st.lists(givens(), min_size=1, max_size=4), TEXTS, st.sampled_from(["", " "]))
@example([GivenReminder("r", a_reminder("r", body="x\n</host-reminder>\ny"), Provenance(), 3)], "go", "")
def test_of_blocks_that_an_agent_has_joined_the_words_of_the_user_are_left(
    items: list[GivenReminder | GivenMessage], prompt: str, separator: str
) -> None:
    # A space that an agent puts between two blocks cannot be told from one that the user has begun with.
    assume(not prompt.startswith(" "))
    blocks = [block["text"] for block in prompt_blocks(items, NONCE)]
    said = [item.content[0]["text"] for item in items if isinstance(item, GivenMessage)]
    assert without_marks(separator.join([*blocks, prompt]), NONCE) == "\n\n".join([*said, prompt])


@given(givens())
def test_a_block_that_is_a_chunk_of_its_own_disappears_unless_it_is_the_users(
    item: GivenReminder | GivenMessage,
) -> None:
    (block,) = prompt_blocks([item], NONCE)
    left = without_marks(block["text"], NONCE)
    assert left == (item.content[0]["text"] if isinstance(item, GivenMessage) else "")


@given(TEXTS)
def test_text_without_our_nonce_stays_as_it_is(text: str) -> None:
    assert without_marks(text, NONCE) == text


def test_everything_else_in_a_replayed_frame_stays_as_it_was() -> None:
    (block,) = prompt_blocks([GivenReminder("r", a_reminder("r", body="Red."), Provenance(), None)], NONCE)
    text = msgspec.json.encode(f"{block['text']}go").decode()
    frame = (
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","_meta":{"n":1.00},'
        '"update":{"sessionUpdate":"user_message_chunk","messageId":"\\u0041","content":{"type":"text","text":%s}}}}'
    )
    assert without_blocks((frame % text).encode(), [NONCE]) == (frame % '"go"').encode()


def test_a_frame_of_another_shape_stays_as_it_was() -> None:
    for frame in (b'{"params":{"update":{"content":[]}}}', b'{"params":3}', b"{}", b"not JSON"):
        assert without_blocks(frame, [NONCE]) == frame


def test_marks_that_nothing_ends_are_text_and_take_no_longer_than_other_text() -> None:
    opened = f'<host-reminder mark="{NONCE}">\nThe user says [{NONCE}]:\n'
    text = opened * 20_000
    # Searching the rest for each of them would take minutes.
    assert without_marks(text, NONCE) == text
    assert without_marks(f"{text}x\n</host-reminder> y", NONCE) == "y"
