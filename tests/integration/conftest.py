"""What tests of several processes share."""

from tests.postgres import no_server_stays

__all__ = ["no_server_stays"]
