"""The client side of A2A: give tasks to another agent, follow them, and tell the agent something while it works.

```python
async with connect("http://127.0.0.1:8642") as peer:
    task = await peer.start("Rebase the branch.")
    await peer.remind(task.id, "The pull request you depend on was merged.", dedupe_key="upstream", ttl_turns=2)
    print((await peer.wait(task.id)).text)
```
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

import httpx
from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH

from sideband.core.errors import InvalidOption, shown
from sideband.ports import Clock
from sideband.protocols.a2a.card import SEED_PATH
from sideband.protocols.a2a.client.calls import decoded, translating
from sideband.protocols.a2a.client.capabilities import choose_interface, read_card
from sideband.protocols.a2a.client.failures import PeerNotUnderstood, PeerSilent
from sideband.protocols.a2a.client.http import http_client, is_local, origin_of, read_address
from sideband.protocols.a2a.client.peer import PeerAgent, PeerPatience
from sideband.protocols.a2a.client.refusals import PeerRefusal
from sideband.protocols.a2a.client.reminders import TaskFallback
from sideband.runtime.system import SystemClock

# How long a peer may take to answer. A message that a caller waits for has no limit.
ANSWER_SECONDS: Final = 60.0
# How long to wait before a task is looked at again, if the peer has no event stream or the stream broke.
POLL_SECONDS: Final = 1.0

_ABSENT: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.GONE})


@asynccontextmanager
async def connect(
    url: str,
    *,
    token: str | None = None,
    fallback: TaskFallback | str = TaskFallback.SUPPRESS,
    allowed_origins: Collection[str] = (),
    answer_seconds: float = ANSWER_SECONDS,
    poll_seconds: float = POLL_SECONDS,
    clock: Clock | None = None,
) -> "AsyncIterator[PeerAgent]":
    """Connect to the agent at an address: read its card, and learn what it does with reminders.

    `PeerFailed` if the agent cannot be used.

    Args:
        url: The address below which the card is, such as `https://agents.example.org`.
        token: Sent as a bearer token with each request.
        fallback: What happens to a reminder if the agent does not support reminders.
        allowed_origins: Origins besides that of `url` at which the card may say that the agent is. The token is sent
            there.
        answer_seconds: How long the agent may take to answer a request, other than a message that is waited for.
        poll_seconds: How long to wait before a task is looked at again, if the agent has no event streams.
        clock: The clock by which that is measured; the default is that of the machine.
    """
    address = read_address(url)
    chosen = _read_fallback(fallback)
    _check_seconds("answer_seconds", answer_seconds)
    _check_seconds("poll_seconds", poll_seconds)
    origins = frozenset(filter(None, (origin_of(address), *_read_origins(allowed_origins))))
    _check_token(token)
    async with http_client(origins, token=token, local=is_local(address)) as http:
        card = await _fetched_card(http, address, answer_seconds)
        parsed = read_card(card, address)
        interface = choose_interface(parsed, origins, address)
        patience = PeerPatience(answer_seconds, poll_seconds, clock or SystemClock())
        peer = PeerAgent(http, address, card, parsed, interface, fallback=chosen, patience=patience)
        if token is not None and parsed.capabilities.extended_agent_card:
            await peer.read_extended_card()
        yield peer


def _check_seconds(name: str, seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InvalidOption(f"{name} must be a number of more than 0, not {shown(seconds)}", field=name, value=seconds)


def _check_token(token: object) -> None:
    is_text = isinstance(token, str) and token.isascii() and token.isprintable() and bool(token.strip())
    if token is not None and not is_text:
        # The value is not repeated, because it may be a secret.
        raise InvalidOption("token must be a text of printable ASCII characters, or None", field="token")


def _read_fallback(fallback: str) -> TaskFallback:
    if fallback not in tuple(TaskFallback):
        words = ", ".join(repr(word.value) for word in TaskFallback)
        raise InvalidOption(f"fallback must be one of {words}, not {shown(fallback)}", field="fallback", value=fallback)
    return TaskFallback(fallback)


def _read_origins(allowed: object) -> Iterator[str]:
    if isinstance(allowed, str) or not isinstance(allowed, Collection):
        raise InvalidOption(
            f"allowed_origins must be a list of origins, not {shown(allowed)}", field="allowed_origins", value=allowed
        )
    for given in allowed:
        origin = origin_of(given)
        if origin is None:
            raise InvalidOption(
                f"allowed_origins must have origins like https://agents.example.org, not {shown(given)}",
                field="allowed_origins",
                value=given,
            )
        yield origin


async def _fetched_card(http: httpx.AsyncClient, url: str, seconds: float) -> dict[str, Any]:
    """The card at its usual place, or the literal one of the proposal."""
    for path in (AGENT_CARD_WELL_KNOWN_PATH, SEED_PATH):
        try:
            body = await _fetched(http, f"{url}{path}", seconds)
        except TimeoutError:
            raise PeerSilent(f"the agent at {url} did not send its card within {seconds:g} s; try again") from None
        if body is None:
            continue
        document = decoded(body)
        if not isinstance(document, dict):
            raise PeerNotUnderstood(f"{url}{path} is not an agent card of A2A; check the address")
        return document
    raise PeerNotUnderstood(
        f"there is no agent card at {url}{AGENT_CARD_WELL_KNOWN_PATH}; check that the address is that of an A2A agent"
    )


async def _fetched(http: httpx.AsyncClient, place: str, seconds: float) -> bytes | None:
    with translating("the request for its card", None):
        async with asyncio.timeout(seconds):
            try:
                return (await http.get(place, headers={"Accept": "application/json"})).content
            except PeerRefusal as told:
                if told.status in _ABSENT:
                    return None
                raise
