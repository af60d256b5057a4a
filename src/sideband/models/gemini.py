"""Models on the Gemini wire, through the official client.

The client has no public call that takes a finished body. It does take an HTTP client, and builds each request with it:
ours puts the rendered bytes in. What the client makes of its own arguments, one word, is made in a constant time and
never sent; address, key, streaming and errors stay its own.
"""

from collections.abc import AsyncGenerator, Mapping
from contextvars import ContextVar
from typing import Any, Final

import httpx2
from google import genai
from google.genai import errors, types
from google.genai.client import AsyncClient
from pydantic import ValidationError

from sideband.core.usage import Usage
from sideband.models.errors import COMMON_FAILURES, cut_off, read_failure, refused, status_named, unanswered
from sideband.models.rendered import Address, RenderedModel
from sideband.models.speech import Speech, whole_value
from sideband.ports import ModelError, Reply, ToolCall
from sideband.render.profile import Wire
from sideband.render.renderer import Rendered

_PLACEHOLDER: Final = "."
_FINISHED: Final = frozenset({"STOP", "FINISH_REASON_UNSPECIFIED"})
# The loop calls the tools, and asks again: one request here is one request there.
_CONFIG: Final = types.GenerateContentConfig(
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True), automatic_continuation=False
)
# The body of the request that this task is sending.
_BODY: Final[ContextVar[bytes]] = ContextVar("_BODY")


class GeminiModel(RenderedModel[AsyncClient]):
    """Gemini, or whatever speaks its wire at `base_url`."""

    SERVICE = "Google"
    KEY_VARIABLES = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
    # The last ones are what it stumbles over in a reply, or in an error, that is not of its shape.
    FAILURES = (
        errors.APIError,
        errors.UnknownApiResponseError,
        *COMMON_FAILURES,
        ValidationError,
        AttributeError,
        TypeError,
    )

    @staticmethod
    async def _opened(address: Address) -> AsyncGenerator[AsyncClient, None]:
        milliseconds = None if address.seconds is None else round(address.seconds * 1_000)
        async with _Finished(follow_redirects=True) as http:
            options = types.HttpOptions(base_url=address.base_url, timeout=milliseconds, httpx_async_client=http)
            with genai.Client(enterprise=False, api_key=address.api_key, http_options=options) as client:
                async with client.aio as aio:
                    yield aio

    async def _ask(self, client: AsyncClient, rendered: Rendered, speech: Speech) -> Reply:
        content = _Content(self._service, speech)
        token = _BODY.set(rendered.body)
        try:
            async for chunk in await client.models.generate_content_stream(
                model=self.model, contents=_PLACEHOLDER, config=_CONFIG
            ):
                await content.take(chunk)
        finally:
            _BODY.reset(token)
        await speech.end()
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


class _Finished(httpx2.AsyncClient):
    """Sends the bytes that are finished, whatever else is handed to it."""

    def build_request(self, *args: Any, **options: Any) -> httpx2.Request:  # noqa: ANN401 - those of its parent
        return super().build_request(*args, **(options | {"content": _BODY.get()}))


class _Content:
    """A reply while it arrives."""

    def __init__(self, service: str, speech: Speech) -> None:
        self._service = service
        self._speech = speech
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
                    await self._speech.say(part.text)
                self._add(part.model_dump(mode="json", by_alias=True, exclude_none=True))

    def _add(self, part: dict[str, Any]) -> None:
        # Text comes in pieces that are one part in truth. A signed part stays as it is: the signature is about it.
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
        if not (self._speech.text or calls or self._finish_reason in _FINISHED):
            raise unanswered(self._service, f"it stopped with {self._finish_reason}")
        for place, call in enumerate(calls, start=1):
            # A result has to name its call, also where the service gave it no name.
            call.setdefault("id", f"{self._response_id or 'call'}-{place}")
            call.setdefault("args", {})
        return Reply(
            text=self._speech.text,
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
    """Whether the parts hold anything beside one text and the calls behind it."""
    kinds = [tuple(part) for part in parts]
    return any(kind != ("functionCall",) for kind in kinds[kinds[:1] == [("text",)] :])
