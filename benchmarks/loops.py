"""The CPU time of an agent loop per turn: ours, a bare loop, and other frameworks."""

import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from benchmarks.effort import Effort, Progress
from benchmarks.report import Figure, Report, Table, Target, duration, times

PART: Final = "loops"
MAX_GROWTH: Final = 1.2
LEAST_RATIO: Final = 15.0

ROOT: Final = Path(__file__).parents[1]
# Where the frameworks are; set up by `make bench`, which leaves the mark only when all of them are there.
PEERS: Final = ROOT / ".venv-peers"
MARK: Final = ".installed"
# How far around a turn its time is looked for: one turn alone may have been disturbed.
NEAR: Final = 5

# No framework may phone home meanwhile.
QUIETLY: Final[Mapping[str, str]] = MappingProxyType(
    {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
)


class Contender(NamedTuple):
    """A loop, and where it is found; `distribution` is the framework it needs (None: nothing but ourselves)."""

    name: str
    module: str
    function: str = "run"
    distribution: str | None = None


BARE: Final = Contender("bare asyncio loop", "bare")
OURS: Final = Contender("ours", "ours")
CONTENDERS: Final = (
    BARE,
    OURS,
    Contender("ours, 10 reminders live", "ours", "run_with_reminders"),
    Contender("ours, reminders=False", "ours", "run_without_providers"),
    Contender("langgraph, two nodes", "langgraph", distribution="langgraph"),
    Contender("langchain, create_agent", "langchain", distribution="langchain"),
    Contender("pydantic-ai, Agent", "pydantic_ai", distribution="pydantic-ai-slim"),
    Contender("openai-agents, Runner", "openai_agents", distribution="openai-agents"),
)
FRAMEWORKS: Final = tuple(contender for contender in CONTENDERS if contender.distribution is not None)


class Cost(NamedTuple):
    """Nanoseconds of CPU time per turn: on average over the first ones, and around single turns, by their number."""

    per_turn: float
    at: Mapping[int, float]


def measure(effort: Effort, progress: Progress, *, peers: Path = PEERS) -> Report:
    has_peers = (peers / MARK).exists()
    python = str(peers / "bin" / "python") if has_peers else sys.executable
    contenders = CONTENDERS if has_peers else tuple(c for c in CONTENDERS if c not in FRAMEWORKS)
    costs, failures = _costs(contenders, python, effort, progress)
    absent = () if has_peers else (f"{', '.join(c.name for c in FRAMEWORKS)}: skipped, they are not installed",)
    return Report(
        part=PART,
        tables=(_table(costs, _versions(python) if has_peers else "", effort),),
        targets=tuple(_targets(costs, effort)),
        figures=tuple(_figures(costs)),
        remarks=(*absent, *(f"{name}: skipped, {reason}" for name, reason in failures.items())),
    )


# Running them.


def _costs(
    contenders: Sequence[Contender], python: str, effort: Effort, progress: Progress
) -> tuple[dict[str, Cost], dict[str, str]]:
    """The least cost of each loop that runs, and why the others do not."""
    _, many, most = effort.turns
    costs: dict[str, Cost] = {}
    failures: dict[str, str] = {}
    done, total = 0, effort.runs * len(contenders)
    for round_ in range(effort.runs):
        for contender in contenders:
            # A framework takes up to a minute for so many turns: it does so once.
            turns = most if round_ == 0 or contender.distribution is None else many
            try:
                cost = _cost(_laps(contender, python, turns + NEAR), effort)
            except subprocess.CalledProcessError as error:
                failures[contender.name] = _reason(error)
            else:
                costs[contender.name] = _least(costs.get(contender.name), cost)
            done += 1
            progress.step(PART, done, total)
    return costs, failures


def _laps(contender: Contender, python: str, turns: int) -> list[float]:
    module = f"benchmarks.contenders.{contender.module}"
    answer = subprocess.run(  # noqa: S603 - our own program
        (python, "-m", "benchmarks.laps", module, contender.function, str(turns)),
        cwd=ROOT,
        env={**os.environ, **QUIETLY},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return msgspec.json.decode(answer.stdout, type=list[float])


def _reason(error: subprocess.CalledProcessError) -> str:
    last = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"it ends with {error.returncode}: {''.join(last)}"


def _cost(laps: Sequence[float], effort: Effort) -> Cost:
    _, many, _ = effort.turns
    return Cost(fmean(laps[:many]), {turn: _around(laps, turn) for turn in effort.turns if turn + NEAR <= len(laps)})


def _around(laps: Sequence[float], turn: int) -> float:
    """The 20th percentile of the turns around one: most of what disturbs a turn makes it longer."""
    near = sorted(laps[max(0, turn - 1 - NEAR) : turn + NEAR])
    return near[len(near) // 5]


def _least(one: Cost | None, other: Cost) -> Cost:
    if one is None:
        return other
    at = {turn: min(cost, other.at.get(turn, math.inf)) for turn, cost in one.at.items()}
    return Cost(min(one.per_turn, other.per_turn), at)


def _versions(python: str) -> str:
    """The frameworks with their versions, in words."""
    names = [c.distribution for c in FRAMEWORKS]
    script = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    answer = subprocess.run((python, "-c", script, *filter(None, names)), capture_output=True, check=True)  # noqa: S603 - our own program
    return ", ".join(f"{name} {version}" for name, version in zip(names, answer.stdout.decode().split(), strict=True))


# Reporting.


def _targets(costs: Mapping[str, Cost], effort: Effort) -> Iterator[Target]:
    few, _, most = effort.turns
    ours = costs.get(OURS.name)
    yield Target(
        name=f"ours at turn {most:,}, beside turn {few:,}",
        limit=MAX_GROWTH,
        measured=ours.at[most] / ours.at[few] if ours else None,
    )
    for framework in FRAMEWORKS:
        theirs = costs.get(framework.name)
        ratio = theirs.per_turn / ours.per_turn if theirs and ours else None
        yield Target(name=f"{framework.name}, beside ours", limit=LEAST_RATIO, measured=ratio, at_least=True)


def _figures(costs: Mapping[str, Cost]) -> Iterator[Figure]:
    for name, cost in costs.items():
        yield Figure(name=f"{name} / per turn", value=cost.per_turn)
        for turn, spent in cost.at.items():
            yield Figure(name=f"{name} / turn {turn}", value=spent)


def _table(costs: Mapping[str, Cost], versions: str, effort: Effort) -> Table:
    few, many, most = effort.turns

    def ratio(cost: Cost, beside: Contender) -> str:
        other = costs.get(beside.name)
        return "-" if other is None else times(cost.per_turn / other.per_turn)

    def cells(name: str, cost: Cost) -> tuple[str, ...]:
        return (
            name,
            duration(cost.per_turn),
            ratio(cost, BARE),
            ratio(cost, OURS),
            *(duration(cost.at[turn]) for turn in effort.turns),
            times(cost.at[most] / cost.at[few]),
        )

    return Table(
        title="Loops: a model that answers at once, and one trivial tool per turn",
        note=(
            f"CPU time from one reply of the model to the next question, without the time in which ours builds the "
            f"request: the mean of {many:,} turns,\nand the 20th percentile around single turns. The least of "
            f"{effort.runs} runs, each in a process of its own, of all loops in turn;\nframeworks take more than "
            f"{many:,} turns in one run only. Bare checks, stores and reports nothing.\n"
            f"x = beside it, and beside ours; growth = turn {most:,} / turn {few:,}."
            + (f"\n{versions}." if versions else "")
        ),
        columns=("loop", "per turn", "x bare", "x ours", *(f"turn {turn:,}" for turn in effort.turns), "growth"),
        rows=tuple(cells(name, cost) for name, cost in costs.items()),
    )
