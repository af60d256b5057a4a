"""The command line."""

import io
import os
import sys

from sideband.cli.commands import COMMANDS, GROUPS

_INTERRUPTED = 130

USAGE = """\
Usage: sideband COMMAND [OPTIONS]

The ambient-context layer for AI agents: system reminders with a lifecycle and a receipt for each.

{groups}

Options:
  --help     show this page; after a command, show the help of that command
  --version  show the version
"""


def overview() -> str:
    """The text of `sideband --help`."""
    width = max(map(len, COMMANDS))
    groups = [
        "\n".join([f"{title}:", *(f"  {name:<{width}}  {command.about}" for name, command in group.items())])
        for title, group in GROUPS.items()
    ]
    return USAGE.format(groups="\n\n".join(groups))


def main() -> None:
    """Run one command; standard output may be missing, closed early, or unable to encode every character."""
    # Some service managers start programs without a standard output; then `sys.stdout` is None.
    sys.stdout = sys.stdout or io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            _run(sys.argv[1:])
        finally:
            # Flushing at interpreter exit would print a traceback if the pipe is closed.
            sys.stdout.flush()
    except KeyboardInterrupt:
        # Before the command was ready to handle it.
        sys.exit(_INTERRUPTED)
    except BrokenPipeError as left:
        # The reader closed the pipe, as `head` does; discard what is still in the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # If the command had already ended, keep its exit status: problems found by `lint` still count.
        ended = left.__context__
        sys.exit(ended.code if isinstance(ended, SystemExit) else 0)


def _run(arguments: list[str]) -> None:
    match arguments:
        case [] | ["--help"] | ["-h"] | ["help"]:
            sys.stdout.write(overview())
        case _:
            from sideband.cli.app import run  # noqa: PLC0415 - the overview is quick because it loads no parser

            run(arguments)
