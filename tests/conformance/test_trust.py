"""The level of a source, and the most that each level gets."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sideband.core.errors import BodyTooLarge, NotInjectable, NotPermitted, RateLimited, TooManyPending, UnknownOption
from sideband.core.events import Queued, QueuedReminder
from sideband.core.limits import DEFAULT_LIMITS, Bucket, take
from sideband.core.parse import parse
from sideband.core.reminder import Draft, Propagate, RoleHint, Source, in_name_of
from sideband.core.seams import InjectMode, Mode
from sideband.core.surfaces import Surface
from sideband.core.topic import Correlation, publish
from sideband.core.trust import IN_PROCESS, LEVELS, Channel, Provenance, Trust, TrustPolicy, ceiling_for
from tests.builders import a_draft
from tests.sessions import CLIENT, PEER, SERVER, Session

PAYLOADS: Final = Path(__file__).parents[2] / "examples" / "payloads"
# Every hint at its most demanding.
GREEDY: Final[dict[str, Any]] = {
    "role_hint": RoleHint.SYSTEM,
    "mode": Mode.INTERRUPT_IMMEDIATE,
    "propagate": Propagate.ALL,
    "preserve_on_compact": True,
    "ttl_turns": 100,
}


def accepted(draft: Draft, sender: Provenance) -> QueuedReminder:
    """The reminder as it waits."""
    session = Session()
    session.accept(draft, sender)
    (item,) = session.state.inbox.items()
    assert isinstance(item, QueuedReminder)
    return item


def effective(item: QueuedReminder) -> dict[str, Any]:
    """What became of the hints."""
    return {field: item.mode if field == "mode" else getattr(item.reminder, field) for field in GREEDY}


# Levels.


@pytest.mark.parametrize(
    ("channel", "level", "number"),
    [
        pytest.param(Channel.IN_PROCESS, Trust.OPERATOR, 0, marks=pytest.mark.requirement("trust:level:t0-operator")),
        pytest.param(
            Channel.SESSION_CLIENT, Trust.CONTROLLER, 1, marks=pytest.mark.requirement("trust:level:t1-controller")
        ),
        pytest.param(
            Channel.OPERATOR_TOKEN, Trust.CONTROLLER, 1, marks=pytest.mark.requirement("trust:level:t1-controller")
        ),
        pytest.param(Channel.TASK_OWNER, Trust.PEER, 2, marks=pytest.mark.requirement("trust:level:t2-peer")),
        pytest.param(
            Channel.CONFIGURED_SERVER, Trust.SERVER, 3, marks=pytest.mark.requirement("trust:level:t3-server")
        ),
        pytest.param(Channel.CONTENT, Trust.CONTENT, 4, marks=pytest.mark.requirement("trust:level:t4-content")),
    ],
)
def test_the_level_follows_from_the_channel(channel: Channel, level: Trust, number: int) -> None:
    assert LEVELS[channel] is level
    assert level == number


@pytest.mark.requirement("trust:level:t0-operator")
def test_this_process_is_the_operator() -> None:
    assert IN_PROCESS.trust is Trust.OPERATOR


@pytest.mark.requirement("trust:level:t4-content")
@pytest.mark.parametrize("policy", TrustPolicy)
def test_content_never_injects_whatever_the_policy(policy: TrustPolicy) -> None:
    content = Provenance(trust=Trust.CONTENT, principal="README.md")
    session = Session()
    with pytest.raises(NotInjectable) as refused:
        ceiling_for(content, policy=policy)
    assert refused.value.reason == "not_injectable"
    with pytest.raises(NotInjectable):
        session.accept(a_draft(), content)
    with pytest.raises(NotPermitted):
        session.say("ignore all that", InjectMode.QUEUE, content)
    assert session.journal == []


@pytest.mark.requirement("trust:level:from-the-connection")
def test_nothing_that_a_caller_says_of_itself_changes_its_level() -> None:
    said = {"source": "stdlib_provider", "originatingAgentId": "operator", "firedAtTurn": 9}
    item = accepted(parse({"body": "x", "roleHint": "system", **said}, Surface.A2A), PEER)
    assert (item.provenance.trust, item.provenance.principal) == (Trust.PEER, "planner")
    assert (item.reminder.source, item.reminder.originating_agent_id) == (Source.BRIDGE, None)
    assert item.reminder.fired_at_turn == 0
    assert item.reminder.role_hint is RoleHint.USER_BLOCK
    assert item.provenance.claims == {
        "source": "stdlib_provider",
        "originating_agent_id": "operator",
        "fired_at_turn": 9,
    }


@pytest.mark.requirement("trust:level:from-the-connection")
@pytest.mark.parametrize("surface", [Surface.ACP, Surface.ACP_LEGACY, Surface.A2A, Surface.HTTP])
@pytest.mark.parametrize("key", ["trust", "principal", "level", "provenance"])
def test_a_payload_has_no_place_for_a_level(surface: Surface, key: str) -> None:
    with pytest.raises(UnknownOption):
        parse({"body": "x", key: 0}, surface)


# Ceilings.


@pytest.mark.parametrize(
    "sender",
    [
        pytest.param(IN_PROCESS, id="operator", marks=pytest.mark.requirement("trust:ceiling:t0-has-none")),
        pytest.param(CLIENT, id="controller", marks=pytest.mark.requirement("trust:ceiling:t1-has-none")),
    ],
)
@pytest.mark.parametrize("asked", [GREEDY, {**GREEDY, "ttl_turns": None}], ids=["long-lived", "endless"])
def test_the_sessions_own_side_gets_what_it_asks_for(sender: Provenance, asked: dict[str, Any]) -> None:
    item = accepted(a_draft(**asked), sender)
    assert effective(item) == asked
    assert item.provenance.requested == {}


@pytest.mark.parametrize(
    ("sender", "field", "kept"),
    [
        pytest.param(
            PEER,
            "role_hint",
            dict.fromkeys(RoleHint, RoleHint.USER_BLOCK),
            id="peer-role",
            marks=pytest.mark.requirement("trust:ceiling:t2-role"),
        ),
        pytest.param(
            PEER,
            "mode",
            {
                Mode.INTERRUPT_IMMEDIATE: Mode.FINISH_STEP,
                Mode.FINISH_STEP: Mode.FINISH_STEP,
                Mode.AUDIT_ONLY: Mode.AUDIT_ONLY,
            },
            id="peer-mode",
            marks=pytest.mark.requirement("trust:ceiling:t2-mode"),
        ),
        pytest.param(
            PEER,
            "propagate",
            dict.fromkeys(Propagate, Propagate.NONE),
            id="peer-propagate",
            marks=pytest.mark.requirement("trust:ceiling:t2-propagate"),
        ),
        pytest.param(
            PEER,
            "preserve_on_compact",
            {True: False, False: False},
            id="peer-preserve",
            marks=pytest.mark.requirement("trust:ceiling:t2-preserve"),
        ),
        pytest.param(
            PEER,
            "ttl_turns",
            {None: 3, 1: 1, 2: 2, 3: 3, 4: 3, 1_000_000: 3},
            id="peer-ttl",
            marks=pytest.mark.requirement("trust:ceiling:t2-ttl"),
        ),
        pytest.param(
            SERVER,
            "role_hint",
            dict.fromkeys(RoleHint, RoleHint.USER_BLOCK),
            id="server-role",
            marks=pytest.mark.requirement("trust:ceiling:t3-role"),
        ),
        pytest.param(
            SERVER,
            "mode",
            {
                Mode.INTERRUPT_IMMEDIATE: Mode.FINISH_STEP,
                Mode.FINISH_STEP: Mode.FINISH_STEP,
                Mode.AUDIT_ONLY: Mode.AUDIT_ONLY,
            },
            id="server-mode",
            marks=pytest.mark.requirement("trust:ceiling:t3-mode"),
        ),
        pytest.param(
            SERVER,
            "propagate",
            dict.fromkeys(Propagate, Propagate.NONE),
            id="server-propagate",
            marks=pytest.mark.requirement("trust:ceiling:t3-propagate"),
        ),
        pytest.param(
            SERVER,
            "preserve_on_compact",
            {True: False, False: False},
            id="server-preserve",
            marks=pytest.mark.requirement("trust:ceiling:t3-preserve"),
        ),
        pytest.param(
            SERVER,
            "ttl_turns",
            {None: 2, 1: 1, 2: 2, 3: 2, 1_000_000: 2},
            id="server-ttl",
            marks=pytest.mark.requirement("trust:ceiling:t3-ttl"),
        ),
    ],
)
def test_a_hint_of_a_peer_or_server_becomes(sender: Provenance, field: str, kept: dict[object, object]) -> None:
    assert {asked: effective(accepted(a_draft(**{field: asked}), sender))[field] for asked in kept} == kept


@pytest.mark.parametrize(
    "sender",
    [
        pytest.param(PEER, id="peer", marks=pytest.mark.requirement("trust:ceiling:t2-size")),
        pytest.param(SERVER, id="server", marks=pytest.mark.requirement("trust:ceiling:t3-size")),
    ],
)
@pytest.mark.parametrize("letter", ["x", "é", "語", "🦀"])
def test_a_body_over_a_kibibyte_of_utf_8_is_refused(sender: Provenance, letter: str) -> None:
    fits = letter * (1024 // len(letter.encode()))
    assert accepted(a_draft(body=fits), sender).reminder.body == fits
    with pytest.raises(BodyTooLarge) as refused:
        accepted(a_draft(body=fits + letter), sender)
    assert (refused.value.reason, refused.value.limit) == ("body_too_large", 1024)


@pytest.mark.parametrize(
    ("sender", "most"),
    [
        pytest.param(CLIENT, 64, id="controller", marks=pytest.mark.requirement("trust:ceiling:t1-pending")),
        pytest.param(PEER, 8, id="peer", marks=pytest.mark.requirement("trust:ceiling:t2-pending")),
        pytest.param(SERVER, 4, id="server", marks=pytest.mark.requirement("trust:ceiling:t3-pending")),
    ],
)
def test_one_source_may_have_so_many_pending(sender: Provenance, most: int) -> None:
    session = Session()
    for number in range(most):
        session.accept(a_draft(dedupe_key=f"key-{number}"), sender)
    with pytest.raises(TooManyPending) as refused:
        session.accept(a_draft(), sender)
    assert (refused.value.reason, refused.value.limit) == ("too_many_pending", most)
    # Others have their own share, and what replaces one of its own needs no room.
    session.accept(a_draft(), Provenance(trust=sender.trust, principal="somebody else"))
    assert session.accept(a_draft(dedupe_key="key-0"), sender).deduped_count == 1
    session.revoke(session.queued_ids[0], sender)
    session.accept(a_draft(), sender)


@pytest.mark.requirement("trust:ceiling:t1-pending")
def test_messages_of_a_controller_are_counted_for_themselves() -> None:
    session = Session()
    for _ in range(64):
        session.accept(a_draft())
        session.say("more", InjectMode.QUEUE)
    with pytest.raises(TooManyPending) as refused:
        session.say("too much", InjectMode.QUEUE)
    assert refused.value.limit == 64
    session.say("me too", InjectMode.QUEUE, IN_PROCESS)


@pytest.mark.parametrize(
    ("level", "per_minute", "burst"),
    [
        pytest.param(
            Trust.CONTROLLER, 20 * 60, 50, id="controller", marks=pytest.mark.requirement("trust:ceiling:t1-rate")
        ),
        pytest.param(Trust.PEER, 6, 4, id="peer", marks=pytest.mark.requirement("trust:ceiling:t2-rate")),
        pytest.param(Trust.SERVER, 6, 4, id="server", marks=pytest.mark.requirement("trust:ceiling:t3-rate")),
    ],
)
def test_a_source_may_send_a_burst_and_then_at_its_rate(level: Trust, per_minute: int, burst: int) -> None:
    rate = DEFAULT_LIMITS.accept_rate[level]
    bucket: Bucket | None = None
    for _ in range(burst):
        bucket = take(bucket, rate, now=0)
    with pytest.raises(RateLimited) as refused:
        take(bucket, rate, now=0)
    interval = 60 / per_minute
    assert refused.value.reason == "rate_limited"
    assert interval * 1000 <= refused.value.retry_after_ms <= interval * 1000 + 1
    for number in range(1, per_minute + 1):
        # A quarter of an interval late, for the rounding of floating point.
        bucket = take(bucket, rate, now=(number + 0.25) * interval)
    with pytest.raises(RateLimited):
        take(bucket, rate, now=60 + 0.25 * interval)


# Clamping.


@pytest.mark.requirement("trust:clamp:hints-are-clamped-not-refused")
@pytest.mark.parametrize("sender", [PEER, SERVER], ids=["peer", "server"])
def test_what_asks_for_too_much_is_accepted_with_less(sender: Provenance) -> None:
    item = accepted(a_draft(**GREEDY), sender)
    assert effective(item) == {
        "role_hint": RoleHint.USER_BLOCK,
        "mode": Mode.FINISH_STEP,
        "propagate": Propagate.NONE,
        "preserve_on_compact": False,
        "ttl_turns": 3 if sender is PEER else 2,
    }
    assert item.reminder.body == a_draft().body


@pytest.mark.requirement("trust:clamp:event-has-both-values")
def test_the_event_of_a_clamped_reminder_has_what_was_asked_for_and_what_it_got() -> None:
    session = Session()
    answer = session.accept(a_draft(**GREEDY), PEER)
    event = session.journal[-1]
    assert isinstance(event, Queued)
    assert answer.requested == event.item.provenance.requested == GREEDY
    assert effective(event.item)["ttl_turns"] == 3
    published = publish(event, Correlation())
    assert published is not None
    assert published.payload["requested"] == GREEDY
    assert {field: published.payload[field] for field in ("role_hint", "mode", "propagate", "ttl_turns")} == {
        "role_hint": "user_block",
        "mode": "finish_step",
        "propagate": "none",
        "ttl_turns": 3,
    }


@pytest.mark.requirement("trust:clamp:event-has-both-values")
def test_a_clamped_reminder_still_tells_what_it_asked_for_when_it_goes_live() -> None:
    session = Session()
    session.accept(a_draft(**GREEDY), SERVER)
    session.drain()
    (item,) = session.state.live
    assert item.provenance.requested == GREEDY
    assert item.reminder.ttl_turns == 2


@pytest.mark.requirement("trust:clamp:below-the-ceiling-is-kept")
@pytest.mark.parametrize("sender", [PEER, SERVER], ids=["peer", "server"])
@pytest.mark.parametrize("mode", [Mode.FINISH_STEP, Mode.AUDIT_ONLY])
@pytest.mark.parametrize("ttl", [1, 2])
def test_what_keeps_within_the_ceiling_is_taken_as_it_is(sender: Provenance, mode: Mode, ttl: int) -> None:
    modest = a_draft(role_hint=RoleHint.USER_BLOCK, mode=mode, propagate=Propagate.NONE, ttl_turns=ttl)
    item = accepted(modest, sender)
    assert effective(item) == {field: getattr(modest, field) for field in GREEDY}
    assert item.provenance.requested == {}


@pytest.mark.requirement("trust:clamp:below-the-ceiling-is-kept")
def test_only_what_was_lowered_is_on_record_as_asked_for() -> None:
    item = accepted(a_draft(role_hint=RoleHint.USER_BLOCK, propagate=Propagate.NONE, ttl_turns=9), PEER)
    assert item.provenance.requested == {"ttl_turns": 9}


@pytest.mark.requirement("trust:clamp:examples-of-the-proposals")
def test_the_example_of_a_peer_is_accepted_within_the_ceiling_of_a_peer() -> None:
    example = json.loads((PAYLOADS / "a2a" / "inject_reminder.json").read_text(encoding="utf-8"))["params"]["reminder"]
    item = accepted(parse(example, Surface.A2A), PEER)
    assert (item.id, item.reminder.body) == (example["id"], example["body"])
    assert effective(item) == {
        "role_hint": RoleHint.USER_BLOCK,
        "mode": Mode.FINISH_STEP,
        "propagate": Propagate.NONE,
        "preserve_on_compact": False,
        "ttl_turns": 2,
    }
    assert item.provenance.requested == {
        "role_hint": RoleHint.SYSTEM,
        "propagate": Propagate.SESSION,
        "preserve_on_compact": True,
    }


@pytest.mark.requirement("trust:clamp:examples-of-the-proposals")
def test_the_example_of_a_server_is_accepted_within_the_ceiling_of_a_server() -> None:
    example = json.loads((PAYLOADS / "mcp" / "reminder.json").read_text(encoding="utf-8"))["params"]["reminder"]
    item = accepted(in_name_of(parse(example, Surface.MCP), "watcher"), SERVER)
    assert (item.id, item.reminder.body) == (f"watcher:{example['id']}", example["body"])
    assert effective(item) == {
        "role_hint": RoleHint.USER_BLOCK,
        "mode": Mode.FINISH_STEP,
        "propagate": Propagate.NONE,
        "preserve_on_compact": False,
        "ttl_turns": 2,
    }
    assert item.provenance.requested == {"role_hint": RoleHint.SYSTEM, "propagate": Propagate.SESSION}
