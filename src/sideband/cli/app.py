"""The parser of the command line; each command is loaded when it is called."""

from typing import Final

from cyclopts import App

from sideband import __version__
from sideband.cli import overview
from sideband.cli.commands import COMMANDS

app: Final = App(name="sideband", version=__version__, help=overview().splitlines()[2])
for _name, (_target, _about) in COMMANDS.items():
    app.command(_target, name=_name)
