"""The client pool and the check of API keys."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from sideband.models.client import _OPEN, ClientPool, need_key
from sideband.ports import ModelError


class Clients:
    """Opens clients that are numbers, and logs when they are opened and closed."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.opened = 0
        self.refused = 0

    async def __call__(self, _settings: str) -> AsyncGenerator[int, None]:
        self.opened += 1
        number = self.opened
        await asyncio.sleep(0)
        if self.refused:
            self.refused -= 1
            raise ConnectionError("not now")
        self.log.append(f"open {number}")
        try:
            yield number
        finally:
            await asyncio.sleep(0)
            self.log.append(f"closed {number}")


def test_a_client_is_opened_on_first_use_and_kept() -> None:
    clients = Clients()
    pool = ClientPool(clients)

    async def main() -> list[int]:
        return [await pool.client("here"), await pool.client("here")]

    assert clients.log == []
    assert asyncio.run(main()) == [1, 1]


def test_the_end_of_the_event_loop_closes_the_client() -> None:
    clients = Clients()
    asyncio.run(ClientPool(clients).client("here"))
    assert clients.log == ["open 1", "closed 1"]


def test_another_event_loop_gets_another_client() -> None:
    clients = Clients()
    pool = ClientPool(clients)
    assert [asyncio.run(pool.client("here")) for _ in range(3)] == [1, 2, 3]
    assert clients.log == ["open 1", "closed 1", "open 2", "closed 2", "open 3", "closed 3"]


def test_concurrent_first_uses_share_one_client() -> None:
    clients = Clients()
    pool = ClientPool(clients)

    async def main() -> list[int]:
        return await asyncio.gather(*(pool.client("here") for _ in range(5)))

    assert asyncio.run(main()) == [1] * 5


def test_a_closed_client_is_opened_again_when_needed() -> None:
    clients = Clients()
    pool = ClientPool(clients)

    async def main() -> int:
        await pool.aclose()
        await pool.client("here")
        await pool.aclose()
        await pool.aclose()
        return await pool.client("here")

    assert asyncio.run(main()) == 2
    assert clients.log == ["open 1", "closed 1", "open 2", "closed 2"]


def test_pools_with_the_same_settings_share_a_client_and_the_last_one_closes_it() -> None:
    clients = Clients()
    one, other = ClientPool(clients), ClientPool(clients)
    elsewhere = ClientPool(clients)

    async def main() -> list[int]:
        numbers = [await one.client("here"), await other.client("here"), await elsewhere.client("there")]
        await one.aclose()
        numbers.append(await other.client("here"))
        await other.aclose()
        clients.log.append("over")
        return numbers

    assert asyncio.run(main()) == [1, 1, 2, 1]
    assert clients.log == ["open 1", "open 2", "closed 1", "over", "closed 2"]


def test_a_pool_whose_settings_change_has_a_client_for_each_and_closes_them_all() -> None:
    clients = Clients()
    pool = ClientPool(clients)

    async def main() -> list[int]:
        numbers = [await pool.client(settings) for settings in ("here", "there", "here")]
        await pool.aclose()
        clients.log.append("over")
        return numbers

    assert asyncio.run(main()) == [1, 2, 1]
    assert clients.log == ["open 1", "open 2", "closed 1", "closed 2", "over"]


def test_a_pool_that_could_not_open_a_client_has_nothing_to_close() -> None:
    clients = Clients()
    clients.refused = 1
    pool = ClientPool(clients)

    async def main() -> None:
        with pytest.raises(ConnectionError):
            await pool.client("here")
        await pool.aclose()

    asyncio.run(main())
    assert clients.log == []


def test_the_client_of_a_collected_pool_serves_the_next_pool_with_the_same_settings() -> None:
    clients = Clients()

    async def main() -> list[int]:
        return [await ClientPool(clients).client("here") for _ in range(3)]

    assert asyncio.run(main()) == [1, 1, 1]
    assert clients.log == ["open 1", "closed 1"]


def test_clients_of_closed_event_loops_are_forgotten() -> None:
    pool = ClientPool(Clients())
    for _ in range(3):
        asyncio.run(pool.client("here"))
    assert sum(loop.is_closed() for loop in _OPEN) <= 1


def test_a_failed_opening_is_tried_again() -> None:
    clients = Clients()
    clients.refused = 1
    pool = ClientPool(clients)

    async def main() -> int:
        with pytest.raises(ConnectionError):
            await pool.client("here")
        return await pool.client("here")

    assert asyncio.run(main()) == 2
    assert clients.log == ["open 2", "closed 2"]


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACME_KEY", "ACME_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_a_missing_key_is_one_sentence_that_names_the_variable() -> None:
    with pytest.raises(ModelError) as refused:
        need_key("Acme", None, "ACME_KEY", "ACME_TOKEN")
    assert (
        str(refused.value) == "Acme needs a key: set the environment variable ACME_KEY or ACME_TOKEN, or pass api_key"
    )
    assert not refused.value.retryable


def test_an_empty_variable_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "")
    with pytest.raises(ModelError):
        need_key("Acme", None, "ACME_KEY")


@pytest.mark.parametrize("variable", ["ACME_KEY", "ACME_TOKEN"])
def test_any_of_the_variables_is_enough(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "secret")
    need_key("Acme", None, "ACME_KEY", "ACME_TOKEN")


def test_a_key_that_is_given_needs_no_variable() -> None:
    need_key("Acme", "secret", "ACME_KEY")


@pytest.mark.parametrize("given", ["", "  "])
def test_a_blank_key_argument_is_refused_whatever_is_in_the_environment(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", "secret")
    with pytest.raises(ModelError, match="Acme needs a key"):
        need_key("Acme", given, "ACME_KEY")


@pytest.mark.parametrize("key", ["secret\n", " secret", "sec\x1bret", "“secret”", "sécret"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_quoted(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "fine")
    monkeypatch.setenv("ACME_TOKEN", key)
    expected = "the key for Acme contains white space at its ends, a control character or a non-ASCII character: "
    with pytest.raises(ModelError) as refused:
        need_key("Acme", None, "ACME_KEY", "ACME_TOKEN")
    assert str(refused.value) == f"{expected}set the environment variable ACME_TOKEN again"
    with pytest.raises(ModelError) as refused:
        need_key("Acme", key, "ACME_KEY")
    assert str(refused.value) == f"{expected}pass a valid key"
