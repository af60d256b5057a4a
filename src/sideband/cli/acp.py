"""`sideband acp`: an agent that editors start and talk to over ACP."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.target import StoreOption, store_of
from sideband.inspect.report import CommandError

if TYPE_CHECKING:
    from sideband.protocols.mcp.servers import LazyServers

MODEL_VARIABLE: Final = "SIDEBAND_MODEL"


def acp(
    *,
    model: str | None = None,
    store: StoreOption = None,
    workspace: Annotated[str | None, Parameter(metavar="FOLDER")] = None,
    principal: str = "client",
    mcp_config: Annotated[str | None, Parameter(metavar="FILE")] = None,
) -> int:
    """Serve the sessions of a store to an editor, over ACP on standard input and output.

    An editor starts this command; `docs/acp.md` shows the settings of several editors. Versions 1 and 2 of the protocol
    are spoken. Sessions are kept in the store, so they can be loaded after a restart, and other programs can send them
    reminders with `sideband remind`. The command ends when its standard input ends, or with Ctrl-C; a turn that runs is then
    cancelled.

    Messages for people go to standard error. Exits with 2 if the store or the folder cannot be used.

    Parameters
    ----------
    model
        The model: `anthropic:NAME`, `openai:NAME`, `google:NAME`, `openai-compatible:NAME`, `local:` or `scripted:TEXT`.
        The default is the value of `$SIDEBAND_MODEL`. The key of a provider is read from its usual variable.
    workspace
        The folder that all sessions work in. Without it, each works in the folder that the editor names.
    principal
        The sender that is recorded with what the editor sends.
    mcp_config
        A file with MCP servers, in the format that other hosts use (`mcpServers`). All sessions get their tools and
        reminders. Needs `sideband[mcp]`.
    """
    try:
        if workspace is not None and not os.path.isdir(workspace):  # noqa: PTH112 - pathlib is not needed to start
            raise CommandError(f"--workspace must be a folder that exists, not {workspace!r}")
        url = store_of(store, must_exist=False)
        model = checked_model(model or os.environ.get(MODEL_VARIABLE) or None)
        if os.isatty(0):
            print("An editor starts this command; it waits for ACP messages. Ctrl-C ends it.", file=sys.stderr)
        asyncio.run(_serve(model, url, workspace, principal, servers_of(mcp_config)))
    except REFUSALS as error:
        return refuse(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        # A signal before the agent was ready to handle it; asyncio makes it a cancellation.
        return OK
    return OK


def checked_model(model: str | None) -> str | None:
    """The name of a model, which may be None; `CommandError` if it has no known form."""
    from sideband.runtime.models import TRANSPORTS  # noqa: PLC0415 - the help does not need it

    if model is not None and model.partition(":")[0] not in TRANSPORTS:
        raise CommandError(
            f"--model and ${MODEL_VARIABLE} name a model in one of these forms: {', '.join(TRANSPORTS.values())}; "
            f"not {model!r}"
        )
    return model


def servers_of(config: str | None) -> "LazyServers | None":
    """The MCP servers for an agent, with those of a configuration file (None: only those that clients name).

    None if the packages for MCP are missing and no file was given; `CommandError` if one was given.
    """
    from sideband.protocols.mcp.config import read_config_file  # noqa: PLC0415 - the help does not need it
    from sideband.protocols.mcp.servers import LazyServers, is_installed  # noqa: PLC0415 - see above

    if is_installed():
        return LazyServers(() if config is None else read_config_file(config))
    if config is not None:
        raise CommandError("--mcp-config needs packages that are not installed; install 'sideband[mcp]'")
    return None


async def _serve(
    model: str | None, store_url: str, workspace: str | None, principal: str, servers: "LazyServers | None"
) -> None:
    # Imported here, so that the help appears fast.
    from sideband.protocols.acp.agent import AcpAgent  # noqa: PLC0415 - see above
    from sideband.protocols.frames import standard_streams  # noqa: PLC0415 - see above
    from sideband.runtime.store import open_store  # noqa: PLC0415 - see above

    async with (
        standard_streams() as streams,
        open_store(store_url) as store,
        AcpAgent(store, model=model, workspace=workspace, principal=principal, servers=servers) as agent,
    ):
        serving = asyncio.ensure_future(agent.serve(streams))
        for stop in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(stop, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving
