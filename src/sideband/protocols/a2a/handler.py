"""Answers the requests of A2A with the sessions of a store.

The SDK reads requests and writes answers, in both versions of the protocol and on both bindings. It has a handler of its
own, which runs an executor and saves tasks beside it. This handler takes its place, because a task is a session here: what
the caller is told of a task is what the journal of its session says.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import PushNotificationNotSupportedError, TaskNotCancelableError, UnsupportedOperationError
from a2a.utils.task import apply_history_length, validate_history_length, validate_page_size
from google.protobuf.json_format import MessageToDict, ParseDict

from sideband.core.errors import TaskFinished, TooManyPending, UnknownSession, shown
from sideband.core.parse import parse
from sideband.core.surfaces import Surface
from sideband.core.updates import ReminderUpdate
from sideband.protocols.a2a.auth import Caller
from sideband.protocols.a2a.card import AgentProfile, agent_card
from sideband.protocols.a2a.content import checked_metadata
from sideband.protocols.a2a.push import PushSender
from sideband.protocols.a2a.reminders import RAW_URI, URI, notification, producer_for, take_reminders
from sideband.protocols.a2a.runs import TaskRuns
from sideband.protocols.a2a.sdk import A2aCall, call_of, handling
from sideband.protocols.a2a.stream import Notify, follow, ignore
from sideband.protocols.a2a.tasks import CANCELED, TERMINAL, Snapshot, Tasks
from sideband.runtime.session import Session

# Of the server, and of one peer.
MAX_STREAMS: Final = 4_096
MAX_STREAMS_OF_A_CALLER: Final = 1_024


class TaskHandler(RequestHandler):
    """The methods of A2A on the tasks of a store; `push` is None if push notifications are turned off."""

    def __init__(
        self, tasks: Tasks, runs: TaskRuns, profile: AgentProfile, *, push: PushSender | None, needs_token: bool
    ) -> None:
        self._tasks = tasks
        self._runs = runs
        self._profile = profile
        self._push = push
        self._needs_token = needs_token
        self._streams: Counter[str] = Counter()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End all streams, and answer those who wait for a task with the task as it is."""
        self._stopping.set()

    def card(self, call: A2aCall) -> AgentCard:
        """The card for a caller."""
        return agent_card(self._profile, call.caller, needs_token=self._needs_token, pushes=self._push is not None)

    # Messages.

    @validate_request_params
    @handling
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        call = call_of(context)
        session, snapshot = await self._send(params, call)
        # A message that answers one question of several leaves the task waiting for the next answer.
        if not (params.configuration.return_immediately or snapshot.asked):
            async with aclosing(_until(self._stopping, follow(session, snapshot))) as events:
                async for _event in events:
                    pass
            snapshot = await self._tasks.snapshot(session)
        return apply_history_length(snapshot.task, params.configuration)

    @validate_request_params
    @handling
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        call = call_of(context)
        self._check_streams(call.caller)
        session, snapshot = await self._send(params, call)
        yield apply_history_length(snapshot.task, params.configuration)
        if snapshot.asked:
            return
        async with aclosing(self._events(session, snapshot, call)) as events:
            async for event in events:
                yield event

    @validate_request_params
    @handling
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        call = call_of(context)
        self._check_streams(call.caller)
        session = await self._tasks.find(params.id, call.caller)
        snapshot = await self._tasks.snapshot(session)
        if snapshot.task.status.state in TERMINAL:
            raise UnsupportedOperationError(message="The task has ended, so that there is nothing to subscribe to.")
        progress = await self._tasks.progress(session.id)
        if (progress.running or progress.waits) and not progress.attended:
            self._runs.host(session)
        yield snapshot.task
        async with aclosing(self._events(session, snapshot, call)) as events:
            async for event in events:
                yield event

    def _check_streams(self, caller: Caller) -> None:
        own, most = self._streams[caller.name], MAX_STREAMS_OF_A_CALLER
        if self._streams.total() >= MAX_STREAMS or (own >= most and not caller.is_operator):
            raise TooManyPending(self._streams.total(), MAX_STREAMS, scope="server", remedy="close some event streams")

    async def _events(self, session: Session, snapshot: Snapshot, call: A2aCall) -> AsyncGenerator[Event]:
        name = call.caller.name
        self._streams[name] += 1
        try:
            followed = follow(session, snapshot, _notify(session, call))
            async with aclosing(_until(self._stopping, followed)) as events:
                async for event in events:
                    yield event
        finally:
            self._streams[name] -= 1

    async def _send(self, params: SendMessageRequest, call: A2aCall) -> tuple[Session, Snapshot]:
        """Accept a message and run its task; return the task as it was before the run began.

        Everything is checked before the message is accepted. Reminders that come with it are sent to the task like
        notifications: one for which there is no room is counted, and does not refuse the message.
        """
        configuration = params.configuration
        validate_history_length(configuration)
        reminders = _reminders_in(params)
        wants_push = configuration.HasField("task_push_notification_config")
        if wants_push and self._push is None:
            raise PushNotificationNotSupportedError
        if wants_push and self._push is not None:
            await self._push.configs.check(configuration.task_push_notification_config)
        session = await self._accepted(params.message, call)
        producer = producer_for(session, call.caller, Surface.A2A_METADATA)
        for reminder in reminders:
            await producer.notify(reminder)
        if wants_push and self._push is not None:
            await self._push.configs.keep(session, configuration.task_push_notification_config)
        snapshot = await self._tasks.snapshot(session)
        self._runs.host(session)
        return session, snapshot

    async def _accepted(self, message: Message, call: A2aCall) -> Session:
        """The task of a message that was accepted: a new one, or one that waited for the message."""
        if not message.task_id:
            return await self._tasks.begin(message, call.caller)
        session = await self._tasks.find(message.task_id, call.caller)
        if (await self._tasks.progress(session.id)).closed:
            raise TaskFinished("the task has ended; begin a new one in its context", field="taskId")
        await self._tasks.go_on(session, message, call.caller)
        return session

    # Tasks.

    @validate_request_params
    @handling
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        validate_history_length(params)
        session = await self._tasks.find(params.id, call_of(context).caller)
        return apply_history_length((await self._tasks.snapshot(session)).task, params)

    @validate_request_params
    @handling
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        validate_history_length(params)
        if params.HasField("page_size"):
            validate_page_size(params.page_size)
        return await self._tasks.page(params, call_of(context).caller)

    @validate_request_params
    @handling
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task | None:
        session = await self._tasks.find(params.id, call_of(context).caller)
        if not await session.finish(CANCELED):
            raise TaskNotCancelableError
        return (await self._tasks.snapshot(session)).task

    # Push notifications.

    @validate_request_params
    @handling
    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        push, session = await self._pushing(params.task_id, context)
        config = await push.configs.keep(session, params)
        await push.start(session)
        return config

    @validate_request_params
    @handling
    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        push, session = await self._pushing(params.task_id, context)
        for config in await push.configs.of(session):
            if config.id == (params.id or params.task_id):
                return config
        raise UnknownSession(f"task {shown(params.task_id)} has no push notification {shown(params.id)}", field="id")

    @validate_request_params
    @handling
    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        push, session = await self._pushing(params.task_id, context)
        return ListTaskPushNotificationConfigsResponse(configs=await push.configs.of(session))

    @validate_request_params
    @handling
    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        push, session = await self._pushing(params.task_id, context)
        await push.configs.forget(session, params.id)

    async def _pushing(self, task_id: str, context: ServerCallContext) -> tuple[PushSender, Session]:
        if self._push is None:
            raise PushNotificationNotSupportedError
        return self._push, await self._tasks.find(task_id, call_of(context).caller)

    @handling
    async def on_get_extended_agent_card(
        self,
        params: GetExtendedAgentCardRequest,  # noqa: ARG002 - the interface of the SDK
        context: ServerCallContext,
    ) -> AgentCard:
        return self.card(call_of(context))


