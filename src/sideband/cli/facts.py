"""`sideband facts`: list, add and remove the facts of a store."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, TypeVar

import msgspec
from cyclopts import App, Parameter

from sideband.cli.app import OK, REFUSALS, REFUSED, refuse, refuse_request
from sideband.cli.commands import COMMANDS
from sideband.cli.request import BodyArgument, Surplus, print_reply, read_body
from sideband.cli.target import JsonOption, StoreOption, address
from sideband.inspect.report import CommandError, table

if TYPE_CHECKING:
    from sideband.recall.facts import Fact
    from sideband.runtime.store import Store

_ValueT = TypeVar("_ValueT")

_StoreOfOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--to",
        metavar="TARGET",
        help="A session, by its id or as `STORE_URL#ID`, whose store is meant; its id does not matter here, because facts "
        "belong to the store.",
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

    async def read(opened: "Store") -> list[tuple[str, "Fact"]]:
        from sideband.recall.facts import DEFAULT_NAMESPACE, MAX_FACTS  # noqa: PLC0415 - the help does not need it
        from sideband.runtime.facts import recall_facts  # noqa: PLC0415 - the help does not need it

        if query is not None:
            recalled = await recall_facts(store=opened, query=query, namespace=namespace, max_facts=MAX_FACTS)
            return [(namespace or DEFAULT_NAMESPACE, entry.fact) for entry in recalled]
        book = await opened.fact_book()
        names = book.namespaces if namespace is None else (namespace,)
        return [(name, fact) for name in names for fact in book.facts(name)]

    return _run(to, store, read, lambda found: _print(found, json=json))


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
        word = "refreshed" if refreshed else "added"
        print_reply(f"{word} {fact.id}", json=json, id=fact.id, refreshed=refreshed)
        return OK

    return _run(to, store, keep, tell, must_exist=False)


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

    return _run(to, store, lambda opened: opened.forget_fact(id, namespace=namespace), tell)


def _run(
    to: str | None,
    store: str | None,
    act: Callable[["Store"], Awaitable[_ValueT]],
    tell: Callable[[_ValueT], int],
    *,
    must_exist: bool = True,
) -> int:
    """Run `act` on the store, and print its value with `tell`."""
    from sideband.inspect.sessions import inspect_store, store_kind  # noqa: PLC0415 - the help does not need it
    from sideband.recall.facts import FactError  # noqa: PLC0415 - the same
    from sideband.runtime.store import open_store  # noqa: PLC0415 - the same

    async def acting(url: str) -> _ValueT:
        # As with the other commands: the program that owns the store decides how many events are kept.
        async with open_store(url, kept_events=None) as opened:
            return await act(opened)

    try:
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


def _print(found: Iterable[tuple[str, "Fact"]], *, json: bool) -> int:
    from sideband.recall.facts import fact_document  # noqa: PLC0415 - the help does not need it

    listed = [*found]
    if json:
        document = {"facts": [{"namespace": name, **fact_document(fact)} for name, fact in listed]}
        print(msgspec.json.encode(document).decode())
        return OK
    rows = [
        (fact.id, fact.kind.value, f"{fact.confidence:g}", name, shorten(fact.claim, CLAIM_WIDTH, placeholder=" ..."))
        for name, fact in listed
    ]
    for line in table([HEADINGS, *rows]) if rows else ():
        print(line)
    print("1 fact" if len(rows) == 1 else f"{len(rows):,} facts")
    return OK
