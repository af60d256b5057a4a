"""`sideband open`: the page of a running server, in a browser."""

import sys
import webbrowser
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.target import Flag

DEFAULT_URL: Final = "http://127.0.0.1:8640"


class _Link(msgspec.Struct, frozen=True):
    url: str


def open_page(
    url: Annotated[str, Parameter(metavar="URL")] = DEFAULT_URL,
    /,
    *,
    only_print: Annotated[Flag, Parameter(name="--print")] = False,
) -> int:
    """Open the page of a running `sideband serve` in a browser, which is logged in by a new one-time link.

    Exits with 2 if no server of yours answers at the address.

    Parameters
    ----------
    url
        The address of the server, or a link that it printed.
    only_print
        Print the link instead of opening it. It works once, for ten minutes.
    """
    from sideband.cli.server_client import ServerClient  # noqa: PLC0415 - the help does not need it

    try:
        # The link that `sideband serve` printed has a code in its fragment, which may have been used.
        client = ServerClient(url.partition("#")[0], argument="URL")
        link = msgspec.json.decode(client.post("links", body={}), type=_Link).url
    except REFUSALS as error:
        return refuse(error)
    if only_print or not webbrowser.open(link):
        print(link)
        if not only_print:
            print("No browser could be opened; open the link yourself.", file=sys.stderr)
    return OK