async def _until(stopping: asyncio.Event, events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """The events, until the server is stopped."""
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        async with aclosing(events):
            while True:
                coming = asyncio.ensure_future(anext(events, None))
                try:
                    await asyncio.wait((coming, stopped), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    if not coming.done():
                        coming.cancel()
                        await asyncio.wait((coming,))
                event = None if coming.cancelled() else coming.result()
                if event is None:
                    return
                yield event
    finally:
        stopped.cancel()


def _reminders_in(params: SendMessageRequest) -> list[dict[str, object]]:
    """Take the reminders out of the metadata of a request, so that the stored message has no part of them."""
    ours = checked_metadata(MessageToDict(params.metadata), "metadata")
    theirs = checked_metadata(MessageToDict(params.message.metadata), "message.metadata")
    reminders = take_reminders(ours, theirs)
    for reminder in reminders:
        parse(reminder, Surface.A2A_METADATA)
    if reminders:
        params.message.ClearField("metadata")
        if theirs:
            ParseDict(theirs, params.message.metadata)
    return reminders


def _notify(session: Session, call: A2aCall) -> Notify:
    """What tells the caller of reminders, if it has activated the extension."""
    if not call.extensions & {URI, RAW_URI}:
        return ignore
    viewer, is_raw = call.caller.viewer, RAW_URI in call.extensions

    def notify(update: ReminderUpdate) -> dict[str, object] | None:
        told = notification(update, session.id, viewer)
        if told is not None and is_raw:
            call.raw_frames.append(told)
        return told

    return notify
