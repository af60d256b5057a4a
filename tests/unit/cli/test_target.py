"""What `--to` and `--store` mean, and what is said of a target that cannot be used."""

import asyncio
from pathlib import Path

import pytest

import sideband as sb
from sideband.cli.sessions import sessions
from sideband.cli.target import (
    Address,
    AgentAddress,
    StudioAddress,
    TaskAddress,
    address,
    agent_address,
    find,
    server_address,
    task_address,
)
from sideband.core.errors import InvalidOption, StoreRefused
from sideband.core.events import Closed, Event, Recorded, Started
from sideband.inspect.report import CommandError
from sideband.inspect.sessions import LISTED
from tests.decisions import saying
from tests.unit.cli.stores import address as url_of
from tests.unit.cli.stores import prune
from tests.unit.store.test_inspector import change
from tests.unit.store.twins import SqliteTwin, Twin, played

Captured = pytest.CaptureFixture[str]
HERE = "sqlite:///here.db"


def begin(twin: Twin, *names: str, closed: tuple[str, ...] = ()) -> str:
    """Begin these sessions in this order, close some of them, and return the address of the store."""

    async def story() -> None:
        async with twin.open() as store:
            for name in names:
                await store.commit(name, saying(Started()))
            for name in closed:
                await store.commit(name, saying(Closed()))

    played(story)
    return url_of(twin)


def refusal(wanted: Address) -> CommandError:
    with pytest.raises(CommandError) as refused:
        find(wanted)
    return refused.value


# How a target is written.


