"""The PostgreSQL server that some of these tests use ends with the process that started it."""

from tests.faults.replay import tried
from tests.postgres import no_server_stays

__all__ = ["no_server_stays", "tried"]
