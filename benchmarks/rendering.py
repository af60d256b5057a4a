"""What reminders cost in a request: in tokens paid for, by where they stand, and in time to build and send it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import Final

from benchmarks.bodies import TEN, Built, Session, a_live, built
from benchmarks.effort import Effort, Progress
from benchmarks.http_clients import Posted, absent, posted
from benchmarks.placements import EVERY, REQUESTS, Load, Priced, priced
from benchmarks.report import Figure, Report, Table, Target, duration, times
from benchmarks.ways import GROUPS

PART: Final = "rendering"

SIZES: Final = (60, 400)
TTLS: Final = (1, 2, 3, None)
CALLS: Final = (1, 12)
LOADS: Final = tuple(Load(size, ttl, calls) for size, ttl, calls in product(SIZES, TTLS, CALLS))

# How far the cost of a session may be from what the law predicts.
MAX_ERROR: Final = 1e-9
# Building a request from what is new, beside this encoder over the whole body.
WHOLE: Final = "orjson"
MAX_BUILDING: Final = 0.25
# CPU time that an official client may take in addition to the HTTP library that it uses.
MAX_CLIENT_NS: Final = 600_000.0


def measure(effort: Effort, progress: Progress) -> Report:
    few, most = effort.turns[0], effort.turns[-1]
    steps = len(GROUPS) * len(LOADS) + len(effort.turns) * 2
    found: list[Priced] = []
    # A session must be long enough to have a reminder in it, and an answered request before that.
    requests = max(min(REQUESTS, most), EVERY + 1)
    for done, (group, load) in enumerate(product(GROUPS, LOADS), start=1):
        found += priced(group, load, requests=requests)
        progress.step(PART, done, steps)
    bodies: dict[int, Built] = {}
    for done, turns in enumerate(effort.turns, start=steps - len(effort.turns) * 2 + 1):
        bodies[turns] = built(turns, effort)
        progress.step(PART, done, steps)
    missing = absent()
    sent: dict[int, dict[str, Posted]] = {}
    for done, turns in enumerate(effort.turns, start=steps - len(effort.turns) + 1):
        if not missing:
            sent[turns] = posted(Session(turns).render(a_live(1)), effort)
        progress.step(PART, done, steps)
    return Report(
        part=PART,
        tables=(*_cost_tables(found, requests), _building(bodies), *([_sending(sent)] if sent else [])),
        targets=tuple(_targets(found, bodies[most], most, sent.get(few))),
        figures=tuple(_figures(found, bodies, sent)),
        remarks=(f"sending: skipped, {', '.join(missing)} not installed",) if missing else (),
    )


# Cost.


def _cost_tables(found: Sequence[Priced], requests: int) -> Iterator[Table]:
    for name, prices in groupby(found, key=lambda price: price.group):
        what = "tokens computed" if name == "local server" else "input cost"
        yield Table(
            title=f"Placement: {name}",
            note=(
                f"{what.capitalize()} of {requests} requests with a reminder at every {EVERY}rd, beside the same "
                f"without; reminders of so many tokens, shown so many turns (- = all).\n"
                f"Two figures are for {CALLS[0]} and {CALLS[1]} calls per turn, where they differ. "
                "* = not ours. By the providers' published rules; no service was asked."
            ),
            columns=("placement", *(f"{size}, {ttl or '-'}" for size, ttl in product(SIZES, TTLS))),
            rows=tuple(_cost_rows([*prices])),
        )


def _cost_rows(prices: Sequence[Priced]) -> Iterator[tuple[str, ...]]:
    named: dict[str, dict[Load, float]] = {}
    for price in prices:
        cache = f" ({price.cache})" if price.cache else ""
        named.setdefault(f"{'' if price.way.ours else '* '}{price.way.name}{cache}", {})[price.load] = price.relative
    for name, costs in named.items():
        yield name, *(_pair([costs[Load(size, ttl, calls)] for calls in CALLS]) for size, ttl in product(SIZES, TTLS))


def _pair(costs: Sequence[float]) -> str:
    one, twelve = (f"{cost:.4f}" if cost < 2 else f"{cost:.2f}" for cost in costs)
    return one if one == twelve or abs(costs[0] - costs[1]) < 0.001 * costs[0] else f"{one} / {twelve}"


# Time.


def _building(bodies: Mapping[int, Built]) -> Table:
    others = [*next(iter(bodies.values())).whole]
    return Table(
        title="Building a request: ours, from what is new, beside encoding the whole body",
        note=(
            "Time for the body of one turn: a reply, a result, one reminder, three markers; the least 20th percentile of many rounds. "
            "Copied: as many finished bytes, put together from two halves.\n"
            f"Last columns: what {TEN} reminders add, when they are new and in the next request."
        ),
        columns=("turns", "body", "ours", "copied", *others, f"{TEN} reminders", "again"),
        rows=tuple(
            (
                f"{turns:,}",
                f"{body.size / 1e6:.2f} MB",
                duration(body.ours),
                duration(body.copied),
                *(f"{duration(body.whole[name])} ({times(body.whole[name] / body.ours)})" for name in others),
                duration(body.ten),
                duration(body.again),
            )
            for turns, body in bodies.items()
        ),
    )


def _sending(sent: Mapping[int, Mapping[str, Posted]]) -> Table:
    return Table(
        title="Sending finished bytes: official clients beside the HTTP library below them",
        note=(
            "CPU time of this process for one request and a short answer, over loopback; the least of rounds. "
            "Streamed: the official client again, where the answer comes in events."
        ),
        columns=("wire, turns", "httpx2", "official client", "more", "streamed"),
        rows=tuple(
            (
                f"{name}, {turns:,}",
                duration(spent.raw),
                duration(spent.client),
                duration(max(spent.client - spent.raw, 0.0)),
                duration(spent.streamed),
            )
            for turns, wires in sent.items()
            for name, spent in wires.items()
        ),
    )


# Targets and figures.


def _targets(found: Sequence[Priced], body: Built, turn: int, sent: Mapping[str, Posted] | None) -> Iterator[Target]:
    error = max(price.error for price in found if price.error is not None)
    yield Target(name="cost beside the law, relative error", limit=MAX_ERROR, measured=error, unit="error")
    yield Target(
        name=f"building a request at turn {turn:,}, beside {WHOLE} over the whole body",
        limit=MAX_BUILDING,
        measured=body.ours / body.whole[WHOLE],
    )
    yield Target(
        name="an official client, CPU time over httpx2",
        limit=MAX_CLIENT_NS,
        measured=None if sent is None else max(spent.client - spent.raw for spent in sent.values()),
        unit="ns",
    )


def _figures(
    found: Sequence[Priced], bodies: Mapping[int, Built], sent: Mapping[int, Mapping[str, Posted]]
) -> Iterator[Figure]:
    for price in found:
        tokens, ttl, calls = price.load
        yield Figure(
            name=f"{price.group} / {price.cache} / {price.way.name} / {tokens} tokens, {ttl or 'all'} turns, {calls} calls",
            value=price.relative,
            unit="cost",
        )
    for turns, body in bodies.items():
        yield Figure(name=f"building / turn {turns}", value=body.ours)
        yield Figure(name=f"copied / turn {turns}", value=body.copied)
        yield Figure(name=f"{TEN} reminders / turn {turns}", value=body.ten)
        yield Figure(name=f"{TEN} reminders again / turn {turns}", value=body.again)
        for name, needed in body.whole.items():
            yield Figure(name=f"{name} / turn {turns}", value=needed)
    for turns, wires in sent.items():
        for name, spent in wires.items():
            yield Figure(name=f"{name}, httpx2 / turn {turns}", value=spent.raw)
            yield Figure(name=f"{name}, official client / turn {turns}", value=spent.client)
            yield Figure(name=f"{name}, official client, streamed / turn {turns}", value=spent.streamed)
