"""The base class of models that send the bytes which the renderer produced."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from typing import Any, ClassVar, Generic

import msgspec

from sideband.core.ledger import RequestHead
from sideband.core.messages import Reply
from sideband.models.client import ClientPool, ClientT, Endpoint, environment, need_key, read_base_url
from sideband.models.stream import TextStream
from sideband.ports import ModelError, OnText
from sideband.render.plan import Plan
from sideband.render.profiles import Profile, read_placement
from sideband.render.renderer import Rendered, Renderer
from sideband.render.view import RequestView


class RenderedModel(ABC, Generic[ClientT]):
    """Renders a request to its final bytes, sends them through an official SDK client, and reads the streamed reply.

    Subclasses open the client, send the request and translate the client's exceptions. Where the SDK allows it, stream
    events are read as raw JSON: much of a reply is sent back unchanged in the next request, and the SDK's own types are
    filled in without validation.

    `api_key=None` uses the key in the environment; `base_url=None` uses the address in the environment, or else the
    service's default address. The environment is read anew for each request. `placement` is `seed`, `tail` or `native`
    (None: the default of the profile). `service` is the name of the service in error messages. `seconds` is the client's
    read time-out (None: the client's default). `parameters` are additional fields of the request body, under the names of
    the wire. `max_output_tokens=None` leaves the length of a reply to the default of the wire.
    """

    SERVICE: ClassVar[str]
    KEY_VARIABLES: ClassVar[tuple[str, ...]]
    ENVIRONMENT: ClassVar[tuple[str, ...]]
    """The prefixes of the environment variables that the SDK client reads."""
    FAILURES: ClassVar[tuple[type[Exception], ...]]

    def __init__(
        self,
        profile: Profile,
        *,
        model: str,
        api_key: str | None = None,
        base_url: str | None = None,
        service: str | None = None,
        seconds: float | None = None,
        placement: str | None = None,
        max_output_tokens: int | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.profile = profile
        self._service = service or self.SERVICE
        self._api_key = api_key
        self._base_url = read_base_url(base_url)
        self._seconds = seconds
        self._renderer = Renderer(
            profile,
            model=model,
            placement=read_placement(placement),
            max_output_tokens=max_output_tokens,
            parameters=parameters,
        )
        self._rendering = {
            "profile": profile,
            "placement": self._renderer.placement,
            "max_output_tokens": max_output_tokens,
            "parameters": parameters or {},
        }
        self._clients = ClientPool(self._opened)
        # Report a missing key now rather than with the first request.
        self._endpoint()

    def _endpoint(self) -> Endpoint:
        """How to reach the service now: a changed environment variable holds from the next request on."""
        need_key(self._service, self._api_key, *self.KEY_VARIABLES)
        return Endpoint(self._api_key, self._base_url, self._seconds, environment(*self.ENVIRONMENT))

    @property
    def context_window(self) -> int | None:
        return self.profile.context_window

    def plan(self, view: RequestView) -> Plan:
        """Render the request completely, so that `complete` only has to send it."""
        plan = self._renderer.render(view)
        if plan.route == view.known_route:
            return plan
        return msgspec.structs.replace(plan, head=self._head(view, plan.route))

    def _head(self, view: RequestView, route: str) -> RequestHead:
        head = {
            "route": route,
            "model": f"{self.profile.transport}:{self.model}",
            "rendering": self._rendering,
            "system": view.system,
            "system_after": view.system_after,
            "tools": view.tools,
        }
        # Encode and decode once, so that the head compares equal to one that was read back from a journal.
        return msgspec.json.decode(msgspec.json.encode(head), type=RequestHead)

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        """Send the planned bytes unchanged and read the reply while it arrives."""
        try:
            client = await self._clients.client(self._endpoint())
            return await self._ask(client, plan.request, TextStream(on_text))
        except self.FAILURES as error:
            failure = self._read(error)
        # Raised outside the `except` block, without a cause: the original exception's frames keep the response stream
        # alive, and the event loop closes the stream only after the last reference to it is gone.
        raise failure

    async def aclose(self) -> None:
        """Close the clients of the running event loop; the next request opens a new one."""
        await self._clients.aclose()

    @staticmethod
    @abstractmethod
    def _opened(endpoint: Endpoint) -> AsyncGenerator[ClientT, None]:
        """Yield an open client once, and close it when the generator is closed."""

    @abstractmethod
    async def _ask(self, client: ClientT, rendered: Rendered, text: TextStream) -> Reply:
        """Send the request and read the reply."""

    @abstractmethod
    def _read(self, error: Exception) -> ModelError:
        """Translate one of `FAILURES` into a `ModelError`."""
