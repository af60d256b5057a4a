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
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