@pytest.mark.parametrize(
    ("to", "store", "expected"),
    [
        pytest.param("fix-login", HERE, Address(HERE, "fix-login"), id="an-id"),
        pytest.param("issue#12", HERE, Address(HERE, "issue#12"), id="an-id-with-a-hash"),
        pytest.param("task:12", HERE, Address(HERE, "task:12"), id="an-id-with-a-colon"),
        pytest.param(None, HERE, Address(HERE), id="only-a-store"),
        pytest.param(f"{HERE}#fix-login", None, Address(HERE, "fix-login"), id="a-store-and-an-id"),
        pytest.param(f"{HERE}#http://x#1", None, Address(HERE, "http://x#1"), id="an-id-that-looks-like-an-address"),
        pytest.param("postgresql://h/n#s", None, Address("postgresql://h/n", "s"), id="a-database"),
        pytest.param("user:#s", None, Address(HERE, "s"), id="the-users-store"),
        pytest.param("memory:#s", None, Address("memory:", "s"), id="a-store-in-memory"),
        pytest.param("sqlite:m.db#s", None, Address("sqlite:m.db", "s"), id="a-store-without-slashes"),
        pytest.param("user:12#3", HERE, Address(HERE, "user:12#3"), id="an-id-that-begins-like-a-store"),
    ],
)
def test_a_target_is_an_id_or_a_store_and_an_id(
    to: str | None, store: str | None, expected: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIDEBAND_STORE", HERE)
    assert address(to, store) == expected


def test_an_agent_of_this_directory_is_refused_with_what_works() -> None:
    what = "an agent that runs in this directory"
    with pytest.raises(CommandError, match=f"{what} .* --to ID with --store URL, or --to STORE_URL#ID"):
        address("agent:claude-code", None)
    with pytest.raises(CommandError, match=f"{what} .* a session of a store: --to STORE_URL#ID$"):
        address("agent:claude-code", HERE)


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        pytest.param("http://host:8640#s", StudioAddress("http://host:8640", "s"), id="an-address"),
        pytest.param("https://host/prefix#s#1", StudioAddress("https://host/prefix", "s#1"), id="at-the-first-hash"),
        pytest.param("http://host:8640", StudioAddress("http://host:8640"), id="the-only-session"),
        pytest.param("http://host:8640#", StudioAddress("http://host:8640"), id="an-empty-id"),
        pytest.param("http:s", None, id="an-id"),
        pytest.param("a2a+http://host#t", None, id="an-agent"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_a_session_of_a_server_is_named_by_the_address_of_the_server(
    to: str | None, expected: StudioAddress | None
) -> None:
    assert server_address(to, None) == expected


@pytest.mark.parametrize(
    ("to", "said"),
    [
        pytest.param("http://", "must name a server and a session", id="no-host"),
        pytest.param("https://#s", "must name a server and a session", id="only-a-session"),
        pytest.param("http://127.0.0.1:8640/#login=abc", "the link that logs a browser in", id="the-link"),
    ],
)
def test_what_is_no_address_of_a_server_is_refused(to: str, said: str) -> None:
    with pytest.raises(CommandError, match=said) as refused:
        server_address(to, None)
    assert "abc" not in str(refused.value)


def test_a_server_has_its_own_store_and_is_not_one() -> None:
    with pytest.raises(CommandError, match="--store does not belong to a running server"):
        server_address("http://host#s", HERE)
    with pytest.raises(CommandError, match="this command reads a store; a session of a running server"):
        address("http://host#s", None)


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        pytest.param("acp:my-agent --stdio#s", AgentAddress("my-agent --stdio", "s"), id="a-command"),
        pytest.param("acp:a#b#c", AgentAddress("a", "b#c"), id="at-the-first-hash"),
        pytest.param("acp-agent#s", None, id="an-id"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_an_agent_is_named_by_its_command(to: str | None, expected: AgentAddress | None) -> None:
    assert agent_address(to, None) == expected


@pytest.mark.parametrize("to", ["acp:", "acp:#s", "acp: #s", "acp:agent", "acp:agent#"])
def test_an_agent_without_a_command_or_a_session_is_refused(to: str) -> None:
    with pytest.raises(CommandError, match="acp:COMMAND#ID, not"):
        agent_address(to, None)


def test_an_agent_has_no_store_and_is_not_one() -> None:
    with pytest.raises(CommandError, match="--store does not belong to an agent over ACP"):
        agent_address("acp:agent#s", HERE)
    with pytest.raises(CommandError, match="this command reads a store"):
        address("acp:agent#s", None)


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        pytest.param("a2a+http://host:8642#t", TaskAddress("http://host:8642", "t"), id="an-address"),
        pytest.param("a2a+https://host/a2a#t#1", TaskAddress("https://host/a2a", "t#1"), id="at-the-first-hash"),
        pytest.param("a2a+ftp://host#t", None, id="another-scheme"),
        pytest.param("a2a#t", None, id="an-id"),
        pytest.param(None, None, id="nothing"),
    ],
)
def test_a_task_is_named_by_the_address_of_its_agent(to: str | None, expected: TaskAddress | None) -> None:
    assert task_address(to, None) == expected


@pytest.mark.parametrize("to", ["a2a+http://", "a2a+http://#t", "a2a+http://me:hunter2@host", "a2a+https://host#"])
def test_a_task_without_an_agent_or_an_id_is_refused(to: str) -> None:
    with pytest.raises(CommandError, match="a2a\\+http://HOST:PORT#TASK") as refused:
        task_address(to, None)
    assert "hunter2" not in str(refused.value)


def test_an_agent_over_a2a_has_no_store_here_and_is_not_one() -> None:
    with pytest.raises(CommandError, match="--store does not belong to an agent over A2A"):
        task_address("a2a+http://host#t", HERE)
    with pytest.raises(CommandError, match="can only be used with remind, pending, revoke and clear"):
        address("a2a+http://host#t", None)


@pytest.mark.parametrize(
    ("to", "store", "said"),
    [
        pytest.param("", HERE, "must be the id of a session or STORE_URL#ID", id="blank"),
        pytest.param(HERE, None, "names a store and no session", id="a-store-without-an-id"),
        pytest.param(f"{HERE}#", None, "names a store and no session", id="a-store-with-an-empty-id"),
        pytest.param("user:", None, "names a store and no session", id="the-users-store-without-an-id"),
        pytest.param(f"{HERE}#s", HERE, "the store is named twice", id="two-stores"),
    ],
)
def test_a_target_that_cannot_be_meant_is_refused(to: str, store: str | None, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        address(to, store)


def test_the_password_of_an_address_is_not_repeated() -> None:
    with pytest.raises(InvalidOption) as refused:
        find(address("mysql://me:hunter2@host/name#s", None))
    assert "hunter2" not in str(refused.value)


# The user's store.


def test_without_an_address_the_store_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIDEBAND_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(StoreRefused, match=r"you have no store yet: .*sideband\.db does not exist"):
        address(None, None)
    assert [*tmp_path.iterdir()] == []

    async def story() -> None:
        async with sb.open_store("user:") as store:
            await store.begin("s")

    asyncio.run(story())
    assert find(address(None, None)) == "s"
    assert find(address("s", "user:")) == "s"


def test_a_store_that_the_environment_names_is_used(sqlite: SqliteTwin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIDEBAND_STORE", begin(sqlite, "s"))
    assert find(address(None, None)) == "s"


# Which session is meant.


def test_without_a_name_it_is_the_only_one_that_is_open(durable: Twin) -> None:
    url = begin(durable, "done", "working", "over", closed=("done", "over"))
    assert find(Address(url)) == "working"


def test_sessions_of_sub_agents_count_only_if_there_is_no_other(durable: Twin) -> None:
    url = begin(durable, "main", "helper")

    async def story(session_id: str, event: Event) -> None:
        async with durable.open() as store:
            await store.commit(session_id, saying(event))

    played(lambda: story("helper", Recorded(name="worker", value={"name": "helper", "task": "x", "parent": "main"})))
    assert find(Address(url)) == "main"
    played(lambda: story("main", Closed()))
    assert find(Address(url)) == "helper"


def test_a_closed_session_has_to_be_named(durable: Twin) -> None:
    url = begin(durable, "done", closed=("done",))
    error = refusal(Address(url))
    assert "is open; choose a closed one with --to ID:" in str(error)
    assert [line.split()[:2] for line in error.candidates] == [["done", "closed"]]
    assert find(Address(url, "done")) == "done"


def test_a_closed_session_of_which_only_a_snapshot_is_left_is_closed(durable: Twin) -> None:
    url = begin(durable, "done", "working", closed=("done",))
    played(lambda: prune(durable, keep=0, session_id="done"))
    assert find(Address(url)) == "working"


def test_several_open_sessions_are_listed_with_the_last_changed_first(durable: Twin) -> None:
    url = begin(durable, "a", "b", "c", closed=("b",))

    async def story() -> None:
        async with durable.open() as store:
            await store.commit(
                "a", saying(Recorded(name="agent", value="coder"), Recorded(name="title", value="A\nbug"))
            )
            await store.commit("c", saying(Recorded(name="agent", value="tester")))
            await store.commit("a", saying(Recorded(name="cwd", value="/src")))

    played(story)
    error = refusal(Address(url))
    assert "are open; choose one with --to ID:" in str(error)
    first, second = error.candidates
    assert first.split("  ")[:2] == ["a", "left"]
    assert first.split("  ")[3] == "A\\nbug"
    assert second.split("  ")[3] == "tester"
    assert "changed 20" in first


def test_a_long_list_ends_after_its_beginning(sqlite: SqliteTwin) -> None:
    url = begin(sqlite, *(f"s{number:02}" for number in range(LISTED + 1)))
    candidates = refusal(Address(url)).candidates
    assert [line.split()[0] for line in candidates] == [*(f"s{number:02}" for number in range(LISTED, 0, -1)), "..."]


def test_a_session_that_cannot_be_read_may_be_meant(durable: Twin) -> None:
    url = begin(durable, "bad")
    change(durable, "UPDATE {store}journal SET checksum = 0")
    assert find(Address(url)) == "bad"
    begin(durable, "good")
    assert "bad  damaged" in "\n".join(refusal(Address(url)).candidates)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        pytest.param("fix-lgoin", ["fix-login"], id="a-typo"),
        pytest.param("fix", ["fix-logout", "fix-login"], id="a-part"),
        pytest.param("zzz", ["tests", "fix-logout", "fix-login"], id="nothing-like-it"),
    ],
)
def test_an_unknown_id_is_answered_with_those_that_are_like_it(sqlite: SqliteTwin, name: str, near: list[str]) -> None:
    url = begin(sqlite, "fix-login", "fix-logout", "tests")
    error = refusal(Address(url, name))
    assert f"there is no session '{name}' in " in str(error)
    assert [line.split()[0] for line in error.candidates][: len(near)] == near


def test_a_store_without_sessions_says_so(sqlite: SqliteTwin) -> None:
    url = begin(sqlite)
    assert str(refusal(Address(url))) == f"there is no session in {sqlite.path}"
    assert str(refusal(Address(url, "s"))).endswith("which has no sessions")


def test_a_record_that_cannot_be_read_is_not_shown(sqlite: SqliteTwin, capsys: Captured) -> None:
    url = begin(sqlite, "s")
    change(sqlite, "UPDATE session SET records = 'no JSON'")
    assert sessions(store=url) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "s"
