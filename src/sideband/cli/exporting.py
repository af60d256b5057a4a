"""A file that is written whole or not at all, for its owner's eyes only."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

OWNER_ONLY: Final = 0o600


@contextmanager
def private_file(path: Path) -> Iterator[TextIO]:
    """What is written appears at the path when all of it is on the disk; after an error nothing has changed there."""
    if path.is_dir():
        raise OSError(f"{path} cannot be written: it is a folder")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    with _naming(path):
        handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with _naming(path):
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What goes wrong is told of the file that is wanted: of the one it is put together in nobody has heard."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{path} cannot be written: {error.strerror}") from error
