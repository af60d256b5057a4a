"""A2A agents that answer from a table, for what no server of ours would say."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from tests.loopback import Captured, listening, read_request

CARD: Final = "/.well-known/agent-card.json"
SEED_CARD: Final = "/.well-known/a2a-agent"
URI: Final = "urn:sideband:a2a:reminders:v1"


class Raw(NamedTuple):
    """An answer of HTTP; a `silent` one is never sent."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    silent: bool = False


Answer: TypeAlias = Mapping[str, Any] | Raw | Sequence[Mapping[str, Any] | Raw]
"""The result or `{"error": …}` of a request, or such answers one after the other; the last one is given again."""


def json_of(status: int, value: object, **headers: str) -> Raw:
    return Raw(status, msgspec.json.encode(value), {"content-type": "application/json", **headers})


def events_of(*events: Mapping[str, Any]) -> Raw:
    """An event stream with these results of JSON-RPC, and then its end."""
    frames = (msgspec.json.encode({"jsonrpc": "2.0", "id": "1", "result": event}) for event in events)
    return Raw(200, b"".join(b"data: " + frame + b"\n\n" for frame in frames), {"content-type": "text/event-stream"})


def error(code: int, message: str = "no", data: object = None) -> dict[str, Any]:
    """An answer that refuses a request."""
    return {"error": {"code": code, "message": message, **({} if data is None else {"data": data})}}


def error_info(reason: str, **metadata: str) -> list[dict[str, Any]]:
    """The details of an error of Sideband."""
    return [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": "sideband",
            "metadata": metadata,
        }
    ]


def a_card(url: str, *, binding: str = "JSONRPC", version: str = "1.0", **capabilities: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """The card of an agent at this address."""
    return {
        "name": "fake",
        "description": "An agent from a table.",
        "version": "1",
        "supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": version}],
        "capabilities": capabilities,
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
    }


def with_extension(**params: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    """The capability to take reminders, where A2A 1.0 allows it."""
    return {"extensions": [{"uri": URI, "params": {"inject": True, "emit": True, **params}}]}


def a_task(state: str = "completed", task_id: str = "t", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON value
    return {"id": task_id, "contextId": "c", "status": {"state": f"TASK_STATE_{state.upper()}"}, **fields}


class FakePeer:
    """Answers by the method of a JSON-RPC request, or else by the path; what is not in the table is unknown."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, Answer] = {}
        self.requests: list[Captured] = []
        self.is_silent = asyncio.Event()
        # The methods after whose answers the connection is closed.
        self.hangs_up: set[str] = set()
        self._given: dict[str, int] = {}

    def asked(self, method: str) -> list[Any]:
        """The parameters of all requests of this method."""
        bodies = [request.json for request in self.requests if request.method == "POST" and request.body]
        return [body.get("params") for body in bodies if body.get("method") == method]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await read_request(reader)) is not None:
                self.requests.append(request)
                answer = self._answer(request)
                if answer.silent:
                    self.is_silent.set()
                    await reader.read()
                    break
                head = {"content-length": str(len(answer.body)), **answer.headers}
                lines = [f"HTTP/1.1 {answer.status} Some", *(f"{name}: {value}" for name, value in head.items())]
                writer.write("\r\n".join((*lines, "", "")).encode() + answer.body)
                await writer.drain()
                if self.hangs_up and request.body and request.json.get("method") in self.hangs_up:
                    break
        except ConnectionError:
            pass
        finally:
            # What was written has to arrive.
            writer.close()

    def _answer(self, request: Captured) -> Raw:
        body = request.json if request.body else {}
        method = body.get("method") if isinstance(body, dict) and "jsonrpc" in body else None
        name = method if method is not None else request.path
        found = self.answers.get(name)
        if found is None:
            return json_of(200, {"jsonrpc": "2.0", "id": body["id"], **error(-32601)}) if method else Raw(404)
        if isinstance(found, Sequence) and not isinstance(found, Raw):
            place = self._given[name] = self._given.get(name, -1) + 1
            found = found[min(place, len(found) - 1)]
        if isinstance(found, Raw):
            return found
        if method is None:
            return json_of(200, found)
        member = {"error": found["error"]} if "error" in found else {"result": found}
        return json_of(200, {"jsonrpc": "2.0", "id": body["id"], **member})


@asynccontextmanager
async def a_fake_peer(
    answers: Mapping[str, Answer] | None = None,
    card: Mapping[str, Any] | None = None,
    **capabilities: Any,  # noqa: ANN401 - any JSON value
) -> AsyncIterator[FakePeer]:
    """An agent with these answers and these capabilities on its card, or with this whole card."""
    peer = FakePeer()
    async with listening(peer.serve) as url:
        peer.url = url
        peer.answers = {CARD: card or a_card(f"{url}/", **capabilities), **(answers or {})}
        yield peer
