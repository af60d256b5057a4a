"""`sideband serve`: the studio, its HTTP API, and agents over ACP and A2A, on one address of this machine."""

import asyncio
import os
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from threading import Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from cyclopts import Parameter
from cyclopts.validators import Number

from sideband.cli.acp import MODEL_VARIABLE, checked_model, servers_of
from sideband.cli.app import OK, REFUSALS, refuse
from sideband.cli.listen import PortInUse, listen, stop_at_signals, url_of
from sideband.cli.open import DEFAULT_URL
from sideband.cli.target import Flag, StoreOption, store_of
from sideband.core.masking import mask_text
from sideband.inspect.report import CommandError, printable
from sideband.logs import LOG
from sideband.ports import ModelError

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

    from sideband.ports import Model
    from sideband.rehearsal import Rehearsal
    from sideband.runtime.options import AgentOptions
    from sideband.runtime.session import Session
    from sideband.runtime.store import Store
    from sideband.studio import Studio

DEFAULT_PORT: Final = 8640
CARD_PATH: Final = "/.well-known/agent-card.json"
# If the port is taken, so many after it are tried.
_NEXT_PORTS: Final = 20
# The number of files and connections that the server has open at most; half of them are for event streams.
_MAX_FILES: Final = 20_000

# What is printed instead of the name of the model: without and with a rehearsal.
_WITHOUT_MODEL: Final = (
    "none: sessions can be watched and told something (see --model)",
    "a script, for the rehearsal; other sessions can be watched and told something (see --model)",
)
# The model of new sessions if none is named, by the variable with the key for it.
_BY_KEY: Final[Mapping[str, str]] = MappingProxyType(
    {"ANTHROPIC_API_KEY": "anthropic:claude-opus-5-5", "OPENAI_API_KEY": "openai:gpt-5.6"}
)


def serve(
    *,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65_535))] = DEFAULT_PORT,
    host: str = "127.0.0.1",
    store: StoreOption = None,
    model: str | None = None,
    workspace: Annotated[str | None, Parameter(metavar="FOLDER")] = None,
    mcp_config: Annotated[str | None, Parameter(metavar="FILE")] = None,
    peers: Annotated[str | None, Parameter(metavar="FILE")] = None,
    rehearsal: Flag = False,
    fast: Flag = False,
    open_browser: Annotated[bool | None, Parameter(name="--open", negative="--no-open", show_default=False)] = None,
) -> int:
    """Show the sessions of a store on a page, live, and act on them; serve them to programs, editors and other agents.

    The command prints a link that logs your browser in, once; `sideband open` makes another one. The page shows what each
    session has said, what the model was told on the side, and the exact request of each turn. Other programs use the same
    address: the HTTP API is described at /openapi.json, editors connect over ACP at /acp, and other agents over A2A at
    /a2a. `sideband remind "…" --to http://HOST:PORT#ID` reaches a session.

    Only programs of this machine can connect, and they need your token. Ctrl-C ends the command. Exits with 2 if the
    address, the store, the folder or a file cannot be used.

    Parameters
    ----------
    port
        The port; if it is taken, the next free one is used. 0 chooses any free one.
    host
        A loopback address: 127.0.0.1, ::1 or localhost.
    model
        The model of new sessions: `anthropic:NAME`, `openai:NAME`, `openai-chat:NAME`, `google:NAME`,
        `openai-compatible:NAME`, `local:` or `scripted:TEXT`. The default is the value of `$SIDEBAND_MODEL`, or a model of the provider whose key is set in
        `$ANTHROPIC_API_KEY` or `$OPENAI_API_KEY`. Without a model, sessions can be watched and told something.
    workspace
        The folder that new sessions work in; the default is the current one. The page asks before a tool changes
        something.
    mcp_config
        A file with MCP servers, in the format that other hosts use (`mcpServers`). Sessions get their tools and reminders.
    peers
        A TOML file with the agents that may give tasks over A2A, and their tokens (see `sideband a2a`). Without it, only
        callers with your token may.
    rehearsal
        Play a session in which a scripted model fixes a real bug while it receives reminders. Without `--store`,
        everything is kept in a temporary store.
    fast
        Play the rehearsal without pauses.
    open_browser
        Open the page in a browser. The default is to open it if there is a screen and the command runs in a terminal.
    """
    try:
        wanted = _Wanted(
            host=host.strip("[]"),
            port=port,
            store_url=None if rehearsal and store is None else store_of(store, must_exist=False),
            model=model or os.environ.get(MODEL_VARIABLE) or None,
            workspace=workspace,
            mcp_config=mcp_config,
            peers=peers,
            has_rehearsal=rehearsal,
            is_fast=fast,
            opens=_has_screen() if open_browser is None else open_browser,
        )
        _check(wanted)
        asyncio.run(_serve(wanted))
    except ModuleNotFoundError as error:
        missing = (error.name or "a package").partition(".")[0]
        return refuse(f"{missing} is not installed, and this command needs it: pip install 'sideband[all]'")
    except (*REFUSALS, ModelError) as error:
        return refuse(error)
    except (KeyboardInterrupt, asyncio.CancelledError):
        # A signal before the server was ready to handle it; asyncio makes it a cancellation.
        return OK
    return OK


