"""Running programs as a user does: each in its own process, with this interpreter."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).parents[1]
Answer: TypeAlias = subprocess.CompletedProcess[str]


def run_python(
    *arguments: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None, stdin: str | None = None
) -> Answer:
    """Run the interpreter with these arguments; `env` is added to the environment of the tests."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONUTF8": "1", **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def run_sideband(
    *arguments: str, cwd: Path = ROOT, env: Mapping[str, str] | None = None, stdin: str | None = None
) -> Answer:
    """Run the command line with these arguments."""
    return run_python("-m", "sideband.cli", *arguments, cwd=cwd, env=env, stdin=stdin)
