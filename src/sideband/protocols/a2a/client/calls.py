"""Calls of the SDK and of httpx: their errors become those of this project, and their answers plain values."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from http import HTTPStatus
from typing import Any, cast

import httpx
import msgspec
from a2a.client import A2AClientError, A2AClientTimeoutError
from a2a.types import StreamResponse
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
from google.protobuf.json_format import ParseError

from sideband.core.errors import shown
from sideband.protocols.a2a.client.failures import PeerNotUnderstood, PeerUnreachable
from sideband.protocols.a2a.client.refusals import PeerRefusal, refused_by_peer


@contextmanager
def translating(method: str, task_id: str | None, *, is_extension: bool = False) -> Iterator[None]:
    """Raise the errors of this project instead of those of the SDK and of httpx."""
    try:
        yield
    except PeerRefusal as told:
        raise refused_by_peer(told, method, task_id, is_extension=is_extension) from None
    except (httpx.TimeoutException, A2AClientTimeoutError) as error:
        raise PeerUnreachable(f"the peer cannot be reached: {_cause(error)}; check that it is running") from None
    except httpx.RequestError as error:
        raise PeerUnreachable(f"the connection to the peer failed: {_cause(error)}; check that it is running") from None
    except A2AClientError as error:
        if isinstance(error.__cause__, httpx.RequestError):
            raise PeerUnreachable(
                f"the connection to the peer failed: {_cause(error.__cause__)}; check that it is running"
            ) from None
        raise PeerNotUnderstood(f"the peer answered {method} with something that is not A2A: {error}") from None
    except A2AError as error:
        code = JSON_RPC_ERROR_CODE_MAP.get(type(error))
        if code is None:
            raise PeerNotUnderstood(f"the peer answered {method} with an unknown error: {error}") from None
        # An error inside a stream; one that is an answer by itself was a refusal.
        inner = PeerRefusal(HTTPStatus.OK, code, error.message, None)
        raise refused_by_peer(inner, method, task_id, is_extension=is_extension) from None
    except (ParseError, KeyError, TypeError, ValueError) as error:
        # The SDK does not check all that it reads.
        raise PeerNotUnderstood(f"the peer answered {method} with something that is not A2A: {error}") from None


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


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
    return PeerNotUnderstood(f"the peer answered {method} with {shown(result)}, which is not what the extension says")
