"""Agent frameworks with MCP clients of their own get the reminders of a watcher, with the programs of the documentation."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from tests.loopback import over_sockets
from tests.peers.clients import HERE, environment
from tests.programs import ROOT

PAGE: Final = (ROOT / "docs" / "mcp-clients.md").read_text(encoding="utf-8")
BLOCKS: Final = [found.group(1) for found in re.finditer(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
NOTICE: Final = "app.py changed on disk"


async def run(framework: str, number: int, folder: Path) -> Any:  # noqa: ANN401 - any JSON value
    """Run a program of the page in the environment of this framework; nothing may be logged."""
    program, file = folder / "program.py", folder / "workspace" / "app.py"
    program.write_text(BLOCKS[number], encoding="utf-8")
    file.parent.mkdir()
    file.write_text("one\n", encoding="utf-8")
    surroundings = environment(folder)
    surroundings |= {
        "PATH": f"{Path(sys.executable).parent}:{surroundings['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    del surroundings["PYTHONPATH"]
    process = await asyncio.create_subprocess_exec(
        str(ROOT / "build" / f"mcp-{framework}" / "bin" / "python"),
        *(str(HERE / f"mcp_{framework.replace('-', '_')}.py"), str(program), str(file)),
        cwd=file.parent,
        env=surroundings,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode()
    assert errors == b""
    return json.loads(output)


def notices(request: list[str]) -> list[str]:
    return [text for text in request if NOTICE in text]


@over_sockets
async def test_pydantic_ai_has_a_reminder_in_the_next_request(tmp_path: Path) -> None:
    told = await run("pydantic-ai", 0, tmp_path)
    first, second = told["requests"]
    assert notices(first) == []
    assert notices(second) == [second[-1]]
    assert second[-1].startswith("Notice from the MCP server watch-files, not from the user: ")
    assert told["result"] == "Reply 2."


@over_sockets
async def test_langchain_has_a_reminder_in_one_request(tmp_path: Path) -> None:
    told = await run("langchain", 1, tmp_path)
    *before, shown, after = told["requests"]
    assert notices(shown) == [shown[-1]]
    assert 'from="watch-files"' in shown[-1]
    assert [notices(request) for request in (*before, after)] == [[] for _ in (*before, after)]
    assert told["result"] == f"Reply {len(told['requests'])}."
