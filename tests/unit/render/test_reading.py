"""Which reminders a route shows at all, and what its senders are told."""

import pytest

from sideband.core.events import DropReason
from sideband.core.lifecycle import Shown
from sideband.core.live import LiveItem
from sideband.core.reminder import RoleHint
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from sideband.render.profile import Profile
from sideband.render.reading import Advised, Look, Piece, Reader
from sideband.render.shapes import Shape
from tests.builders import a_reminder
from tests.sessions import PEER, SERVER
from tests.talks import CLAUDE, GEMINI, GPT, UNKNOWN, a_profile

CONTENT = Provenance(trust=Trust.CONTENT)


def an_item(sender: Provenance = IN_PROCESS, *, place: int = 0, reminder_id: str = "r1", **fields: object) -> LiveItem:
    return LiveItem(reminder=a_reminder(reminder_id, **fields), provenance=sender, place=place)


def a_piece(reader: Reader, item: LiveItem, *, tokens: int = 10) -> Piece:
    look = reader.look(item)
    assert isinstance(look, Look)
    return Piece(item, look, Shown(item.id, "user"), "text", tokens)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        pytest.param(an_item(body=""), DropReason.INVALID, id="empty"),
        pytest.param(an_item(body=" \n\t\u3000"), DropReason.INVALID, id="blank"),
        pytest.param(an_item(body="half \ud83e of a crab"), DropReason.INVALID, id="half-a-character"),
        pytest.param(an_item(CONTENT), DropReason.CAPABILITY_MISMATCH, id="found-in-content"),
        pytest.param(an_item(PEER), DropReason.CAPABILITY_MISMATCH, id="peer"),
        pytest.param(an_item(SERVER), DropReason.CAPABILITY_MISMATCH, id="server"),
        pytest.param(an_item(PEER, body=" "), DropReason.INVALID, id="blank-from-a-peer"),
    ],
)
def test_some_reminders_cannot_be_shown_on_a_route_without_notices(item: LiveItem, reason: DropReason) -> None:
    assert Reader(a_profile(accepts_notices=False)).look(item) is reason


@pytest.mark.parametrize("body", ["x", "日本語", " x ", "\u200b"])
def test_whatever_can_be_written_down_can_be_shown(body: str) -> None:
    assert Reader(UNKNOWN).look(an_item(body=body)) == Look(
        Shape.PLAIN_SYSTEM_TEXT, is_tagged=False, is_notice=False, lost=None
    )


def test_a_route_with_notices_shows_those_of_peers_and_servers() -> None:
    reader = Reader(UNKNOWN)
    notice = Look(Shape.NOTICE, is_tagged=True, is_notice=True, lost=None)
    assert {reader.look(an_item(sender, role_hint=hint)) for sender in (PEER, SERVER) for hint in RoleHint} == {notice}


def test_a_slot_that_demands_a_shape_gets_it_from_everybody_but_peers_and_servers() -> None:
    reader = Reader(CLAUDE, always=Shape.DEVELOPER_MESSAGE)
    own = reader.look(an_item(role_hint=RoleHint.SYSTEM))
    assert own == Look(Shape.DEVELOPER_MESSAGE, is_tagged=False, is_notice=False, lost=None)
    assert reader.look(an_item(PEER)) == Look(Shape.NOTICE, is_tagged=True, is_notice=True, lost=None)


@pytest.mark.parametrize(
    ("window", "tokens", "is_too_large"),
    [
        pytest.param(None, 10**9, False, id="nothing-is-where-the-window-is-unknown"),
        pytest.param(1_000, 100, False, id="a-tenth"),
        pytest.param(1_000, 101, True, id="more-than-a-tenth"),
    ],
)
def test_a_text_is_too_large_for_a_window(window: int | None, tokens: int, is_too_large: bool) -> None:  # noqa: FBT001 - a column
    assert (tokens > Reader(a_profile(context_window=window)).largest) is is_too_large


def test_what_is_left_out_is_told_in_transcript_order() -> None:
    reader = Reader(UNKNOWN)
    pieces = [a_piece(reader, an_item(place=place, reminder_id=f"r{place}"), tokens=900) for place in range(4)]
    assert reader.left_out(pieces) == ("r2", "r3")
    assert reader.left_out(reversed(pieces)) == ("r2", "r3")
    assert reader.left_out(pieces[:2]) == ()


@pytest.mark.parametrize(
    ("profile", "hint", "shape"),
    [
        pytest.param(GPT, RoleHint.USER_BLOCK, "developer message", id="user-block-to-developer"),
        pytest.param(GPT, RoleHint.EPHEMERAL_CACHE, "developer message", id="ephemeral-cache-to-developer"),
        pytest.param(GEMINI, RoleHint.USER_BLOCK, "tagged system text", id="user-block-to-tags"),
        pytest.param(UNKNOWN, RoleHint.EPHEMERAL_CACHE, "plain system text", id="ephemeral-cache-to-plain"),
        pytest.param(CLAUDE, RoleHint.USER_BLOCK, None, id="anthropic-keeps-user-blocks"),
        pytest.param(CLAUDE, RoleHint.EPHEMERAL_CACHE, None, id="anthropic-keeps-cached-ones"),
        pytest.param(UNKNOWN, RoleHint.DEVELOPER, None, id="developer-is-content"),
        pytest.param(GPT, RoleHint.SYSTEM, None, id="system-is-content"),
    ],
)
def test_a_sender_is_told_of_a_lost_hint(profile: Profile, hint: RoleHint, shape: str | None) -> None:
    reader = Reader(profile)
    piece = a_piece(reader, an_item(role_hint=hint, dedupe_key="build:status"))
    route = f"{profile.transport}:{profile.model}"
    told = f"{route} does not keep the hint {hint}: the reminder of the key 'build:status' becomes a {shape}"
    assert reader.advice([piece]) == ((Advised("HARN-RMD-003", told),) if shape else ())


def test_a_peer_is_told_nothing_of_its_hint() -> None:
    reader = Reader(UNKNOWN)
    assert reader.advice([a_piece(reader, an_item(PEER, role_hint=RoleHint.USER_BLOCK))]) == ()


def test_the_same_is_told_once() -> None:
    reader = Reader(UNKNOWN)
    items = [an_item(reminder_id=f"r{place}", role_hint=RoleHint.USER_BLOCK) for place in range(3)]
    (told,) = reader.advice([a_piece(reader, item) for item in items])
    assert "a reminder without a key" in told.message
