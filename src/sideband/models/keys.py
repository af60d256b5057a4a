"""Where the keys of the services are found."""

import os

from sideband.ports import ModelError


def need_key(service: str, given: str | None, *variables: str) -> None:
    """Refuse to go on without a key: one that was given, or one of the environment variables that its client reads."""
    if given is None and not any(map(os.environ.get, variables)):
        raise ModelError(f"{service} needs a key: set the environment variable {variables[0]}")
