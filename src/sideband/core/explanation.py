"""The form of a diagnostic: a code with its title, cause, remedy and example."""

from enum import StrEnum
from textwrap import dedent

import msgspec


class Severity(StrEnum):
    """An error is refused at run time, a warning is probably a mistake, and advice names a bad habit."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


class Language(StrEnum):
    PYTHON = "python"
    JSON = "json"
    TOML = "toml"


class Example(msgspec.Struct, frozen=True, kw_only=True):
    """The mistake and its correction."""

    language: Language
    wrong: str
    right: str


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """What a code means, why it occurs, and what to do about it.

    `names` are those of the errors that carry the code: the name of the class, and the `reason` if it has one.
    """

    code: str
    title: str
    severity: Severity
    cause: str
    remedy: str
    example: Example
    names: tuple[str, ...] = ()


def in_python(wrong: str, right: str) -> Example:
    return Example(language=Language.PYTHON, wrong=dedent(wrong).strip(), right=dedent(right).strip())


def in_json(wrong: str, right: str) -> Example:
    return Example(language=Language.JSON, wrong=dedent(wrong).strip(), right=dedent(right).strip())


def in_toml(wrong: str, right: str) -> Example:
    return Example(language=Language.TOML, wrong=dedent(wrong).strip(), right=dedent(right).strip())
