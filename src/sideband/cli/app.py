"""The parser of the command line, which loads each command when it is called, and how commands report errors."""

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from cyclopts import App, CycloptsError, UnknownOptionError, UnusedCliTokensError

from sideband import __version__
from sideband.cli import overview
from sideband.cli.commands import COMMANDS
from sideband.core.errors import (
    BodyTooLarge,
    CursorExpired,
    InvalidOption,
    InvalidReminder,
    ReminderError,
    StoreError,
    UnknownOption,
    UnknownPropagate,
    UnsupportedMode,
    shown,
    suggestion,
)
from sideband.inspect.report import CommandError, printable

app: Final = App(name="sideband", version=__version__, help=overview().splitlines()[2])
for _name, _command in COMMANDS.items():
    # A parser that is imported has an epilogue of its own.
    _options = {} if _command.has_subcommands else {"help_epilogue": _command.epilogue}
    app.command(_command.target, name=_name, **_options)

OK: Final = 0
REFUSED: Final = 1
FAILED: Final = 2
REFUSALS: Final = (ReminderError, StoreError, CommandError, OSError)
"""Errors that a command reports on one line; all others are bugs and show a traceback."""

# The session does not accept these whatever its state: the command was written wrongly.
_MISTAKES: Final = (InvalidOption, UnknownOption, InvalidReminder, UnknownPropagate, UnsupportedMode, BodyTooLarge)
# Fields of a reminder whose options have another name.
_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "body": "BODY",
        "content": "BODY",
        "tags": "--tag",
        "dedupe_key": "--key",
        "ttl_turns": "--ttl",
        "preserve_on_compact": "--preserve",
        "propagate": "--propagate",
        "role_hint": "--hint",
        "mode": "--mode",
        "id": "--id",
    }
)


def run(arguments: Sequence[str]) -> None:
    """Run the command that these arguments name; an error of the parser is printed like those of commands."""
    try:
        app(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        sys.exit(refuse(_usage_error(error)))


def refuse(error: Exception | str, *, option: str | None = None) -> int:
    """Print the error on a line of standard error, with its code or the possible targets below it; return the status.

    `option` is what the error is about, as it is written on the command line (None: no single one).
    """
    if isinstance(error, BrokenPipeError):
        # Standard output is closed; `main` handles it.
        raise error
    code: str | None = getattr(error, "code", None)
    text = str(error).removeprefix(f"{code}: ")
    if isinstance(error, CursorExpired):
        text = f"some events up to {error.oldest} have been pruned; continue with --after {error.oldest}"
    _complain(f"error: {printable(text if option is None else f'{option}: {text}')}")
    if code is not None:
        _complain(f"code: {code}; for the cause and the remedy: sideband explain {code}")
    for candidate in error.candidates if isinstance(error, CommandError) else ():
        _complain(f"  {candidate}")
    return FAILED


def refuse_request(error: Exception) -> int:
    """Print the error of a request to a session, with the option that it is about; return the exit status.

    The status is `REFUSED` if the session refuses a request that is correct in itself.
    """
    field = getattr(error, "field", None) or ""
    refuse(error, option=_OPTIONS.get(field.partition("[")[0]))
    return REFUSED if isinstance(error, ReminderError) and not isinstance(error, _MISTAKES) else FAILED


def _usage_error(error: CycloptsError) -> str:
    command = " ".join(error.command_chain or ())
    if isinstance(error, UnknownOptionError):
        return unknown_option(error.token.keyword or error.token.value or "", command)
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return _about_surplus(error.unused_tokens[0], command)
    error.verbose = False
    return str(error)


def unknown_option(argument: str, command: str) -> str:
    """What is said of an option that the command does not have."""
    name = argument.partition("=")[0]
    return f"there is no option {name}; {suggestion(name, options_of(command), kind='options')}"


def options_of(command: str) -> list[str]:
    """The options of a command."""
    found = _parser_of(command).assemble_argument_collection()
    return [name for option in found for name in option.names if name.startswith("--")]


def _parser_of(command: str) -> App:
    parser = app
    for name in command.split():
        parser = parser[name]
    return parser


def _about_surplus(argument: str, command: str) -> str:
    """What is said of an argument too many; it may be a target, which may hold a password and is not repeated then."""
    options = options_of(command)
    if argument.startswith(("http://", "https://")) and "--to" in options:
        where = "http://HOST:PORT" if command == "sessions" else "http://HOST:PORT#ID"
        return f"a running server is named with --to: sideband {command} --to {where}"
    if "://" in argument and "--store" in options:
        return f"a store is named with --store: sideband {command} --store STORE_URL"
    text = f"`sideband {command}` has no place for the argument {shown(argument)}"
    subcommands = [name for name in _parser_of(command) if not name.startswith("-")]
    if subcommands:
        return f"{text}; {suggestion(argument, subcommands, kind='subcommands')}"
    if "--to" in options and command != "sessions":
        return f"{text}; a session is named with --to: sideband {command} --to ID"
    return text


def _complain(line: str) -> None:
    print(line, file=sys.stderr)
