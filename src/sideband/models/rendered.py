"""A model whose requests are finished bytes before anything is sent."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple

import msgspec

from sideband.core.ledger import RequestHead
from sideband.models.connection import ClientT, Connection
from sideband.models.keys import need_key
from sideband.models.speech import Speech
from sideband.ports import Advice, ModelError, OnText, Plan, Reply
from sideband.render.profile import Placement, Profile
from sideband.render.renderer import Rendered, Renderer
from sideband.render.view import RequestView


class Address(NamedTuple):
    """How a service is reached; None is what its client does by itself."""

    api_key: str | None = None
    base_url: str | None = None
    seconds: float | None = None


class RenderedModel(ABC, Generic[ClientT]):
    """Plans by rendering. How a request travels, and how its reply is read, is what the models differ in.

    Connections, keys, streams and errors are the official client's. Where it lets us, its events are taken as the JSON
    they came in: much of a reply is sent back in the next request and has to be what it was, and the clients' own types
    are filled in without being checked.

    `api_key` None: the one in the environment. `base_url` None: that of the service. `service` is what messages call the
    other side. `seconds` is how long it may be silent (None: as long as its client finds right). `parameters` are
    further fields of the request's body, as its wire names them; `max_output_tokens` None leaves the length of a reply
    to the wire's own default.
    """

    SERVICE: ClassVar[str]
    KEY_VARIABLES: ClassVar[tuple[str, ...]]
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
        placement: Placement | None = None,
        max_output_tokens: int | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.profile = profile
        self._service = service or self.SERVICE
        need_key(self._service, api_key, *self.KEY_VARIABLES)
        self._renderer = Renderer(
            profile, model=model, placement=placement, max_output_tokens=max_output_tokens, parameters=parameters
        )
        self._rendering = {
            "profile": profile,
            "placement": self._renderer.placement,
            "max_output_tokens": max_output_tokens,
            "parameters": parameters or {},
        }
        self._connection = Connection(self._opened, Address(api_key, base_url, seconds))

    @property
    def context_window(self) -> int | None:
        return self.profile.context_window

    def plan(self, view: RequestView) -> Plan:
        """The request, rendered to its last byte."""
        rendered = self._renderer.render(view)
        return Plan(
            shown=rendered.shown,
            left_out=rendered.left_out,
            unusable=rendered.unusable,
            route=rendered.route,
            fragments=rendered.fragments,
            head=None if rendered.route == view.known_route else self._head(view, rendered.route),
            advice=tuple(Advice(*entry) for entry in rendered.advice),
            request=rendered,
        )

    def _head(self, view: RequestView, route: str) -> RequestHead:
        head = {
            "route": route,
            "model": f"{self.profile.transport}:{self.model}",
            "rendering": self._rendering,
            "system": view.system,
            "system_after": view.system_after,
            "tools": view.tools,
        }
        # As a journal has it, so that it is the same before and after it was read back.
        return msgspec.json.decode(msgspec.json.encode(head), type=RequestHead)

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        """Send the bytes of the plan as they are, and read the reply while it arrives."""
        try:
            client = await self._connection.client()
            return await self._ask(client, plan.request, Speech(on_text))
        except self.FAILURES as error:
            failure = self._read(error)
        # Not raised from the other, which has to be forgotten: what the client was reading hangs on its frames, and is
        # closed by the event loop only when nobody refers to it any more.
        raise failure

    async def aclose(self) -> None:
        """Close the connections of the running event loop now; the next request would open new ones."""
        await self._connection.aclose()

    @staticmethod
    @abstractmethod
    def _opened(address: Address) -> AsyncGenerator[ClientT, None]:
        """The client, for as long as it is not closed."""

    @abstractmethod
    async def _ask(self, client: ClientT, rendered: Rendered, speech: Speech) -> Reply:
        """Send the request, and read the reply."""

    @abstractmethod
    def _read(self, error: Exception) -> ModelError:
        """What one of the failures means."""
