"""Settings of the address, the environment and the server, none of which changes what is written; and cancellation."""

import asyncio
from urllib.parse import quote

import psycopg
import pytest

from sideband.core.errors import StoreClosed
from sideband.core.events import QueuedReminder
from sideband.ports import Journal
from sideband.store.postgres.connection import Link, address_of
from tests.builders import a_draft
from tests.postgres_proxy import Proxy
from tests.unit.store.twins import PostgresTwin, Sender, a_start, played

BODY = "naïve ☃ 🎉 \\ ' \" $1 %s {}"


def an_address(twin: PostgresTwin, asked: str) -> str:
    return f"{twin.url}&{asked}" if asked.startswith("client") else f"{twin.url}&options={quote(asked)}"


async def bodies(store: Journal, session_id: str) -> list[str]:
    await store.open(session_id)
    return [item.reminder.body for item in store.state(session_id).inbox.items() if isinstance(item, QueuedReminder)]


@pytest.mark.parametrize(
    "asked",
    [
        "client_encoding=LATIN1",
        "-c bytea_output=escape -c standard_conforming_strings=off",
        "-c default_transaction_isolation=serializable",
        "-c statement_timeout=30s",
        "-c plan_cache_mode=force_generic_plan",
        "-c search_path=nowhere",
    ],
)
def test_every_text_is_kept_whatever_a_connection_is_set_to(postgres: PostgresTwin, asked: str) -> None:
    async def story() -> None:
        async with postgres.open(url=an_address(postgres, asked)) as store:
            await Sender(store).send(a_draft(body=BODY), session_id=BODY)
            lease = await store.acquire(BODY, BODY)
            await store.commit(BODY, a_start, lease=lease)
            await store.prune(BODY)
        async with postgres.open() as other:
            assert await bodies(other, BODY) == [BODY]

    played(story)


def test_every_text_is_kept_whatever_the_environment_says(
    postgres: PostgresTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")

    async def story() -> None:
        async with postgres.open() as store:
            await Sender(store).send(a_draft(body=BODY))
            assert await bodies(store, "s") == [BODY]

    played(story)


@pytest.mark.parametrize("is_heard", [True, False], ids=["heard", "unheard"])
def test_a_caller_that_is_cancelled_while_the_connection_is_lost_does_not_ask_again(
    postgres: PostgresTwin, *, is_heard: bool
) -> None:
    # A server that does not get the cancellation finishes the statement; the session must be free afterwards.
    async def story() -> None:
        async with (
            Proxy(postgres.server).running() as proxy,
            postgres.open(url=proxy.url(postgres.name)) as store,
        ):
            async with await psycopg.AsyncConnection.connect(postgres.url) as other:
                await other.execute("LOCK sideband.session IN ACCESS EXCLUSIVE MODE")
                asked = asyncio.ensure_future(store.acquire("s", "me"))
                await asyncio.to_thread(postgres.is_waited_for)
                proxy.is_down = not is_heard
                asked.cancel()
                for _ in range(20):
                    await asyncio.sleep(0)
                proxy.drop_all()
                await asyncio.wait([asked])
            proxy.is_down = False
            assert asked.cancelled()
            await store.acquire("s", "you")

    played(story)


def test_a_link_that_is_shut_while_it_connects_leaves_no_connection(postgres: PostgresTwin) -> None:
    async def story() -> None:
        link = Link(address_of(postgres.url), patience_seconds=0)
        connecting = asyncio.ensure_future(link.connection())
        await asyncio.sleep(0)
        await link.shut()
        with pytest.raises(StoreClosed):
            await connecting
        await asyncio.to_thread(postgres.is_left)

    played(story)
