"""What it costs to start: the command line and the import of the library, beside a bare interpreter."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from types import MappingProxyType
from typing import Final

from benchmarks.effort import Effort, Progress
from benchmarks.report import MIB, Figure, Report, Table, Target, duration, size, times

PART: Final = "startup"
MAX_HELP_RATIO: Final = 4.0
MAX_LOOP_NS: Final = 0.25e9
MAX_LOOP_BYTES: Final = 60.0 * MIB

BARE: Final = "python -c pass"
IMPORT: Final = "import sideband"
# Names are loaded when first used; these two bring the loop and all it stands on.
LOOP: Final = "sb.agent_loop, sb.open_store"
HELP: Final = "sideband --help"

STATUS: Final = Path("/proc/self/status")
# The peak of the process itself; what the kernel reports to its parent includes the parent's own size.
PEAK: Final = f"""
for line in open({str(STATUS)!r}, encoding="ascii", errors="replace"):
    if line.startswith("VmHWM:"):
        print(line.split()[1])
"""
STATEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {BARE: "pass", IMPORT: "import sideband", LOOP: f"import sideband as sb; {LOOP}"}
)


def measure(effort: Effort, progress: Progress) -> Report:
    commands: dict[str, Sequence[str]] = {
        name: (sys.executable, "-c", statement) for name, statement in STATEMENTS.items()
    }
    script = shutil.which("sideband", path=str(Path(sys.executable).parent))
    commands[HELP] = (script or "sideband", "--help")
    # Starting each once is the warm-up, and shows which of them there are.
    absent = {name: reason for name, command in commands.items() if (reason := _trouble(command)) is not None}
    medians = _medians({name: command for name, command in commands.items() if name not in absent}, effort, progress)
    peaks = _peaks()
    ratio = medians[HELP] / medians[BARE] if HELP in medians else None
    return Report(
        part=PART,
        tables=(_table(medians, peaks, effort),),
        targets=(
            Target(name=f"{HELP}, beside {BARE}", limit=MAX_HELP_RATIO, measured=ratio),
            Target(name=f"{LOOP}: time", limit=MAX_LOOP_NS, measured=medians.get(LOOP), unit="ns"),
            Target(name=f"{LOOP}: peak memory", limit=MAX_LOOP_BYTES, measured=peaks.get(LOOP), unit="bytes"),
        ),
        figures=(
            *(Figure(name=name, value=value) for name, value in medians.items()),
            *(Figure(name=f"{name} / peak memory", value=value, unit="bytes") for name, value in peaks.items()),
        ),
        remarks=(
            *(f"{name}: skipped, {reason}" for name, reason in absent.items()),
            *(() if peaks else (f"peak memory: skipped, there is no {STATUS}",)),
        ),
    )


def _medians(commands: Mapping[str, Sequence[str]], effort: Effort, progress: Progress) -> dict[str, float]:
    spent: dict[str, list[int]] = {name: [] for name in commands}
    for done in range(1, effort.processes + 1):
        for name, command in commands.items():
            start = perf_counter_ns()
            _run(command)
            spent[name].append(perf_counter_ns() - start)
        progress.step(PART, done, effort.processes)
    return {name: median(values) for name, values in spent.items()}


def _trouble(command: Sequence[str]) -> str | None:
    """Why a command cannot be measured; None when it can."""
    try:
        answer = _run(command)
    except FileNotFoundError:
        return "there is no such command"
    if answer.returncode == 0:
        return None
    last = answer.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"it ends with {answer.returncode}: {''.join(last)}"


def _peaks() -> dict[str, int]:
    """The largest size in bytes of a process that does one thing; empty where the system does not tell."""
    if not STATUS.exists():
        return {}
    return {
        name: int(_run((sys.executable, "-c", statement + PEAK)).stdout) * 1024
        for name, statement in STATEMENTS.items()
    }


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603 - our own commands


def environment() -> dict[str, str]:
    """The environment of a process whose start is measured.

    A plain terminal, because the detection of colours is not part of the start. Bytecode is written even if the user has
    turned that off, because compiling is not part of the start either.
    """
    return {**os.environ, "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": ""}


def _table(medians: Mapping[str, float], peaks: Mapping[str, int], effort: Effort) -> Table:
    def cells(name: str) -> tuple[str, ...]:
        return (
            name,
            duration(medians[name]),
            times(medians[name] / medians[BARE]),
            "-" if name == BARE else duration(max(medians[name] - medians[BARE], 0.0)),
            size(peaks[name]) if name in peaks else "-",
        )

    return Table(
        title="Startup: a new process",
        note=f"Time from start to end: the median of {effort.processes} runs, of each command in turn.",
        columns=("command", "time", "x bare", "more", "peak memory"),
        rows=tuple(map(cells, medians)),
    )
