"""Push notifications: the events of a task, posted to the addresses that its caller has registered. Never reminders.

A caller names an address that this server then connects to, so every address is checked: `https` only, and no address of
this machine or of a private network. A connection goes to the address that was checked, not to what the name resolves to a
moment later.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Any, Final

import httpx
import msgspec
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types import TaskPushNotificationConfig
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict, ParseDict

from sideband.core.errors import InvalidOption, ReminderError, StoreError, TooManyPending, shown
from sideband.logs import LOG
from sideband.loop.guard import describe
from sideband.protocols.a2a.stream import follow
from sideband.protocols.a2a.tasks import TERMINAL, Snapshot, Tasks
from sideband.runtime.session import Session

RECORD_PREFIX: Final = "push:"
MAX_CONFIGS: Final = 16
_LONGEST_ID: Final = 128
_SECONDS: Final = 10.0
_PORTS: Final = {"http": 80, "https": 443}
# Protocol assignments and 6to4 relays, which Python 3.11 takes for public.
_SPECIAL: Final = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24")))


# Addresses.


def is_public(address: str) -> bool:
    """Whether an IP address is a public one."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.sixtofour or found.teredo or found.is_site_local:
            # They lead to an IPv4 address, which may be private, or are an old form of private ones.
            return False
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
    special = found.is_multicast or found.is_reserved or any(found in network for network in _SPECIAL)
    return found.is_global and not special


class PushPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses that notifications may be posted to: by default `https` and public addresses only."""

    schemes: frozenset[str] = frozenset({"https"})
    allows: Callable[[str], bool] = is_public

    async def checked(self, url: httpx.URL) -> str:
        """An IP address of the host, after all of them were checked; `InvalidOption` if one is not allowed."""
        if url.scheme not in self.schemes or not url.host:
            raise InvalidOption(
                f"the URL of a push notification must begin with {' or '.join(sorted(self.schemes))}://, not "
                f"{shown(str(url))}",
                field="url",
            )
        try:
            loop = asyncio.get_running_loop()
            port = url.port or _PORTS[url.scheme]
            found = await loop.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        except OSError:
            raise InvalidOption(f"the host {shown(url.host)} of a push notification is unknown", field="url") from None
        addresses = [str(entry[4][0]) for entry in found]
        if not addresses or not all(map(self.allows, addresses)):
            raise InvalidOption(
                f"push notifications are not sent to {shown(url.host)}, because it is not a public address", field="url"
            )
        return addresses[0]


PUBLIC_ONLY: Final = PushPolicy()


class PinnedTransport(httpx.AsyncBaseTransport):
    """Connects to the address that the policy has checked, with the name of the host for TLS and the request."""

    def __init__(self, policy: PushPolicy) -> None:
        self._policy = policy
        # Without connections that are kept: one of another host at the same address was verified for that host.
        self._inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        address = await self._policy.checked(request.url)
        request.url = request.url.copy_with(host=address)
        request.extensions = {**request.extensions, "sni_hostname": host}
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


# Configurations.


class PushConfigs:
    """The configurations of tasks, as named records of their sessions."""

    def __init__(self, policy: PushPolicy) -> None:
        self._policy = policy

    async def check(self, config: TaskPushNotificationConfig) -> None:
        """Raise `InvalidOption` if notifications may not be posted as this configuration wants."""
        if len(config.id) > _LONGEST_ID or not config.id.isprintable():
            raise InvalidOption(
                f"the id of a push notification must have at most {_LONGEST_ID} printable characters", field="id"
            )
        try:
            async with asyncio.timeout(_SECONDS):
                await self._policy.checked(httpx.URL(config.url))
        except httpx.InvalidURL:
            raise InvalidOption(f"url must be an address, not {shown(config.url)}", field="url") from None
        except TimeoutError:
            raise InvalidOption(f"the host of {shown(config.url)} cannot be looked up", field="url") from None

    async def keep(self, session: Session, given: TaskPushNotificationConfig) -> TaskPushNotificationConfig:
        """Store a configuration for a task; one with the same id is replaced."""
        config = normalize_push_notification_config(session.id, given)
        await self.check(config)
        known = await self.of(session)
        if len(known) >= MAX_CONFIGS and config.id not in {other.id for other in known}:
            raise TooManyPending(len(known), MAX_CONFIGS, scope="task", remedy="delete a push notification of the task")
        await session.record({f"{RECORD_PREFIX}{config.id}": MessageToDict(config)})
        return config

    async def of(self, session: Session) -> list[TaskPushNotificationConfig]:
        """The configurations of a task."""
        records: dict[str, Any] = await session.records()
        return [
            ParseDict(value, TaskPushNotificationConfig(), ignore_unknown_fields=True)
            for name, value in sorted(records.items())
            if name.startswith(RECORD_PREFIX)
        ]

    async def forget(self, session: Session, config_id: str) -> None:
        """Remove a configuration; there need not be one."""
        await session.record({f"{RECORD_PREFIX}{config_id}": None})


# Sending.


class PushSender:
    """Posts the events of the tasks that this process runs, or that got a configuration here."""

    def __init__(self, tasks: Tasks, policy: PushPolicy) -> None:
        self.configs = PushConfigs(policy)
        self._tasks = tasks
        self._client = httpx.AsyncClient(
            transport=PinnedTransport(policy), timeout=_SECONDS, follow_redirects=False, trust_env=False
        )
        self._following: dict[str, asyncio.Task[None]] = {}

    async def start(self, session: Session) -> None:
        """Post the events of this task that follow its present state, if it has configurations."""
        if session.id in self._following or not await self.configs.of(session):
            return
        snapshot = await self._tasks.snapshot(session)
        if session.id not in self._following:
            following = asyncio.create_task(self._follow(session, snapshot), name="sideband-a2a-push")
            self._following[session.id] = following
            following.add_done_callback(lambda _done: self._following.pop(session.id, None))

    async def _follow(self, session: Session, snapshot: Snapshot) -> None:
        try:
            async for event in follow(session, snapshot, until=TERMINAL):
                body = MessageToDict(to_stream_response(event))
                for config in await self.configs.of(session):
                    await self._post(config, body)
        except (ReminderError, StoreError) as error:
            LOG.warning("push notifications of task %s: %s", session.id, describe(error))

    async def _post(self, config: TaskPushNotificationConfig, body: dict[str, Any]) -> None:
        """Post an event once; the body of the answer is not read."""
        headers = {"X-A2A-Notification-Token": config.token} if config.token else {}
        if config.authentication.scheme and config.authentication.credentials:
            headers["Authorization"] = f"{config.authentication.scheme} {config.authentication.credentials}"
        try:
            async with (
                asyncio.timeout(_SECONDS),
                self._client.stream("POST", config.url, json=body, headers=headers) as answer,
            ):
                answer.raise_for_status()
        except (httpx.HTTPError, TimeoutError, InvalidOption, OSError) as error:
            # Without the address, which may contain a secret.
            LOG.warning(
                "a push notification of task %s was not delivered to %s: %s",
                config.task_id,
                httpx.URL(config.url).host,
                type(error).__name__,
            )

    async def close(self) -> None:
        for following in (*self._following.values(),):
            following.cancel()
            await asyncio.wait((following,))
        await self._client.aclose()
