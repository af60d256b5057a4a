"""Calls of the SDK and of httpx: their errors become those of this project, and their answers plain values."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from http import HTTPStatus
from typing import Any, Final, cast

import httpx
import msgspec
from a2a.client import A2AClientError
from a2a.types import StreamResponse
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
from google.protobuf.json_format import ParseError

from sideband.core.errors import ReminderError, shown
from sideband.protocols.a2a.client.failures import PeerNotUnderstood, PeerUnreachable
from sideband.protocols.a2a.client.http import origin_of
from sideband.protocols.a2a.client.refusals import PeerRefusal, refused_by_peer

_NOT_CONNECTED: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)


@contextmanager
def translating(method: str, task_id: str | None, *, is_extension: bool = False, is_rpc: bool = True) -> Iterator[None]:
    """Raise the errors of this project instead of those of the SDK and of httpx."""
    try:
        yield
    except ReminderError:
        # It is a ValueError.
        raise
    except PeerRefusal as told:
        raise refused_by_peer(told, method, task_id, is_extension=is_extension, is_rpc=is_rpc) from None
    except httpx.RequestError as error:
        raise _unreachable(error) from None
    except A2AClientError as error:
        if isinstance(error.__cause__, httpx.RequestError):
            raise _unreachable(error.__cause__) from None
        raise PeerNotUnderstood(f"the peer answered {method} with something that is not A2A: {error}") from None
    except A2AError as error:
        code = JSON_RPC_ERROR_CODE_MAP.get(type(error))
        if code is None:
            raise PeerNotUnderstood(f"the peer answered {method} with an unknown error: {error}") from None
        # An error inside a stream; one that is an answer by itself was a refusal.
        inner = PeerRefusal(HTTPStatus.OK, code, error.message, None)
        raise refused_by_peer(inner, method, task_id, is_extension=is_extension) from None
    except (ParseError, KeyError, TypeError, ValueError, RecursionError) as error:
        # The SDK does not check all that it reads.
        raise PeerNotUnderstood(f"the peer answered {method} with something that is not A2A: {error}") from None


def _unreachable(error: httpx.RequestError) -> PeerUnreachable:
    cause = str(error) or type(error).__name__
    place = origin_of(str(error.request.url))
    if isinstance(error, _NOT_CONNECTED):
        return PeerUnreachable(
            f"cannot connect to {place}: {cause}; check the address and that the agent is running",
            may_have_arrived=False,
        )
    return PeerUnreachable(f"the connection to {place} failed: {cause}; check that the agent is running")


async def first(answers: AsyncIterator[StreamResponse]) -> StreamResponse:
    """The only answer of a request that is not streamed, which the SDK gives as a stream, too."""
    async with aclosing(cast("AsyncGenerator[StreamResponse, None]", answers)) as stream:
        return await anext(stream)


def decoded(body: bytes) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def misunderstood(method: str, result: object) -> PeerNotUnderstood:
    return PeerNotUnderstood(f"the peer answered {method} with {shown(result)}, which A2A does not allow")
