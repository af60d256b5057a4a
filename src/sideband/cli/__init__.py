"""The command line."""

import io
import os
import sys

from sideband.cli.commands import COMMANDS

USAGE = """\
Usage: sideband COMMAND [OPTIONS]

The ambient-context layer for AI agents: system reminders with a lifecycle and a receipt for each.

Commands:
{commands}

Options:
  --help     show this page; behind a command, the command's own
  --version  show the version
"""


def overview() -> str:
    """What `sideband --help` prints."""
    width = max(map(len, COMMANDS))
    return USAGE.format(commands="\n".join(f"  {name:<{width}}  {about}" for name, (_, about) in COMMANDS.items()))


def main() -> None:
    """Run one command, for a reader who may not know all characters, may not read to the end, or may not be there."""
    # Without a standard output, as some service managers start programs, the interpreter leaves None in its place.
    sys.stdout = sys.stdout or io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            _run(sys.argv[1:])
        finally:
            # Left to the interpreter, a reader who is gone would be complained about after the end.
            sys.stdout.flush()
    except BrokenPipeError as left:
        # Whoever was reading has read enough; what is still in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # A command that had come to its end by then has its own status: findings stay findings.
        ended = left.__context__
        sys.exit(ended.code if isinstance(ended, SystemExit) else 0)


def _run(arguments: list[str]) -> None:
    """The overview needs nothing but this module, so that it appears at once."""
    match arguments:
        case [] | ["--help"] | ["-h"] | ["help"]:
            sys.stdout.write(overview())
        case _:
            from sideband.cli.app import app  # noqa: PLC0415 - the parser is loaded only for a command

            app(arguments)
