"""The PostgreSQL servers of these tests end with the process that started them."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import psycopg
import pytest

from tests.postgres import SUPERUSER

ROOT: Final = Path(__file__).parents[2]
A_SERVER: Final = "from tests.postgres import Server; print(Server().directory, flush=True); input()"


def test_a_killed_process_leaves_no_running_server() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", A_SERVER],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().decode().strip())
        url = f"postgresql://{SUPERUSER}@/postgres?host={directory}"
        psycopg.connect(url).close()
        process.kill()
        # It exists while the process or the guard of its server can still write to it.
        assert process.stderr is not None
        process.stderr.read()
    assert not directory.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