class _Wanted(NamedTuple):
    """The options of the command, read; `store_url=None` is a temporary store."""

    host: str
    port: int
    store_url: str | None
    model: str | None
    workspace: str | None
    mcp_config: str | None
    peers: str | None
    has_rehearsal: bool
    is_fast: bool
    opens: bool

    @property
    def folder(self) -> str:
        return os.path.abspath(self.workspace or os.curdir)  # noqa: PTH100 - pathlib is not needed to start


def _check(wanted: _Wanted) -> None:
    from sideband.protocols.http import is_loopback  # noqa: PLC0415 - the help does not need it

    checked_model(wanted.model)
    if not is_loopback(wanted.host):
        raise CommandError(
            f"--host must be 127.0.0.1, ::1 or localhost, not {wanted.host!r}: the studio serves this machine only. To reach it "
            "from elsewhere, forward the port with ssh -L"
        )
    # Checked before anything is opened; each application has servers of its own.
    servers_of(wanted.mcp_config)
    if not os.path.isdir(wanted.folder):  # noqa: PTH112 - as above
        raise CommandError(f"--workspace must be a folder that exists, not {wanted.workspace!r}")


def _has_screen() -> bool:
    is_windowed = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return is_windowed and sys.stdout.isatty()


async def _serve(wanted: _Wanted) -> None:
    stopping = stop_at_signals()
    async with AsyncExitStack() as stack:
        listening = stack.enter_context(_listen(wanted))
        url = url_of(listening, wanted.host)
        store_url = wanted.store_url or _temporary_store(stack)
        await _Server(wanted, store_url, url, stack).run(listening, stopping)


def _listen(wanted: _Wanted) -> "socket.socket":
    """A socket at the wanted port, or at the next free one."""
    remedy = "choose another one with --port, or --port 0"
    last = wanted.port if wanted.port == 0 else min(wanted.port + _NEXT_PORTS, 65_535)
    for port in range(wanted.port, last):
        with suppress(PortInUse):
            found = listen(wanted.host, port, remedy=remedy)
            if port != wanted.port:
                _note(f"port {wanted.port} is in use; the next free one is {port}")
            return found
    return listen(wanted.host, last, remedy=remedy)


def _temporary_store(stack: AsyncExitStack) -> str:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sideband-"))
    return f"sqlite:///{os.path.join(folder, 'sideband.db')}"  # noqa: PTH118 - as above


