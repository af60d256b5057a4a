"""What is text, and where its lines end."""

from typing import Final

# Text has no NUL; whoever looks further than this for one only loses time.
BINARY_PROBE_BYTES: Final = 8192


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:BINARY_PROBE_BYTES]


def decoded(data: bytes) -> tuple[str, bool]:
    """The text, and whether all of it was valid UTF-8; what was not is replaced."""
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), False


def lines_of(text: str) -> list[str]:
    r"""Its lines with their ends. Only \n ends one, as in editors and compilers; `str.splitlines` knows more ends."""
    *ended, rest = text.split("\n")
    lines = [f"{line}\n" for line in ended]
    return [*lines, rest] if rest else lines
