"""The tools of MCP servers as tools of the agent loop: names that every model accepts, and results as text."""

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import mcp_types as types
from mcp.shared.exceptions import MCPError

from sideband.ports import ToolContext, ToolOutput
from sideband.tools.text import cut, size

# The names that every model API accepts.
MAX_NAME: Final = 64
# The beginning of a longer result is shown, as for the tools of a workspace.
MAX_RESULT_BYTES: Final = 64 * 1024
_HASH_CHARACTERS: Final = 8

CallTool: TypeAlias = Callable[[str, dict[str, Any]], Awaitable[types.CallToolResult]]

_NO_PARAMETERS: Final[Mapping[str, Any]] = MappingProxyType({"type": "object", "properties": {}})


class McpTool:
    """A tool of a server. `own_name` is its name there; `seconds` is the time limit of a call (None: that of the run)."""

    def __init__(
        self, listed: types.Tool, server: str, call: CallTool, *, idempotent: bool, seconds: float | None
    ) -> None:
        self.own_name = listed.name
        self.server = server
        self.name = tool_name(server, listed.name)
        self.description = listed.description or listed.title or f"The tool {listed.name} of the MCP server {server}."
        self.parameters: Mapping[str, Any] = listed.input_schema or _NO_PARAMETERS
        self.idempotent = idempotent
        self.seconds = seconds
        self._call = call

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> ToolOutput:  # noqa: ARG002 - of the interface
        try:
            return output_of(await self._call(self.own_name, dict(args)))
        except MCPError as error:
            return ToolOutput(text=f"{self.name}: {error}", is_error=True)


# Names.


def tool_name(server: str, tool: str) -> str:
    """The name of a tool in requests: `mcp__SERVER__TOOL`, shortened and with other characters replaced if necessary."""
    plain = f"mcp__{server}__{tool}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", plain)
    return name if name == plain and len(name) <= MAX_NAME else _marked(name, plain)


def _marked(name: str, plain: str) -> str:
    """The name with a hash of `plain` at its end."""
    mark = hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{name[: MAX_NAME - _HASH_CHARACTERS - 1]}_{mark}"


def without_collisions(tools: Iterable[McpTool]) -> tuple[McpTool, ...]:
    """The tools with names that differ: `a` with `b__c` and `a__b` with `c` would have the same one."""
    found: dict[str, McpTool] = {}
    for tool in tools:
        one = tool
        if one.name in found:
            # A copy, because other sessions use the tool as well.
            one = copy(tool)
            one.name = _marked(tool.name, f"{tool.server}\0{tool.own_name}")
        found[one.name] = one
    return tuple(found.values())


# Results.


def output_of(result: types.CallToolResult) -> ToolOutput:
    """The result of a call as text. What is not text is named, because a tool result of the loop holds text only."""
    texts = [*filter(None, map(_text_of, result.content))]
    if not texts and result.structured_content is not None:
        texts.append(json.dumps(result.structured_content, ensure_ascii=False))
    text = "\n".join(texts) or "The tool returned no value."
    whole = size(text)
    if whole <= MAX_RESULT_BYTES:
        return ToolOutput(text=text, is_error=result.is_error)
    shown = cut(text, MAX_RESULT_BYTES)
    mark = f"\n[truncated: {size(shown):,} of {whole:,} bytes]"
    return ToolOutput(text=shown + mark, is_error=result.is_error, original_bytes=whole)


def _text_of(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            kind = "image" if isinstance(block, types.ImageContent) else "audio"
            return f"[{kind}: {block.mime_type}, {_decoded_bytes(block.data):,} bytes; not shown]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return f"[resource: {resource.uri}]\n{resource.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            kind = resource.mime_type or "binary data"
            return f"[resource: {resource.uri}, {kind}, {_decoded_bytes(resource.blob):,} bytes; not shown]"
        case types.ResourceLink():
            about = f": {block.description}" if block.description else ""
            return f"[resource: {block.uri}{about}]"
        case _:
            return f"[{getattr(block, 'type', 'content')}; not shown]"


def _decoded_bytes(data: str) -> int:
    """The size of what base64 stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")