class _Server:
    """The parts of the server. The store is opened first and closed last."""

    def __init__(self, wanted: _Wanted, store_url: str, url: str, stack: AsyncExitStack) -> None:
        self._wanted = wanted
        self._store_url = store_url
        self._url = url
        self._stack = stack
        self._rehearsal: Rehearsal | None = None
        self._model: Model | None = None
        self._model_name: str | None = None
        self._stops: list[Callable[[], None]] = []
        self._mounts: dict[str, ASGIApp] = {}
        self._cards: dict[str, ASGIApp] = {}
        self._without_a2a = ""

    async def run(self, listening: "socket.socket", stopping: asyncio.Event) -> None:
        # These imports take most of the time until the first answer; the help does not need them.
        import uvicorn  # noqa: F401, PLC0415 - see above; if it is missing, nothing was printed yet

        from sideband.logs import quieten  # noqa: PLC0415 - see above
        from sideband.protocols.http import serve_app  # noqa: PLC0415 - see above
        from sideband.runtime.home import operator_token  # noqa: PLC0415 - see above
        from sideband.runtime.store import open_store  # noqa: PLC0415 - see above

        # It complains about requests that are cut off when the server ends; the applications log their own failures.
        quieten("uvicorn.error")
        self._read_model()
        token = operator_token()
        store = await self._stack.enter_async_context(open_store(self._store_url))
        studio = await self._studio(store, token)
        await self._acp(store, token, studio)
        await self._a2a(store, token)
        # Before the link, so that the page has something to show when it is opened.
        await self._begin_rehearsal()
        link = studio.login_url()
        self._print(link)
        if self._wanted.opens:
            # Some browsers run in the terminal, or do not return; the end of the server does not wait for them.
            Thread(target=webbrowser.open, args=(link,), daemon=True).start()
        await serve_app(_mounted(self._mounts, self._cards, studio.app), listening, stopping=stopping, stop=self._stop)

    def _stop(self) -> None:
        for stop in self._stops:
            stop()

    def _read_model(self) -> None:
        from sideband.runtime.models import read_model  # noqa: PLC0415 - the help does not need it

        self._model_name = self._wanted.model
        if self._model_name is not None:
            self._model = read_model(self._model_name)
            return
        name = next((model for key, model in _BY_KEY.items() if os.environ.get(key, "").strip()), None)
        if name is not None:
            try:
                self._model, self._model_name = read_model(name), name
            except ModelError as error:
                # It was not asked for, so the rest of the server is of use without it.
                _note(f"{name} is not used: {error}")

    # The parts.

    async def _studio(self, store: "Store", token: str) -> "Studio":
        from sideband.rehearsal import Rehearsal  # noqa: PLC0415 - the help does not need it
        from sideband.studio import Studio  # noqa: PLC0415 - the same
        from sideband.studio.runs import ReplyTexts  # noqa: PLC0415 - the same

        texts = ReplyTexts()
        rehearsal = Rehearsal(store, fast=self._wanted.is_fast, on_reply=texts.add)
        self._rehearsal = await self._stack.enter_async_context(rehearsal)
        studio = Studio(
            store,
            store_url=self._store_url,
            url=self._url,
            token=token,
            options_of=self._options_of,
            allowed_hosts=_hosts(self._url),
            workspace=self._wanted.folder,
            model=self._model_name,
            texts=texts,
            servers=servers_of(self._wanted.mcp_config),
            rehearsals=self._rehearsal,
            max_streams=_raised_file_limit() // 2,
        )
        self._stops.append(studio.stop)
        return await self._stack.enter_async_context(studio)

    async def _options_of(self, session: "Session") -> "AgentOptions | None":
        rehearsed = None if self._rehearsal is None else self._rehearsal.options_for(session.id)
        if rehearsed is not None or self._model is None:
            return rehearsed
        from sideband.studio.session_cards import REHEARSAL_RECORD  # noqa: PLC0415 - the help does not need it

        records = await session.records()
        if records.get(REHEARSAL_RECORD) is True:
            # Its script ended with the server that played it. A real model would work in the wrong folder.
            return None
        folder, recorded = self._wanted.folder, records.get("cwd")
        # A folder that --workspace names is for all sessions.
        if self._wanted.workspace is None and isinstance(recorded, str):
            return _options(self._model, recorded, otherwise=folder)
        return _options(self._model, folder, otherwise=folder)

    async def _acp(self, store: "Store", token: str, studio: "Studio") -> None:
        from sideband.protocols.acp.agent import AcpAgent  # noqa: PLC0415 - the help does not need it
        from sideband.protocols.acp.agent.websocket import websocket_app  # noqa: PLC0415 - the same

        agent = await self._stack.enter_async_context(
            AcpAgent(
                store,
                model=self._model,
                workspace=self._wanted.workspace and self._wanted.folder,
                servers=servers_of(self._wanted.mcp_config),
            )
        )
        hosts = _hosts(self._url)
        self._mounts["/acp"] = websocket_app(
            agent,
            token=token,
            is_cookie=studio.gate.is_cookie,
            allowed_hosts=hosts,
            allowed_origins=[f"http://{host}" for host in hosts],
        )

    async def _a2a(self, store: "Store", token: str) -> None:
        """Tasks of other agents; without a model there is nothing that could do them."""
        if self._model is None:
            self._without_a2a = "needs a model"
            return
        try:
            from sideband.protocols.a2a import A2aServer, read_peers_file  # noqa: PLC0415 - the help does not need it
            from sideband.protocols.a2a.card import SEED_PATH  # noqa: PLC0415 - the same
        except ModuleNotFoundError as missing:
            self._without_a2a = f"{missing.name} is not installed: pip install 'sideband[a2a]'"
            return
        from sideband.cli.a2a import run_options  # noqa: PLC0415 - the same
        from sideband.logs import quieten  # noqa: PLC0415 - the same
        from sideband.tools.workspace import workspace_tools  # noqa: PLC0415 - the same

        quieten("a2a")
        folder = self._wanted.folder
        server = A2aServer(
            store,
            model=self._model,
            url=f"{self._url}/a2a",
            service=f"studio|{folder}|ask",
            # Even the tools that only read show the workspace, and each task costs money: no caller without a token.
            peers=() if self._wanted.peers is None else read_peers_file(self._wanted.peers),
            operator_token=token,
            allowed_hosts=_hosts(self._url),
            servers=servers_of(self._wanted.mcp_config),
            tools_of=lambda: workspace_tools(folder),
            options=run_options(folder),
            # The page can answer, too.
            asks=True,
        )
        await self._stack.enter_async_context(server)
        self._stops.append(server.stop)
        self._mounts["/a2a"] = server.app
        self._cards = dict.fromkeys((CARD_PATH, SEED_PATH), server.app)

    # What is said, and what begins by itself.

    def _print(self, link: str) -> None:
        address = self._url.partition("://")[2]
        store = "temporary, deleted at the end" if self._wanted.store_url is None else mask_text(self._store_url)
        lines = {
            "Sideband studio": link,
            "store": store,
            "model": self._model_name or _WITHOUT_MODEL[self._wanted.has_rehearsal],
            "workspace": self._wanted.folder,
            "HTTP API": f"{self._url}/openapi.json",
            "ACP": f"ws://{address}/acp",
            "A2A": self._without_a2a or f"{self._url}/a2a",
        }
        for name, value in lines.items():
            print(f"{name + ':':<16} {printable(value)}", flush=True)
        another = "sideband open" if self._url == DEFAULT_URL else f"sideband open {self._url}"
        print(f"The link logs a browser in, once; `{another}` makes another one. Ctrl-C ends the server.", flush=True)

    async def _begin_rehearsal(self) -> None:
        """Begin the session of the rehearsal; it is played in the background."""
        if not self._wanted.has_rehearsal or self._rehearsal is None:
            return
        try:
            await self._rehearsal.start()
        except Exception as error:  # noqa: BLE001 - the studio is of use without it
            LOG.error("the rehearsal has failed", exc_info=error)
            _note("the rehearsal could not be started; the log says why")


