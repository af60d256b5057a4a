"""What the tools say no with: a sentence that tells the model what to do instead."""

from collections.abc import Iterator
from contextlib import contextmanager


class Refused(Exception):
    """Something the model asked for and does not get; the message is its answer."""


@contextmanager
def explained(path: object) -> Iterator[None]:
    """What the file system refuses is refused with the path that the model knows."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{path}: {error.strerror or error}") from error
