"""The files and terminals that an editor offers to an ACP agent: buffers over a real folder, and real processes."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.acp_editor import Answer, Editor, Refused

FILES: Final[dict[str, Any]] = {"fs": {"readTextFile": True, "writeTextFile": True}}
TERMINALS: Final[dict[str, Any]] = {"terminal": True}


def refused(code: int, message: str) -> Refused:
    return Refused({"code": code, "message": message})


class Terminal:
    """A command of the agent, with its output so far."""

    def __init__(self, process: asyncio.subprocess.Process, limit: int) -> None:
        self.process = process
        self._limit = limit
        self.output = b""
        self.truncated = False
        self.reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while data := await self.process.stdout.read(65536):
            self.output += data
            self.truncated = self.truncated or len(self.output) > self._limit
            self.output = self.output[-self._limit :]

    async def ended(self) -> dict[str, Any]:
        code = await self.process.wait()
        await self.reading
        return {"exitCode": code} if code >= 0 else {"exitCode": None, "signal": signal.Signals(-code).name}

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Desk:
    """What an editor offers. `asked` has the method and parameters of every request, in order.

    `buffers` are the open files by their path, which may differ from the disk.
    """

    def __init__(self, *editors: Editor) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.buffers: dict[str, str] = {}
        self.terminals: dict[str, Terminal] = {}
        self._changed = asyncio.Event()
        answers: dict[str, Answer] = {
            "fs/read_text_file": self.read,
            "fs/write_text_file": self.write,
            "terminal/create": self.create,
            "terminal/output": self.output,
            "terminal/wait_for_exit": self.wait,
            "terminal/kill": self.kill,
            "terminal/release": self.release,
        }
        for editor in editors:
            for method, answer in answers.items():
                self.offer(editor, method, answer)

    def offer(self, editor: Editor, method: str, answer: Answer) -> None:
        """Answer a method, and note that it was asked."""

        def noted(params: dict[str, Any]) -> Any:  # noqa: ANN401 - of any method
            self.asked.append((method, params))
            self._changed.set()
            return answer(params)

        editor.answers[method] = noted

    def refuse(self, editor: Editor, method: str, code: int = -32603) -> None:
        def refusing(_params: dict[str, Any]) -> None:
            raise refused(code, "not today")

        self.offer(editor, method, refusing)

    def ignore(self, editor: Editor, method: str) -> None:
        """Do not answer a method."""
        self.offer(editor, method, lambda _params: asyncio.get_running_loop().create_future())

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.asked]

    async def until_asked(self, method: str) -> dict[str, Any]:
        async with asyncio.timeout(20):
            while method not in self.methods:
                self._changed.clear()
                await self._changed.wait()
        return next(params for name, params in self.asked if name == method)

    # Files.

    def read(self, params: dict[str, Any]) -> dict[str, Any]:
        path = params["path"]
        if path in self.buffers:
            return {"content": self.buffers[path]}
        if not Path(path).is_file():
            raise refused(-32002, "Resource not found")
        return {"content": Path(path).read_text(encoding="utf-8")}

    def write(self, params: dict[str, Any]) -> None:
        self.buffers[params["path"]] = params["content"]
        Path(params["path"]).write_text(params["content"], encoding="utf-8")

    # Terminals.

    async def create(self, params: dict[str, Any]) -> dict[str, Any]:
        try:
            process = await asyncio.create_subprocess_exec(
                params["command"],
                *params["args"],
                cwd=params["cwd"],
                env={"PATH": os.environ["PATH"], **{each["name"]: each["value"] for each in params["env"]}},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise refused(-32603, str(error.strerror)) from None
        terminal_id = f"term-{len(self.terminals)}"
        self.terminals[terminal_id] = Terminal(process, params["outputByteLimit"])
        return {"terminalId": terminal_id}

    def output(self, params: dict[str, Any]) -> dict[str, Any]:
        terminal = self.terminals[params["terminalId"]]
        return {"output": terminal.output.decode(), "truncated": terminal.truncated}

    async def wait(self, params: dict[str, Any]) -> dict[str, Any]:
        return await self.terminals[params["terminalId"]].ended()

    async def kill(self, params: dict[str, Any]) -> dict[str, Any]:
        self.terminals[params["terminalId"]].kill()
        await self.terminals[params["terminalId"]].ended()
        return {}

    def release(self, _params: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        """End every command that was started."""
        for terminal in self.terminals.values():
            terminal.kill()
            await terminal.ended()
