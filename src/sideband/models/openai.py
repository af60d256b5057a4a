"""Models on the OpenAI wires, Responses and Chat Completions, through the official client."""

from abc import abstractmethod
from collections.abc import AsyncGenerator
from typing import ClassVar, Final

import msgspec
import openai
from openai import AsyncOpenAI, AsyncStream, not_given

from sideband.models.completions import Chunk, Completion
from sideband.models.errors import COMMON_FAILURES, lost, read_failure, refused, status_named
from sideband.models.rendered import Address, RenderedModel
from sideband.models.responses import Answer, Event
from sideband.models.speech import Speech
from sideband.ports import ModelError, Reply
from sideband.render.renderer import Rendered

# The client insists on a key; a server that wants none does not look at it.
NO_KEY: Final = "none"


def client_at(address: Address) -> AsyncOpenAI:
    """A client that sends everything once: to try again is for the loop to decide."""
    timeout = not_given if address.seconds is None else address.seconds
    return AsyncOpenAI(api_key=address.api_key, base_url=address.base_url, timeout=timeout, max_retries=0)


class _OpenAIModel(RenderedModel[AsyncOpenAI]):
    """What both wires have in common."""

    SERVICE = "OpenAI"
    KEY_VARIABLES = ("OPENAI_API_KEY",)
    FAILURES = (openai.APIError, *COMMON_FAILURES)
    PATH: ClassVar[str]

    @staticmethod
    async def _opened(address: Address) -> AsyncGenerator[AsyncOpenAI, None]:
        async with client_at(address) as client:
            yield client

    async def _ask(self, client: AsyncOpenAI, rendered: Rendered, speech: Speech) -> Reply:
        async with await client.post(
            self.PATH, content=rendered.body, cast_to=object, stream=True, stream_cls=AsyncStream[object]
        ) as stream:
            return await self._hear(stream, speech)

    @abstractmethod
    async def _hear(self, stream: AsyncStream[object], speech: Speech) -> Reply: ...

    def _read(self, error: Exception) -> ModelError:
        match error:
            case openai.APIConnectionError():
                return lost(self._service, error.__cause__ or error)
            case openai.APIStatusError():
                return refused(self._service, error.status_code, error.message, error.response.headers)
            case openai.APIError():
                return refused(self._service, status_named(error.code, error.type), error.message)
            case _:
                return read_failure(self._service, error)


class ResponsesModel(_OpenAIModel):
    """A model on the Responses wire; the conversation is sent whole, and nothing of it is kept at the other end."""

    PATH = "/responses"

    async def _hear(self, stream: AsyncStream[object], speech: Speech) -> Reply:
        answer = Answer(self._service, speech)
        async for event in stream:
            await answer.take(msgspec.convert(event, Event))
        await speech.end()
        return answer.reply()


class ChatModel(_OpenAIModel):
    """A model on the Chat Completions wire, at OpenAI or wherever `base_url` points."""

    PATH = "/chat/completions"

    async def _hear(self, stream: AsyncStream[object], speech: Speech) -> Reply:
        completion = Completion(self._service, speech)
        async for chunk in stream:
            await completion.take(msgspec.convert(chunk, Chunk))
        await speech.end()
        return completion.reply()
