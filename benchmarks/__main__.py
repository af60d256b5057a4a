"""Runs every part, prints its tables, then what was promised and what was measured."""

import argparse
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from benchmarks import (
    a2a,
    acp,
    codec,
    door,
    durable,
    durable_postgres,
    engine,
    loops,
    mcp_reminders,
    rendering,
    sessions,
    startup,
    studio,
    updates,
)
from benchmarks.effort import FULL, QUICK, Effort, Progress
from benchmarks.report import Report, Results, Target, target_lines

Measure = Callable[[Effort, Progress], Report]

# The order of the table is that of the run: processes are started before this one has grown large.
PARTS: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        startup.PART: startup.measure,
        loops.PART: loops.measure,
        acp.PART: acp.measure,
        mcp_reminders.PART: mcp_reminders.measure,
        a2a.PART: a2a.measure,
        studio.PART: studio.measure,
        durable.PART: durable.measure,
        durable_postgres.PART: durable_postgres.measure,
        sessions.PART: sessions.measure,
        codec.PART: codec.measure,
        door.PART: door.measure,
        updates.PART: updates.measure,
        engine.PART: engine.measure,
        rendering.PART: rendering.measure,
    }
)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments().parse_args(argv)
    effort = QUICK if arguments.quick else FULL
    environment = _environment()
    print(environment)
    if arguments.quick:
        print("A quick run: it shows that every part works; its figures mean nothing.")
    progress = Progress(sys.stderr)
    parts: dict[str, Measure] = {**PARTS, loops.PART: partial(loops.measure, peers=arguments.peers)}
    reports = []
    for name in arguments.part or parts:
        report = parts[name](effort, progress)
        progress.finish()
        _print(report)
        reports.append(report)
    targets = tuple(target for report in reports for target in report.targets)
    print(*target_lines(targets), sep="\n")
    if arguments.json is not None:
        results = Results(
            environment=environment,
            quick=arguments.quick,
            figures={report.part: report.figures for report in reports},
            targets=targets,
        )
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    return exit_code(targets, strict=arguments.strict)


def exit_code(targets: Sequence[Target], *, strict: bool) -> int:
    """A benchmark reports, it does not judge; unless it is told to."""
    return int(strict and not all(target.met for target in targets))


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run everything in tiny numbers, to see that it works")
    parser.add_argument("--part", action="append", choices=PARTS, help="run this part; may be given several times")
    parser.add_argument(
        "--peers",
        type=Path,
        default=loops.PEERS,
        metavar="VENV",
        help="where the frameworks are installed that the loop is measured beside",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a target is missed or not measured")
    return parser


def _environment() -> str:
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{platform.python_implementation()} {platform.python_version()}, msgspec {msgspec.__version__}, "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors{load}"
    )


def _print(report: Report) -> None:
    for table in report.tables:
        print(*table.lines(), "", sep="\n")
    for remark in report.remarks:
        print(remark, "", sep="\n")


if __name__ == "__main__":
    sys.exit(main())
