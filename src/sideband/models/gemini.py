"""Models on the Gemini wire, through the official client.

The SDK has no public call that takes a finished body, but it accepts an HTTP client and builds every request with it.
The HTTP client here replaces the body with the rendered bytes. The SDK gets a placeholder prompt, which is never sent;
address, key, streaming and error handling remain the SDK's.
"""

from collections.abc import AsyncGenerator, Mapping
from contextvars import ContextVar
from typing import Any, ClassVar, Final

import httpx2
from google import genai
from google.genai import errors, types
from google.genai.client import AsyncClient
from pydantic import ValidationError

from sideband.core.events import Usage
from sideband.core.messages import Reply, ToolCall
from sideband.models.client import Endpoint
from sideband.models.errors import COMMON_FAILURES, cut_off, read_failure, refused, status_named, unanswered
from sideband.models.rendered import RenderedModel
from sideband.models.stream import TextStream, whole_value
from sideband.ports import ModelError
from sideband.render.profiles import Wire
from sideband.render.renderer import Rendered

_PLACEHOLDER: Final = "."
_FINISHED: Final = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED"})
# The loop runs the tools and sends the next request, so the SDK must not: one call is exactly one request.
_CONFIG: Final = types.GenerateContentConfig(
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True), automatic_continuation=False
)
# The body of the request that the current task is sending.
_BODY: Final[ContextVar[bytes]] = ContextVar("_BODY")


class GeminiModel(RenderedModel[AsyncClient]):
    """Gemini, or another server at `base_url` that implements its API."""

    SERVICE = "Google"
    KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    ENVIRONMENT: ClassVar[tuple[str, ...]] = ("GOOGLE_", "GEMINI_")
    # The SDK raises the last three for a reply, or an error body, of an unexpected shape.
    FAILURES = (
        errors.APIError,
        errors.UnknownApiResponseError,
        *COMMON_FAILURES,
        ValidationError,
        AttributeError,
        TypeError,
    )

    @staticmethod
    async def _opened(endpoint: Endpoint) -> AsyncGenerator[AsyncClient, None]:
        milliseconds = None if endpoint.seconds is None else round(endpoint.seconds * 1_000)
        async with _BodyClient(follow_redirects=True) as http:
            options = types.HttpOptions(base_url=endpoint.base_url, timeout=milliseconds, httpx_async_client=http)
            with genai.Client(enterprise=False, api_key=endpoint.api_key, http_options=options) as client:
                async with client.aio as aio:
                    yield aio

    async def _ask(self, client: AsyncClient, rendered: Rendered, text: TextStream) -> Reply:
        content = _GeminiReply(self._service, text)
        token = _BODY.set(rendered.body)
        try:
            async for chunk in await client.models.generate_content_stream(
                model=self.model, contents=_PLACEHOLDER, config=_CONFIG
            ):
                await content.take(chunk)
        finally:
            _BODY.reset(token)
        await text.end()
        return content.reply()

    def _read(self, error: Exception) -> ModelError:
        match error:
            case errors.APIError():
                headers = {} if error.response is None else error.response.headers
                return refused(self._service, status_named(error.code), error.message or error.details, headers)
            case errors.UnknownApiResponseError():
                return cut_off(self._service)
            case _:
                return read_failure(self._service, error)


class _BodyClient(httpx2.AsyncClient):
    """Replaces the body of every request with the rendered bytes."""

    def build_request(self, *args: Any, **options: Any) -> httpx2.Request:  # noqa: ANN401 - the signature of httpx2
        return super().build_request(*args, **(options | {"content": _BODY.get()}))


class _GeminiReply:
    """Assembles a reply from the chunks of a Gemini stream."""

    def __init__(self, service: str, text: TextStream) -> None:
        self._service = service
        self._text = text
        self._parts: list[dict[str, Any]] = []
        self._spent = types.GenerateContentResponseUsageMetadata()
        self._response_id = ""
        self._finish_reason: str | None = None
        self._blocked: str | None = None

    async def take(self, chunk: types.GenerateContentResponse) -> None:
        self._response_id = chunk.response_id or self._response_id
        self._spent = chunk.usage_metadata or self._spent
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None:
            self._blocked = chunk.prompt_feedback.block_reason.value
        for candidate in (chunk.candidates or ())[:1]:
            if candidate.finish_reason is not None:
                self._finish_reason = candidate.finish_reason.value
            for part in (candidate.content.parts if candidate.content else None) or ():
                if part.text and not part.thought:
                    await self._text.add(part.text)
                self._add(part.model_dump(mode="json", by_alias=True, exclude_none=True))

    def _add(self, part: dict[str, Any]) -> None:
        # Text arrives in pieces of one part, which are joined. A signed part is kept as it is: its signature covers it.
        last = self._parts[-1] if self._parts else {}
        if _is_text(part) and _is_text(last) and part.get("thought") == last.get("thought"):
            last["text"] += part["text"]
        elif part:
            self._parts.append(part)

    def reply(self) -> Reply:
        if self._blocked is not None:
            raise unanswered(self._service, f"the prompt was blocked ({self._blocked})")
        if self._finish_reason is None:
            raise cut_off(self._service)
        parts = [part for part in whole_value(self._parts) if part != {"text": ""}]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        if not (self._text.text or calls or self._finish_reason in _FINISHED):
            raise unanswered(self._service, f"it stopped with {self._finish_reason}")
        for place, call in enumerate(calls, start=1):
            # Every result must name its call, so a call without an id gets one.
            call.setdefault("id", f"{self._response_id or 'call'}-{place}")
            call.setdefault("args", {})
        return Reply(
            text=self._text.text,
            tool_calls=tuple(ToolCall(id=call["id"], name=call.get("name", ""), args=call["args"]) for call in calls),
            usage=self._usage(),
            native={Wire.GEMINI.value: parts} if _says_more(parts) else None,
        )

    def _usage(self) -> Usage:
        return Usage(
            prompt_tokens=self._spent.prompt_token_count or 0,
            cached_tokens=self._spent.cached_content_token_count or 0,
            output_tokens=(self._spent.candidates_token_count or 0) + (self._spent.thoughts_token_count or 0),
        )


def _is_text(part: Mapping[str, Any]) -> bool:
    return part.keys() <= {"text", "thought"} and "text" in part


def _says_more(parts: list[dict[str, Any]]) -> bool:
    """Whether the parts hold anything other than one text followed by tool calls."""
    kinds = [tuple(part) for part in parts]
    return any(kind != ("functionCall",) for kind in kinds[kinds[:1] == [("text",)] :])
