"""`sideband serve`: its address, its options, its end, and the agents that it serves."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from sideband.protocols.a2a.client import PeerFailed, connect
from sideband.runtime.store import open_store
from tests.acp_editor import on_pipes
from tests.acp_sockets import over_websocket
from tests.studio.served import SECONDS, SIDEBAND, Served
from tests.unit.studio.studio_thread import StudioThread, a_studio_thread

PEERS: Final = '[peers.reviewer]\ntoken = "token-of-the-reviewer-agent"\n'


# The environment of a user without stores, keys and models.
NOTHING_SET: Final = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SIDEBAND_MODEL", "SIDEBAND_STORE"), "")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of such a user with an own home and an own temporary folder."""
    (tmp_path / "temporary").mkdir()
    folders = {"HOME": tmp_path, "XDG_DATA_HOME": tmp_path, "TMPDIR": tmp_path / "temporary"}
    return {**os.environ, **NOTHING_SET, **{name: str(folder) for name, folder in folders.items()}}


def refused(env: dict[str, str], *arguments: str) -> str:
    """What the command says when it refuses to serve."""
    done = subprocess.run(
        [SIDEBAND, "serve", "--no-open", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


# Its address and its options.


@pytest.mark.requirement("serve:address:next-port")
def test_if_the_port_is_taken_the_next_free_one_is_used(tmp_path: Path) -> None:
    with Served(tmp_path, env=NOTHING_SET) as first:
        other = tmp_path / "other"
        other.mkdir()
        second = Served(other, env=NOTHING_SET)
        second.port = first.port
        with second:
            assert second.port > first.port
            assert f"port {first.port} is in use; the next free one is {second.port}" in second.printed


@pytest.mark.requirement("serve:address:loopback-only")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org"])  # noqa: S104 - it is refused
def test_an_address_that_others_can_reach_is_refused(env: dict[str, str], host: str) -> None:
    assert "--host must be 127.0.0.1, ::1 or localhost" in refused(env, "--host", host)


@pytest.mark.requirement("serve:options:refused")
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        pytest.param(("--model", "nothing"), "nothing", id="model"),
        pytest.param(("--workspace", "/no/such/folder"), "--workspace must be a folder that exists", id="folder"),
        pytest.param(("--mcp-config", "/no/such/file"), "/no/such/file", id="servers"),
        pytest.param(("--model", "scripted:Hi.", "--peers", "/no/such/file"), "/no/such/file", id="peers"),
        pytest.param(("--store", "sqlite:////no/such/folder/s.db"), "no/such/folder", id="store"),
        pytest.param(("--port", "70000"), "70000", id="port"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(
    env: dict[str, str], arguments: tuple[str, ...], why: str
) -> None:
    said = refused(env, *arguments)
    assert why in said
    assert "Traceback" not in said


@pytest.mark.requirement("serve:model:by-key")
@pytest.mark.parametrize(
    ("key", "transport"), [("ANTHROPIC_API_KEY", "anthropic:"), ("OPENAI_API_KEY", "openai:"), (None, "")]
)
def test_a_key_chooses_the_model(tmp_path: Path, key: str | None, transport: str) -> None:
    with Served(tmp_path, env=NOTHING_SET | ({} if key is None else {key: "no-real-key"})) as server:
        model = server.get("/info").get("model", "")
    assert model.startswith(transport)
    assert bool(model) is (key is not None)


# Its end.


@pytest.mark.requirement("serve:end:signal")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(tmp_path: Path, env: dict[str, str], ending: signal.Signals) -> None:
    printed = tmp_path / "printed"
    with printed.open("wb") as output:
        server = subprocess.Popen(
            [SIDEBAND, "serve", "--rehearsal", "--no-open", "--port", "0"], env=env, stdout=output, stderr=output
        )
    try:
        while "Ctrl-C ends the server" not in printed.read_text(encoding="utf-8"):
            assert server.poll() is None, printed.read_text(encoding="utf-8")
        # The rehearsal has begun, with a temporary store and a temporary workspace.
        assert [*(tmp_path / "temporary").iterdir()]
        server.send_signal(ending)
        assert server.wait(SECONDS) == 0
    finally:
        server.kill()
    assert [*(tmp_path / "temporary").iterdir()] == []
    assert "Traceback" not in printed.read_text(encoding="utf-8")


# The agents.


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StudioThread]:
    folder = tmp_path_factory.mktemp("serve")
    peers = folder / "peers.toml"
    peers.write_text(PEERS, encoding="utf-8")
    peers.chmod(0o600)
    with a_studio_thread(folder, peers=str(peers)) as running:
        yield running


@pytest.mark.requirement("serve:agents:acp")
@on_pipes
async def test_an_editor_works_on_the_sessions_of_the_page(studio: StudioThread) -> None:
    token = {"Authorization": f"Bearer {studio.token}"}
    async with over_websocket(studio.port, path="/acp", additional_headers=token) as editor:
        session = await editor.new(cwd=str(studio.folder))
        assert (await editor.prompted(session))["stopReason"] == "end_turn"
    card = await asyncio.to_thread(studio.program, "GET", f"/api/sessions/{session}")
    assert (card["turn"], card["state"]) == (1, "idle")


@pytest.mark.requirement("serve:agents:a2a")
@on_pipes
async def test_other_agents_give_tasks_with_a_token(studio: StudioThread) -> None:
    url = f"http://127.0.0.1:{studio.port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        for path in ("/.well-known/agent-card.json", "/.well-known/a2a-agent"):
            card = (await client.get(path)).raise_for_status().json()
            assert card["name"] == "sideband"
    for token, name in [(studio.token, "operator"), ("token-of-the-reviewer-agent", "reviewer")]:
        async with connect(f"{url}/a2a", token=token) as agent:
            task = await agent.send(f"Go on, {name}.")
        assert task.text == "Done."
        card = await asyncio.to_thread(studio.program, "GET", f"/api/sessions/{task.id}")
        assert card["turn"] == 1
    for wrong in (None, "a-token-that-is-wrong"):
        with pytest.raises(PeerFailed, match="401"):
            async with connect(f"{url}/a2a", token=wrong) as agent:
                await agent.send("Read the secrets.")


@pytest.mark.requirement("serve:rehearsal:ended")
@on_pipes
async def test_a_rehearsal_of_another_server_is_not_continued(studio: StudioThread) -> None:
    async with open_store(f"sqlite:///{studio.folder}/store.db") as store:
        session = await store.begin(attributes={"rehearsal": True, "title": "Rehearsal"})
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{studio.port}", trust_env=False) as client:
        answer = await client.post(
            f"/api/sessions/{session.id}/prompt",
            json={"content": "Go on."},
            headers={"Authorization": f"Bearer {studio.token}"},
        )
    assert (answer.status_code, answer.json()["error"]["reason"]) == (409, "rehearsal_ended")
    assert (await asyncio.to_thread(studio.program, "GET", f"/api/sessions/{session.id}"))["turn"] == 0
