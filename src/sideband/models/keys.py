"""Where the keys of the services are found."""

import os

from sideband.ports import ModelError


def need_key(service: str, given: str | None, *variables: str) -> None:
    """Refuse to go on without a key: one that was given, or one of the environment variables that its client reads."""
    if given is not None and given.strip():
        check_key(service, given)
        return
    found = {name: value for name in variables if (value := os.environ.get(name, "")).strip()}
    if given is not None or not found:
        raise ModelError(f"{service} needs a key: set the environment variable {variables[0]}")
    for name, value in found.items():
        check_key(service, value, name)


def check_key(service: str, key: str, variable: str | None = None) -> None:
    """Refuse a key that no request can be sent with; `variable` is where it comes from (None: the program gave it).

    A client would refuse it too, and quote it.
    """
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        remedy = "give another" if variable is None else f"set the environment variable {variable} again"
        raise ModelError(f"the key for {service} holds a line break, a quotation mark or the like: {remedy}")
