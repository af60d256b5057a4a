"""Which client a message comes from, and what that client has declared."""

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sideband.protocols.mcp.capabilities import client_name

Context: TypeAlias = ServerRequestContext[Any, Any]


class ClientId(NamedTuple):
    """The identity of a client.

    `is_certain` is false if two clients can have the same identity: over HTTP without a session and without a declared
    name, all that is known is where a request comes from and which program sent it.
    """

    key: Hashable
    is_certain: bool = True


class _Same:
    """Equal only for the very same object, which is kept alive so that its identity is not used again."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def is_modern(context: Context) -> bool:
    """Whether the message is of revision 2026-07-28 or later, which has no sessions and no standalone channel."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def has_session(context: Context) -> bool:
    """Whether the client has completed the handshake on this connection or in this HTTP session."""
    return not is_modern(context) and context.session.client_params is not None


def is_ready(context: Context) -> bool:
    """Whether the client may be served: on a connection up to 2025-11-25, only after its handshake."""
    return is_modern(context) or context.request is not None or context.session.client_params is not None


def declared(context: Context) -> Mapping[str, Any]:
    """The capabilities that the client has declared; empty over HTTP without sessions up to 2025-11-25."""
    capabilities = context.session.client_capabilities
    return {} if capabilities is None else capabilities.model_dump(by_alias=True, mode="json", exclude_none=True)


def client_of(context: Context) -> ClientId:
    """The client that sent this message."""
    params = context.session.client_params
    if params is not None and not is_modern(context):
        # The SDK keeps the parameters of `initialize` for the lifetime of the connection or HTTP session.
        return ClientId(_Same(params))
    name = client_name(declared(context))
    program = None if params is None else (params.client_info.name, params.client_info.version)
    if context.request is None:
        # A server enters its lifespan once for each connection over streams.
        return ClientId((_Same(context.lifespan_context), name or program))
    if name is not None:
        return ClientId(("client", name))
    peer, headers = context.request.client, context.request.headers
    return ClientId((None if peer is None else peer.host, program or headers.get("user-agent")), is_certain=False)