def _options(model: "Model", folder: str, *, otherwise: str) -> "AgentOptions":
    """How a session is run that works in this folder, or in the other one if there is no such folder."""
    from sideband.protocols.acp.agent.hosted import SYSTEM  # noqa: PLC0415 - the help does not need it
    from sideband.providers.context import WorkspaceAnchor  # noqa: PLC0415 - the same
    from sideband.tools.workspace import workspace_tools  # noqa: PLC0415 - the same

    if not os.path.isdir(folder):  # noqa: PTH112 - as above
        folder = otherwise
    return {
        "model": model,
        "name": "sideband",
        "system": SYSTEM.format(cwd=folder),
        "compactor": "summarize",
        "anchor": WorkspaceAnchor(primary=folder),
        "tools": workspace_tools(folder),
    }


def _raised_file_limit() -> int:
    """Let this process have as many connections open as the system allows, up to a number; return how many files."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return _MAX_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = [limit for limit in (_MAX_FILES, hard) if limit != resource.RLIM_INFINITY]
    if soft == resource.RLIM_INFINITY or soft >= min(limits):
        return min(limits)
    # Some systems have a further limit, which they do not tell.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(limits), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _hosts(url: str) -> list[str]:
    """The names by which this machine reaches the server, with its port."""
    from sideband.protocols.http import LOOPBACK_HOSTS  # noqa: PLC0415 - the help does not need it

    address = url.partition("://")[2]
    port = address.rpartition(":")[2]
    return [*dict.fromkeys([address, *(f"{name}:{port}" for name in LOOPBACK_HOSTS)])]


def _mounted(mounts: "Mapping[str, ASGIApp]", exact: "Mapping[str, ASGIApp]", otherwise: "ASGIApp") -> "ASGIApp":
    """Each application of `mounts` at its path and all paths below it, those of `exact` at their path only."""

    async def dispatch(scope: "Scope", receive: "Receive", send: "Send") -> None:
        path = scope.get("path", "")
        prefix = next((each for each in mounts if path == each or path.startswith(f"{each}/")), None)
        if prefix is None:
            await exact.get(path, otherwise)(scope, receive, send)
            return
        child = f"{prefix}/" if path == prefix else path
        mounted = {**scope, "path": child, "root_path": scope.get("root_path", "") + prefix}
        await mounts[prefix](mounted, receive, send)

    return dispatch


def _note(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)
