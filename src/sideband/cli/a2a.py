"""`sideband a2a`: an agent that other agents give tasks to, over A2A."""

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple
from urllib.parse import urlsplit

from cyclopts import Parameter
from cyclopts.validators import Number

from sideband.cli.acp import MODEL_VARIABLE, checked_model, servers_of
from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.listen import listen, stop_at_signals, url_of
from sideband.cli.target import Flag, StoreOption, store_of
from sideband.inspect.report import CommandError
from sideband.ports import ModelError

if TYPE_CHECKING:
    from sideband.protocols.mcp.servers import LazyServers
    from sideband.runtime.options import AgentOptions

DEFAULT_PORT: Final = 8642
_SYSTEM: Final = (
    "You are an agent that other agents give tasks to. Do the task, then answer with its result. "
    "If something that you need is missing, say so in your answer."
)
_IN_FOLDER: Final = " You work in the folder {folder} with the tools that you are given; paths are relative to it."


def a2a(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))] = DEFAULT_PORT,
    host: str = "127.0.0.1",
    url: str | None = None,
    model: str | None = None,
    store: StoreOption = None,
    peers: Annotated[str | None, Parameter(metavar="FILE")] = None,
    workspace: Annotated[str | None, Parameter(metavar="FOLDER")] = None,
    mcp_config: Annotated[str | None, Parameter(metavar="FILE")] = None,
    trust: str = "ceilings",
    ask: Flag = False,
    name: str = "sideband",
) -> int:
    """Serve an agent over A2A, so that other agents can give it tasks and tell it something while it works.

    JSON-RPC is served at the root, HTTP+JSON beside it, and the agent card at /.well-known/agent-card.json. Tasks are
    sessions of the store. A task that is running when the command ends is continued by the next one. `sideband remind`
    reaches a task by its id, or from another machine with `--to a2a+http://HOST:PORT#TASK`.

    Without `--peers` only programs of this machine can connect: one with your token as you, any other as the peer
    `local`. Ctrl-C ends the command. Exits with 2 if the address, the store, the folder or a file cannot be used.

    Parameters
    ----------
    port
        The port; 0 chooses a free one.
    host
        The address to listen on. One that other machines can reach needs `--peers`.
    url
        The address by which callers reach the server, if it is another one than `http://HOST:PORT`.
    model
        The model: `anthropic:NAME`, `openai:NAME`, `google:NAME`, `openai-compatible:NAME`, `local:` or `scripted:TEXT`.
        The default is the value of `$SIDEBAND_MODEL`. The key of a provider is read from its usual variable.
    peers
        A TOML file with the callers and their tokens; `docs/a2a.md` describes it. Only its owner may be able to read it.
    workspace
        A folder that the agent works in. It gets tools that read and change files there and run commands. Without it,
        the agent has no such tools.
    mcp_config
        A file with MCP servers, in the format that other hosts use (`mcpServers`). All tasks get their tools and
        reminders. Needs `sideband[mcp]`.
    trust
        `ceilings` limits what the reminders of peers may ask for; `seed` lifts these limits.
    ask
        Ask the caller of a task before a tool runs that may change something. The task then waits for input.
    name
        The name of the agent on its card.
    """
    try:
        model = checked_model(model or os.environ.get(MODEL_VARIABLE) or None)
        if model is None:
            raise CommandError(f"no model is named; use --model anthropic:NAME, --model local: or ${MODEL_VARIABLE}")
        if workspace is not None and not os.path.isdir(workspace):  # noqa: PTH112 - pathlib is not needed to start
            raise CommandError(f"--workspace must be a folder that exists, not {workspace!r}")
        if not name.strip():
            raise CommandError("--name must not be blank")
        if trust not in ("ceilings", "seed"):
            raise CommandError(f"--trust must be 'ceilings' or 'seed', not {trust!r}")
        wanted = _Wanted(
            host=host.strip("[]"),
            port=port,
            url=url,
            model=model,
            store_url=store_of(store, must_exist=False),
            peers=peers,
            workspace=workspace,
            trust=trust,
            name=name,
            asks=ask,
        )
        asyncio.run(_serve(wanted, servers_of(mcp_config)))
    except ModuleNotFoundError as error:
        missing = (error.name or "a package").partition(".")[0]
        return refuse(f"{missing} is not installed, and this command needs it: pip install 'sideband[a2a,serve]'")
    except (*REFUSALS, ModelError) as error:
        return refuse(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        # A signal before the server was ready to handle it; asyncio makes it a cancellation.
        return OK
    return OK


class _Wanted(NamedTuple):
    """The options of the command, read."""

    host: str
    port: int
    url: str | None
    model: str
    store_url: str
    peers: str | None
    workspace: str | None
    trust: str
    name: str
    asks: bool


async def _serve(wanted: _Wanted, servers: "LazyServers | None") -> None:
    stopping = stop_at_signals()
    # These imports take most of the time until the first answer; the help does not need them.
    from sideband.core.trust import TrustPolicy  # noqa: PLC0415 - see above
    from sideband.logs import quieten  # noqa: PLC0415 - see above
    from sideband.protocols.a2a import A2aServer, read_peers_file  # noqa: PLC0415 - see above
    from sideband.protocols.http import LOOPBACK_HOSTS, is_loopback, serve_app  # noqa: PLC0415 - see above
    from sideband.runtime.home import operator_token  # noqa: PLC0415 - see above
    from sideband.runtime.store import open_store  # noqa: PLC0415 - see above
    from sideband.tools.workspace import workspace_tools  # noqa: PLC0415 - see above

    quieten("a2a")
    peers = None if wanted.peers is None else read_peers_file(wanted.peers)
    is_local = is_loopback(wanted.host)
    if peers is None and not is_local:
        raise CommandError(
            f"--host {wanted.host} can be reached by other machines, so it needs --peers FILE with the callers and their "
            "tokens"
        )
    if wanted.url is None and wanted.host in ("0.0.0.0", "::"):  # noqa: S104 - refused here
        raise CommandError(f"--host {wanted.host} is not an address that callers can connect to; name one with --url")
    with listen(wanted.host, wanted.port, remedy="choose another one with --port, or --port 0") as listening:
        own = url_of(listening, wanted.host)
        url = wanted.url or own
        # A name from --url is that of a proxy in front of this server, or of this machine.
        named = urlsplit(url)
        if named.scheme not in ("http", "https") or not named.hostname or "@" in url or named.query or named.fragment:
            raise CommandError(
                "--url must be an address like https://agents.example.org/a2a, without a password or a query"
            )
        if peers is None and not is_loopback(named.hostname):
            raise CommandError(
                f"--url names {named.hostname}, so that other machines reach this server; it needs --peers FILE with the "
                "callers and their tokens"
            )
        async with (
            open_store(wanted.store_url) as store,
            A2aServer(
                store,
                model=wanted.model,
                url=url,
                name=wanted.name,
                service=_service(wanted),
                peers=peers,
                operator_token=operator_token(),
                trust=TrustPolicy(wanted.trust),
                allowed_hosts=(*LOOPBACK_HOSTS, wanted.host, named.netloc, named.hostname),
                servers=servers,
                tools_of=None if wanted.workspace is None else partial(workspace_tools, wanted.workspace),
                options=run_options(wanted.workspace),
                asks=wanted.asks,
            ) as server,
        ):
            print(f"A2A agent {wanted.name}: {url}", flush=True)
            if url != own:
                print(f"listening on {own}", flush=True)
            await serve_app(server.app, listening, stopping=stopping, stop=server.stop)


def _service(wanted: _Wanted) -> str:
    """The name for the tasks of this agent: agents with other tools or permissions must not continue them."""
    folder = "" if wanted.workspace is None else os.path.abspath(wanted.workspace)  # noqa: PTH100 - as below
    return "|".join(filter(None, (wanted.name, folder, "ask" if wanted.asks else "")))


def run_options(workspace: str | None) -> "AgentOptions":
    """The options of tasks that work in this folder (None: in none)."""
    from sideband.providers.context import WorkspaceAnchor  # noqa: PLC0415 - the help does not need it

    # The model is given to the server by itself.
    options: AgentOptions = {"system": _SYSTEM, "compactor": "summarize"}  # type: ignore[typeddict-item]
    if workspace is not None:
        folder = os.path.abspath(workspace)  # noqa: PTH100 - as in the other commands
        options["system"] = _SYSTEM + _IN_FOLDER.format(folder=folder)
        options["anchor"] = WorkspaceAnchor(primary=folder)
    return options
