"""A stock agent in a directory of its own, on a model of the test, with an editor in front of it."""

import asyncio
import errno
import functools
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from tests.loopback import within
from tests.stock.agents import AGENTS, BIN, Agent, Place
from tests.stock.editor import Editor, an_editor
from tests.stock.model import Model, a_model
from tests.waiting import until

# The slowest agent needs some seconds for each start, and more on a busy machine.
_TEST_SECONDS: Final = 90


class HeldTool:
    """A command that runs until the test lets it end: it reads from a named pipe."""

    def __init__(self, directory: Path, output: str) -> None:
        self._pipe = directory / f"{output}.pipe"
        self._output = output
        self._end: int | None = None
        os.mkfifo(self._pipe)
        self.command = f"cat {self._pipe.name}"

    async def started(self) -> None:
        await until(self._has_reader)

    def _has_reader(self) -> bool:
        try:
            self._end = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return False
        return True

    def end(self) -> None:
        """Let it print its output and end. `BrokenPipeError` if it does not run any more."""
        assert self._end is not None
        os.write(self._end, f"{self._output}\n".encode())
        self.close()

    def close(self) -> None:
        """End it, also if it has not been noticed that it started."""
        end = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK) if self._end is None else self._end
        self._end = None
        os.close(end)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """An agent and its model; several editors may be put in front of the agent, one after the other."""

    agent: Agent
    model: Model
    place: Place
    store: str
    tools: ExitStack

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the environment of the tests: an agent must not find a key, a proxy or a configuration there."""
        return {
            "HOME": str(self.place.home),
            "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            **self.agent.environment(self.place),
        }

    @asynccontextmanager
    async def editor(self, *, proxied: bool = True, knows_compaction: bool = False) -> AsyncIterator[Editor]:
        """An editor with a process of the agent, with Sideband's proxy between them or without it.

        An agent tells an editor of compactions that `knows_compaction`; other editors see the call of a tool.
        """
        proxy = (sys.executable, "-m", "sideband.cli", "acp-proxy", "--store", self.store, "--name", self.agent.name)
        program, *arguments = self.agent.command
        command = (*((*proxy, "--") if proxied else ()), str(BIN / program), *arguments)
        async with an_editor(
            command,
            environment=self.environment,
            directory=self.place.directory,
            auth_method=self.agent.auth_method,
            capabilities={"session": {"compaction": {}}} if knows_compaction else {},
            log=self.place.home / "stderr.log",
        ) as editor:
            yield editor

    def tool(self, output: str) -> HeldTool:
        """A command that runs until the test lets it end, and then prints this word."""
        tool = HeldTool(self.place.directory, output)
        self.tools.callback(tool.close)
        return tool

    async def remind(self, editor: Editor, body: str, *options: str) -> None:
        """Send a reminder from another process, by the command line."""
        target = f"proxy:{self.agent.name}:{editor.session_id}"
        arguments = ("remind", body, "--to", target, "--store", self.store, *options)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "sideband.cli"),
            *arguments,
            env=self.environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()


Scene: TypeAlias = Callable[[Stage], Coroutine[Any, Any, None]]


def on_every_agent(test: Scene) -> Callable[..., None]:
    """A test that is run on each stock agent."""
    return _on(AGENTS, test)


def on_agents_that_steer(test: Scene) -> Callable[..., None]:
    """A test that is run on each stock agent that takes `_session/steering`."""
    return _on([agent for agent in AGENTS if agent.steers], test)


def _on(agents: Sequence[Agent], test: Scene) -> Callable[..., None]:
    @pytest.mark.parametrize("agent", [pytest.param(agent, id=agent.name) for agent in agents])
    def run(agent: Agent, tmp_path: Path) -> None:
        _play(agent, tmp_path, test)

    functools.update_wrapper(run, test)
    # Otherwise pytest reads the parameters of the test from what is wrapped.
    del run.__dict__["__wrapped__"]
    return run


@within(_TEST_SECONDS)
async def _play(agent: Agent, folder: Path, test: Scene) -> None:
    home, directory = folder / "home", folder / "project"
    directory.mkdir()
    async with a_model(agent.purpose_of) as model:
        store = f"sqlite:///{folder / 'sideband.db'}"
        place = Place(home=home, directory=directory, model_url=model.url)
        for name, content in {**agent.files(place), "stderr.log": ""}.items():
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
        with ExitStack() as tools:
            await test(Stage(agent=agent, model=model, place=place, store=store, tools=tools))
