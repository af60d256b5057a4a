"""What a session costs at the model's side, by where its reminders stand: arithmetic on the providers' published rules.

The session is driven through the real core and rendered by the real renderer; the cache oracle of the tests reads the
bodies. No service is asked.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from benchmarks.ways import Group, Way
from sideband.core.apply import apply
from sideband.core.events import InjectAccepted, InjectDelivered, QueuedMessage, ResultRecorded, Started
from sideband.core.lifecycle import go_live
from sideband.core.reminder import Reminder, ReminderId
from sideband.core.seams import InjectMode
from sideband.core.state import SessionState
from sideband.core.trust import IN_PROCESS
from sideband.core.turn import close_turn, open_request
from sideband.render.plan import Plan
from sideband.render.profiles import Wire
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView
from tests.cache_oracle import (
    Block,
    CacheOracle,
    OpenAiBreakpointCache,
    OpenAiPrefixCache,
    Usage,
    blocks,
    cost_of_fragments,
    total,
)

# The trace, in tokens.
REQUESTS: Final = 60
EVERY: Final = 3
TOOLS: Final = 8_000
SYSTEM: Final = 6_000
FIRST: Final = 500
ANSWER: Final = 300
RESULTS: Final = 900
BYTES: Final = 4

TOOL: Final = "look"


class Load(NamedTuple):
    """How large reminders are, how many requests show one (None: all from then on), how many calls a turn makes."""

    tokens: int
    ttl: int | None
    calls: int


# Running.


def trace(way: Way, wire: Wire, load: Load | None, *, calls: int, requests: int = REQUESTS) -> list[Plan]:
    """Every request of the session; without a load, of the same one without reminders."""
    profile = msgspec.structs.replace(way.profile, wire=wire)
    renderer = Renderer(profile, model="model", placement=way.placement)
    state, sent = SessionState(), []
    _user_says(state, "x" * FIRST * BYTES)
    for number in range(1, requests + 1):
        if load is not None and number % EVERY == 0:
            body = f"{number} ".ljust(load.tokens * BYTES, "x")
            reminder = Reminder(id=ReminderId(f"r{number}"), body=body, ttl_turns=load.ttl, role_hint=way.hint)
            _commit(state, go_live(state, reminder, IN_PROCESS))
        rendered = renderer.render(view_of(state))
        sent.append(rendered)
        _commit(
            state,
            open_request(state, state.basis, rendered, repeats=False).events,
        )
        _answered(state, number, calls)
    return sent


def view_of(state: SessionState) -> RequestView:
    """What the next request of a session is made from."""
    tool = {"name": TOOL, "description": "x" * (TOOLS * BYTES - len(TOOL)), "parameters": {"type": "object"}}
    return RequestView(
        turn=state.next_turn,
        system="x" * SYSTEM * BYTES,
        messages=state.messages,
        tools=(tool,),
        live=state.live,
        session_id="session",
        window=state.window,
        ledger=state.ledger,
    )


def _commit(state: SessionState, events: Sequence[Any]) -> None:
    for event in events:
        apply(state, event)


def _user_says(state: SessionState, text: str) -> None:
    content = ({"type": "text", "text": text},)
    item = QueuedMessage(message_id="m1", content=content, mode=InjectMode.QUEUE, provenance=IN_PROCESS)
    _commit(state, [InjectAccepted(item=item), Started(), InjectDelivered(message_id="m1", content=content)])


def _answered(state: SessionState, number: int, calls: int) -> None:
    reply, results = turn_messages(number, calls)
    if state.request is None:
        raise RuntimeError("no request is open")
    _commit(state, close_turn(state, reply=reply, usage=None).events)
    for message in results:
        _commit(state, [ResultRecorded(call_id=message["tool_call_id"], status="ok", message=message)])


def turn_messages(number: int, calls: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A reply of the model and the results of its calls, each of the size that the trace gives it."""
    made = [{"id": f"c{number}-{place}", "name": TOOL, "args": {}} for place in range(calls)]
    said = f"{number} ".ljust(ANSWER * BYTES - calls * len(f"{TOOL}{{}}"), "x")
    results = [
        {
            "role": "tool",
            "tool_call_id": call["id"],
            "name": TOOL,
            "status": "ok",
            "content": f"{call['id']} ".ljust(RESULTS * BYTES // calls, "x"),
        }
        for call in made
    ]
    return {"role": "assistant", "content": said, "tool_calls": made}, results


class Priced(NamedTuple):
    """What one way costs beside the same session without reminders; `error` is how far the law is from it, if it holds."""

    group: str
    cache: str
    way: Way
    load: Load
    relative: float
    error: float | None


def priced(group: Group, load: Load, *, requests: int = REQUESTS) -> Iterator[Priced]:
    """Every way of the group, by every cache that it can be paid by."""
    bare = _run(group, group.ways[0], None, load.calls, requests)
    spent = {cache: _spent(group, cache, group.ways[0], bare.blocks) for cache in group.caches}
    for way in group.ways:
        told = _run(group, way, load, load.calls, requests)
        for cache, made in group.caches.items():
            if way.heeded is isinstance(made(group.wire), OpenAiPrefixCache):
                continue
            cost = _spent(group, cache, way, told.blocks)
            error = abs(cost - spent[cache] - told.law) / cost if way.lawful else None
            yield Priced(group.name, cache, way, load, cost / spent[cache], error)


class _Run(NamedTuple):
    blocks: list[list[Block]]
    law: float


def _run(group: Group, way: Way, load: Load | None, calls: int, requests: int) -> _Run:
    sent = trace(way, group.wire, load, calls=calls, requests=requests)
    return _Run([blocks(group.wire, rendered.request.body) for rendered in sent], cost_of_fragments(sent))


def _spent(group: Group, cache: str, way: Way, sent: Sequence[Sequence[Block]]) -> float:
    oracle = group.caches[cache](group.wire)
    used = [_taken(oracle, way, way.remark(found)) for found in sent]
    return total(used).plain if group.computed else total(used).cost


def _taken(oracle: CacheOracle, way: Way, found: Sequence[Block]) -> Usage:
    if way.implicit and isinstance(oracle, OpenAiBreakpointCache):
        return oracle.take_implicit(found)
    return oracle.take(found)
