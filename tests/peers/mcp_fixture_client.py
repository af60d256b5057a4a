"""The client that the conformance suite of MCP tests: `python mcp_fixture_client.py plain|tapped|host URL`.

The suite runs it once for each scenario, with a server of its own at URL. The client uses whatever that server offers.
`plain` is the SDK alone, `tapped` the same with the transport, the tap and the declaration of Sideband's host. `host` is
the host itself.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client import advertise
from mcp.client._transport import TransportStreams
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.session import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult
from pydantic import AnyUrl

from sideband.protocols.mcp.capabilities import EXTENSION, receive_settings
from sideband.protocols.mcp.config import ServerConfig
from sideband.protocols.mcp.host import McpHost
from sideband.protocols.mcp.host.transport import HttpSession, http_transport
from sideband.runtime.store import open_store
from tests.mcp_hosts import NoContext

Json = dict[str, Any]

MODERN: Final = "2026-07-28"
TIMEOUT_SECONDS: Final = 20.0
SERVER: Final = "suite"
CALLBACK: Final = "http://127.0.0.1:3000/callback"
METADATA_URL: Final = "https://conformance-test.local/client-metadata.json"
# Values for the parameters of the suite's tools; a tool that requires another parameter is not called.
ARGUMENTS: Final[Json] = {"a": 5, "b": 3, "region": "us-west1"}


class Memory(TokenStorage):
    """Keeps the credentials of one scenario; `client` is what was registered in advance."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self._client = client
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class User:
    """Allows everything: the authorization server redirects at once to the callback, which is never served."""

    def __init__(self) -> None:
        self._answer = AuthorizationCodeResult(code="")

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient() as browser:
            response = await browser.get(url)
        given = {name: values[0] for name, values in parse_qs(urlsplit(response.headers["location"]).query).items()}
        self._answer = AuthorizationCodeResult(**given)

    async def answer(self) -> AuthorizationCodeResult:
        return self._answer


def authorization(url: str, context: Json) -> OAuthClientProvider:
    """The authorization flow, with the credentials of the scenario if it has any."""
    redirects = [AnyUrl(CALLBACK)]
    registered = None
    if "client_secret" in context:
        registered = OAuthClientInformationFull(
            client_id=context["client_id"],
            client_secret=context["client_secret"],
            redirect_uris=redirects,
            token_endpoint_auth_method="client_secret_basic",  # noqa: S106 - the name of a method
            issuer=context["issuer"],
        )
    user = User()
    return OAuthClientProvider(
        url,
        OAuthClientMetadata(client_name="fixture", redirect_uris=redirects),
        Memory(registered),
        redirect_handler=user.open,
        callback_handler=user.answer,
        client_metadata_url=METADATA_URL,
    )


async def fill_in(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Accepts every form: its default values, and yes where there are none."""
    del context
    assert isinstance(params, ElicitRequestFormParams)
    fields = params.requested_schema["properties"]
    return ElicitResult(action="accept", content={name: field.get("default", True) for name, field in fields.items()})


def calls_of(tools: Mapping[str, Mapping[str, Any]], context: Json) -> list[tuple[str, Json]]:
    """The calls that the scenario asks for, and one of each other tool; `tools` are their schemas by name."""
    calls = [(call["name"], call["arguments"]) for call in context.get("toolCalls", ())]
    # One tool echoes the schema of another, so that the suite sees what the client has kept of it.
    arguments = ARGUMENTS | {"schema": next(iter(tools.values()), {})}
    for name, schema in tools.items():
        required = schema.get("required", ())
        if name not in dict(calls) and arguments.keys() >= set(required):
            calls.append((name, {parameter: arguments[parameter] for parameter in required}))
    return calls


async def use_everything(client: Client, context: Json) -> None:
    """Lists and uses all that the server offers."""
    tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
    for name, arguments in calls_of(tools, context):
        await client.call_tool(name, arguments)
    if client.server_capabilities.resources is not None:
        for resource in (await client.list_resources()).resources:
            await client.read_resource(resource.uri)
    if client.server_capabilities.prompts is not None:
        for prompt in (await client.list_prompts()).prompts:
            await client.get_prompt(prompt.name)


@asynccontextmanager
async def plain_transport(url: str, auth: httpx2.Auth | None) -> AsyncIterator[TransportStreams]:
    async with (
        httpx2.AsyncClient(auth=auth, timeout=TIMEOUT_SECONDS) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


async def with_sdk(url: str, scenario: str, context: Json, *, is_modern: bool, is_tapped: bool) -> None:
    """A client of the SDK, on its own transport or on that of the host, with the tap of the host."""
    auth = authorization(url, context) if scenario.startswith("auth/") else None
    connection: AbstractAsyncContextManager[TransportStreams] = plain_transport(url, auth)
    extensions = []
    if is_tapped:
        tap = McpHost([ServerConfig(name=SERVER, url=url)]).connections[SERVER]
        connection = http_transport(url, tap, headers={}, session=HttpSession(), auth=auth)
        extensions.append(advertise(EXTENSION, receive_settings("fixture")))
    mode = "auto" if is_modern else "legacy"
    async with Client(connection, mode=mode, elicitation_callback=fill_in, extensions=extensions) as client:
        await use_everything(client, context)


async def with_host(url: str, context: Json) -> None:
    """The host as users have it; it offers only tools to its sessions."""
    config = [ServerConfig(name=SERVER, url=url)]
    async with open_store("memory:") as store, McpHost(config) as host:
        tools = await host.attach(await store.begin("fixture"))
        prefix = f"mcp__{SERVER}__"
        calls = calls_of({tool.name.removeprefix(prefix): tool.parameters for tool in tools}, context)
        for name, arguments in calls:
            [tool] = [tool for tool in tools if tool.name == prefix + name]
            result = await tool.call(arguments, NoContext())
            assert not result.is_error, result.text


async def main(kind: str, url: str) -> None:
    """Run one scenario."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    is_modern = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] == MODERN
    if kind == "host":
        await with_host(url, context)
    else:
        await with_sdk(url, scenario, context, is_modern=is_modern, is_tapped=kind == "tapped")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
