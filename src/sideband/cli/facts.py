"""`sideband facts`: list, add and remove the facts of a store."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, TypeAlias, TypeVar

from cyclopts import App, Parameter

from sideband.cli.app import OK, REFUSALS, REFUSED, refuse, refuse_request
from sideband.cli.commands import COMMANDS
from sideband.cli.request import BodyArgument, Surplus, print_reply, read_body
from sideband.cli.target import JsonOption, StoreOption, address, server_address
from sideband.inspect.report import CommandError, counted, printable_json, shortened, table

if TYPE_CHECKING:
    from sideband.runtime.store import Store

_ValueT = TypeVar("_ValueT")

_StoreOfOption: TypeAlias = Annotated[
    str | None,
    Parameter(
        name="--to",
        metavar="TARGET",
        help="Use the store of this session: its id, or `STORE_URL#ID`. `http://HOST:PORT` is the store of a running "
        "`sideband serve`.",
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
    try:
        found = _book(to, store).facts(query=query, namespace=namespace)
    except REFUSALS as error:
        return refuse_request(error)
    if json:
        print(printable_json({"facts": found}))
        return OK
    for line in table([HEADINGS, *map(_cells, found)]) if found else ():
        print(line)
    print(counted(len(found), "fact"))
    return OK


def _cells(fact: Mapping[str, Any]) -> tuple[str, ...]:
    claim = shortened(fact["claim"], CLAIM_WIDTH)
    return fact["id"], fact["kind"], f"{fact['confidence']:g}", fact["namespace"], claim


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
        text = read_body(claim, surplus, "facts add", argument="CLAIM").strip()
        book = _book(to, store, must_exist=False)
        fact_id, refreshed = book.add_fact(kind=kind, claim=text, confidence=confidence, namespace=namespace)
    except REFUSALS as error:
        return refuse_request(error)
    print_reply(f"{'refreshed' if refreshed else 'added'} {fact_id}", json=json, id=fact_id, refreshed=refreshed)
    return OK


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
    try:
        was_there = _book(to, store).remove_fact(id, namespace=namespace)
    except REFUSALS as error:
        return refuse_request(error)
    if not was_there:
        refuse(f"there is no fact {id}; `sideband facts` lists those that there are")
        return REFUSED
    print_reply(f"removed {id}", json=json, id=id)
    return OK


class _Book(Protocol):
    """The facts of a store, which this process opens or a running server has open."""

    def facts(self, *, query: str | None, namespace: str | None) -> list[dict[str, Any]]:
        """The facts as JSON has them; with a query, those that are recalled for it."""

    def add_fact(self, *, kind: str, claim: str, confidence: float, namespace: str | None) -> tuple[str, bool]:
        """Add a fact; its id, and whether the store had it already."""

    def remove_fact(self, fact_id: str, *, namespace: str | None) -> bool:
        """Remove a fact; whether there was one."""


def _book(to: str | None, store: str | None, *, must_exist: bool = True) -> _Book:
    from sideband.inspect.sessions import inspect_store, store_kind  # noqa: PLC0415 - the help does not need it

    wanted = server_address(to, store)
    if wanted is not None:
        from sideband.cli.server_session import Server  # noqa: PLC0415 - only needed for a server

        return Server(wanted.url)
    url = address(to, store, must_exist=must_exist).store_url
    store_kind(url)
    if must_exist:
        with inspect_store(url):
            pass
    return _StoredBook(url)


class _StoredBook:
    """The facts of the store at this address."""

    def __init__(self, url: str) -> None:
        self._url = url

    def facts(self, *, query: str | None, namespace: str | None) -> list[dict[str, Any]]:
        from sideband.recall.facts import DEFAULT_NAMESPACE, MAX_FACTS, fact_document  # noqa: PLC0415 - the help does not need it
        from sideband.runtime.facts import recall_facts  # noqa: PLC0415 - the same

        async def read(store: "Store") -> list[dict[str, Any]]:
            if query is not None:
                recalled = await recall_facts(store=store, query=query, namespace=namespace, max_facts=MAX_FACTS)
                found = [(namespace or DEFAULT_NAMESPACE, entry.fact) for entry in recalled]
            else:
                book = await store.fact_book()
                names = book.namespaces if namespace is None else (namespace,)
                found = [(name, fact) for name in names for fact in book.facts(name)]
            return [{"namespace": name, **fact_document(fact)} for name, fact in found]

        return self._run(read)

    def add_fact(self, *, kind: str, claim: str, confidence: float, namespace: str | None) -> tuple[str, bool]:
        from sideband.recall.facts import DEFAULT_NAMESPACE  # noqa: PLC0415 - the help does not need it
        from sideband.runtime.facts import store_fact  # noqa: PLC0415 - the same

        async def keep(store: "Store") -> tuple[str, bool]:
            where = DEFAULT_NAMESPACE if namespace is None else namespace
            fact, refreshed = await store_fact(
                store=store, kind=kind, claim=claim, confidence=confidence, namespace=where
            )
            return fact.id, refreshed

        return self._run(keep)

    def remove_fact(self, fact_id: str, *, namespace: str | None) -> bool:
        return self._run(lambda store: store.forget_fact(fact_id, namespace=namespace))

    def _run(self, act: "Callable[[Store], Awaitable[_ValueT]]") -> _ValueT:
        from sideband.recall.facts import FactError  # noqa: PLC0415 - the help does not need it
        from sideband.runtime.store import open_store  # noqa: PLC0415 - the same

        async def acting() -> _ValueT:
            # As with the other commands: the program that owns the store decides how many events are kept.
            async with open_store(self._url, kept_events=None) as store:
                return await act(store)

        try:
            return asyncio.run(acting())
        except FactError as error:
            raise CommandError(str(error).removeprefix(f"{error.code}: "), code=error.code) from None
