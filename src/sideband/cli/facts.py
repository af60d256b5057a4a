"""`sideband facts`: list, add and remove the facts of a store."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from cyclopts import App, Parameter

from sideband.cli.app import OK, REFUSALS, REFUSED, refuse, refuse_request
from sideband.cli.commands import COMMANDS
from sideband.cli.request import BodyArgument, Surplus, print_reply, read_body
from sideband.cli.target import JsonOption, StoreOption, address, server_address
from sideband.inspect.report import CommandError, counted, table

if TYPE_CHECKING:
    from sideband.cli.server_session import Server
    from sideband.recall.facts import Fact
    from sideband.runtime.store import Store

_ValueT = TypeVar("_ValueT")

_StoreOfOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--to",
        metavar="TARGET",
        help="A session, by its id or as `STORE_URL#ID`, whose store is meant; its id does not matter here, because facts "
        "belong to the store. `http://HOST:PORT` is the store of a running `sideband serve`.",
    ),
]

HEADINGS: Final = ("id", "kind", "confidence", "namespace", "claim")
CLAIM_WIDTH: Final = 80

facts: Final = App(name="facts", help_epilogue=COMMANDS["facts"].epilogue)


@facts.default
def list_facts(
    *,
    query: str | None = None,
    namespace: str | None = None,
    to: _StoreOfOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """List the facts of a store, or only those that an agent would recall for a query.

    Facts belong to a store: all its sessions recall them. Claims are shown in full with `--json`. Exits with 2 if the
    store cannot be read.

    Parameters
    ----------
    query
        Show only the facts that are recalled for this text, best first: at most 25 of one namespace, with a confidence of
        0.5 or more.
    namespace
        Show only the facts of this namespace. The default is all namespaces, and `project/facts` for a query.
    """

    def ask(server: "Server") -> int:
        document = server.facts(query=query, namespace=namespace)
        return _print([*map(_listed, document)], document, json=json)

    async def read(opened: "Store") -> list[tuple[str, "Fact"]]:
        from sideband.recall.facts import DEFAULT_NAMESPACE, MAX_FACTS  # noqa: PLC0415 - the help does not need it
        from sideband.runtime.facts import recall_facts  # noqa: PLC0415 - the help does not need it

        if query is not None:
            recalled = await recall_facts(store=opened, query=query, namespace=namespace, max_facts=MAX_FACTS)
            return [(namespace or DEFAULT_NAMESPACE, entry.fact) for entry in recalled]
        book = await opened.fact_book()
        names = book.namespaces if namespace is None else (namespace,)
        return [(name, fact) for name in names for fact in book.facts(name)]

    def tell(found: "list[tuple[str, Fact]]") -> int:
        from sideband.recall.facts import fact_document  # noqa: PLC0415 - the help does not need it

        document = [{"namespace": name, **fact_document(fact)} for name, fact in found]
        return _print([*map(_listed, document)], document, json=json)

    return _run(to, store, ask, read, tell)


@facts.command
def add(
    kind: str,
    claim: BodyArgument,
    /,
    *surplus: Surplus,
    confidence: float = 1.0,
    namespace: str | None = None,
    to: _StoreOfOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Add a fact to a store; adding the same content again refreshes the fact.

    The fact is durable when the command ends, and every session of the store can recall it. A store that does not exist is
    created. Exits with 1 if the store has no room for it, and with 2 if the fact is wrong or the store cannot be written.

    Parameters
    ----------
    kind
        `observation`, `claim`, `hypothesis`, `decision` or `constraint`.
    confidence
        From 0 to 1. By default, agents recall facts with 0.5 or more.
    namespace
        Where it is kept: by default `project/facts`.
    """
    try:
        # Before the store is opened, which may create it.
        text = read_body(claim, surplus, "facts", "add", argument="CLAIM")
    except CommandError as error:
        return refuse(error)

    async def keep(opened: "Store") -> tuple["Fact", bool]:
        from sideband.recall.facts import DEFAULT_NAMESPACE  # noqa: PLC0415 - the help does not need it
        from sideband.runtime.facts import store_fact  # noqa: PLC0415 - the help does not need it

        where = DEFAULT_NAMESPACE if namespace is None else namespace
        return await store_fact(store=opened, kind=kind, claim=text.strip(), confidence=confidence, namespace=where)

    def tell(stored: tuple["Fact", bool]) -> int:
        fact, refreshed = stored
        return told(fact.id, refreshed=refreshed)

    def told(fact_id: str, *, refreshed: bool) -> int:
        print_reply(f"{'refreshed' if refreshed else 'added'} {fact_id}", json=json, id=fact_id, refreshed=refreshed)
        return OK

    def ask(server: "Server") -> int:
        added = server.add_fact(kind=kind, claim=text.strip(), confidence=confidence, namespace=namespace)
        return told(added.id, refreshed=added.refreshed)

    return _run(to, store, ask, keep, tell, must_exist=False)


@facts.command
def remove(
    id: str,
    /,
    *,
    namespace: str | None = None,
    to: _StoreOfOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Remove a fact from a store, so that agents do not recall it any more.

    Exits with 1 if there is no such fact, and with 2 if the store cannot be written.

    Parameters
    ----------
    id
        The id that `sideband facts` lists.
    namespace
        Remove it from this namespace only.
    """

    def tell(was_there: bool) -> int:  # noqa: FBT001 - the value that the store returned
        if not was_there:
            refuse(f"there is no fact {id}; `sideband facts` lists those that there are")
            return REFUSED
        print_reply(f"removed {id}", json=json, id=id)
        return OK

    def ask(server: "Server") -> int:
        return tell(server.remove_fact(id, namespace=namespace))

    return _run(to, store, ask, lambda opened: opened.forget_fact(id, namespace=namespace), tell)


def _run(
    to: str | None,
    store: str | None,
    ask: Callable[["Server"], int],
    act: Callable[["Store"], Awaitable[_ValueT]],
    tell: Callable[[_ValueT], int],
    *,
    must_exist: bool = True,
) -> int:
    """Run `act` on the store, and print its value with `tell`; for the store of a server, `ask` the server."""
    from sideband.inspect.sessions import inspect_store, store_kind  # noqa: PLC0415 - the help does not need it
    from sideband.recall.facts import FactError  # noqa: PLC0415 - the same
    from sideband.runtime.store import open_store  # noqa: PLC0415 - the same

    async def acting(url: str) -> _ValueT:
        # As with the other commands: the program that owns the store decides how many events are kept.
        async with open_store(url, kept_events=None) as opened:
            return await act(opened)

    try:
        wanted = server_address(to, store)
        if wanted is not None:
            from sideband.cli.server_session import Server  # noqa: PLC0415 - only needed for a server

            return ask(Server(wanted.url))
        url = address(to, store, must_exist=must_exist).store_url
        store_kind(url)
        if must_exist:
            with inspect_store(url):
                pass
        value = asyncio.run(acting(url))
    except FactError as error:
        return refuse(error)
    except REFUSALS as error:
        return refuse_request(error)
    return tell(value)


def _listed(fact: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of a fact, which is given as JSON has it."""
    claim = shorten(fact["claim"], CLAIM_WIDTH, placeholder=" ...")
    return fact["id"], fact["kind"], f"{fact['confidence']:g}", fact["namespace"], claim


def _print(rows: Sequence[tuple[str, ...]], document: Sequence[Mapping[str, Any]], *, json: bool) -> int:
    if json:
        print(msgspec.json.encode({"facts": document}).decode())
        return OK
    for line in table([HEADINGS, *rows]) if rows else ():
        print(line)
    print(counted(len(rows), "fact"))
    return OK
