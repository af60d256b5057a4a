"""An MCP server without an SDK, of revision 2025-11-25: it declares what it is told to, and sends any line that it is asked for.

Run it as `python tests/mcp_raw_server.py CAPABILITIES [silent|fails]`, with JSON. Its tool `send` writes the lines in `lines` to standard
output, all of them `times` times; a string is written as it is, anything else as JSON. `{n}` in a line is its number. The
tool `die` writes to standard error and ends the process, `grow` adds a tool and tells so, `show` returns content of all kinds, and `seen` returns the
methods that the client has sent.
"""

import json
import os
import sys
from typing import Any

CAPABILITIES = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
SCHEMA = {"type": "object", "properties": {}}
TOOLS = ["send", "die", "grow", "show", "seen", "fail"]
SEEN: list[str] = []

SHOWN = {
    "content": [
        {"type": "text", "text": "a text"},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "of a resource"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGVsbG8=", "mimeType": "application/pdf"}},
        {"type": "resource_link", "uri": "file:///c", "name": "c", "description": "a link"},
    ]
}


def write(line: str) -> None:
    sys.stdout.write(line + "\n")


def send(**frame: Any) -> None:  # noqa: ANN401 - any JSON value
    write(json.dumps({"jsonrpc": "2.0", **frame}))


def called(name: str, args: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "send":
            lines = [line if isinstance(line, str) else json.dumps(line) for line in args["lines"]]
            number = 0
            for _ in range(args.get("times", 1)):
                for line in lines:
                    write(line.replace("{n}", str(number)))
                    number += 1
        case "die":
            sys.stderr.write("out of memory\n")
            os._exit(7)
        case "grow":
            TOOLS.append("grown")
            send(method="notifications/tools/list_changed")
        case "show":
            return SHOWN
        case "seen":
            return {"content": [], "structuredContent": {"methods": SEEN}}
        case "fail":
            return {"content": [{"type": "text", "text": "it is broken"}], "isError": True}
    return {"content": [{"type": "text", "text": f"done {json.dumps(args, sort_keys=True)[:80]}"}]}


def answer(frame: dict[str, Any]) -> None:
    method, params, number = frame["method"], frame.get("params") or {}, frame.get("id")
    SEEN.append(method)
    match method:
        case "initialize":
            info = {"name": "raw", "version": "1"}
            told = {"tools": {"listChanged": True}, **CAPABILITIES}
            send(id=number, result={"protocolVersion": "2025-11-25", "capabilities": told, "serverInfo": info})
        case "tools/list":
            send(id=number, result={"tools": [{"name": name, "inputSchema": SCHEMA} for name in TOOLS]})
        case "tools/call":
            send(id=number, result=called(params["name"], params.get("arguments") or {}))
        case _ if number is not None:
            send(id=number, error={"code": -32601, "message": "Method not found"})


# A server that does not answer, or that ends before it has answered.
if MUTE := sys.argv[2:]:
    if MUTE == ["fails"]:
        sys.stderr.write("no such database\n")
        sys.exit(3)
    sys.stdin.read()

for read in sys.stdin:
    message = json.loads(read)
    if "method" in message:
        answer(message)
    sys.stdout.flush()
