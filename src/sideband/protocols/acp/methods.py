"""The reminder and inject methods of ACP: each reads its parameters, asks the session's producer, and returns a result.

The agent and the proxy serve the same table. All spellings of a method have one handler. Nothing in `_meta` overrides a
parameter.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from sideband.core.errors import (
    InvalidOption,
    NoRunningTurn,
    ReminderError,
    UnknownOption,
    UnknownSession,
    shown,
)
from sideband.core.events import QueuedMessage
from sideband.core.seams import InjectMode
from sideband.core.state import Waiting
from sideband.core.surfaces import LIFECYCLE, RULES, Surface, spelled
from sideband.logs import LOG
from sideband.protocols.acp.messages import SteeringOutcome
from sideband.protocols.jsonrpc import Call, RpcError
from sideband.protocols.refusals import error_data, refusal
from sideband.protocols.wire import outward
from sideband.runtime.producer import Accepted, Producer

PREFIX: Final = "_sideband/"

# The messages that the proposals give these codes; `data.detail` says what was wrong.
_MESSAGES: Final[Mapping[int, str]] = MappingProxyType(
    {-32002: "Resource not found", -32010: "Inject precondition failed"}
)
_HARN_FIELDS: Final = frozenset((*LIFECYCLE, "mode"))


class ProducerOf(Protocol):
    """Finds the producer of a connection for a session."""

    async def __call__(
        self, session_id: str | None, *, surface: Surface, writes: bool = True, starts: bool = False
    ) -> Producer:
        """The producer for this session; `session_id=None` is the only session of the connection.

        `ReminderError` if there is no such session, or if the connection may only read it and `writes` is true. With
        `starts`, the request may start a turn.
        """


def rpc_error(error: ReminderError, *, id_name: str = "id", content_name: str = "content") -> RpcError:
    """The error of a refused request as ACP reports it.

    `content_name` is the parameter with the content of a message in the method that is answered.
    """
    code, text = refusal(error).acp, str(error)
    data = error_data(error, id_name=id_name)
    if isinstance(error, UnknownSession):
        # Protocol version 2 defines this member.
        data["sessionId"] = error.value
    if content_name != "content" and (data.get("field") or "").partition("[")[0] == "content":
        data["field"] = content_name + data["field"].removeprefix("content")
        text = text.replace("content", content_name, 1)
    if code in _MESSAGES:
        data["detail"] = text
    return RpcError(code, _MESSAGES.get(code, text), data)


def text_param(params: Mapping[str, Any], name: str) -> str:
    """A parameter that must be a text; `InvalidOption` otherwise."""
    value = params.get(name)
    if not isinstance(value, str):
        wanted = f"{name} is required and missing" if value is None else f"{name} must be a text, not {shown(value)}"
        raise InvalidOption(wanted, field=name, value=value)
    return value


def meta_param(params: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The `_meta` object of a request; None if it has none."""
    meta = params.get("_meta")
    if meta is not None and not isinstance(meta, dict):
        raise InvalidOption(f"_meta must be an object, not {shown(meta)}", field="_meta", value=meta)
    return meta


def member(value: object, *names: str) -> object:
    """The value below these names in nested objects; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


async def answer(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    """The result of a call whose method is one of `METHODS`."""
    method = METHODS[call.method]
    try:
        return await method.handler(producer_of, call)
    except ReminderError as error:
        raise rpc_error(error, id_name=method.id_name, content_name=method.content_name) from None


async def _producer(producer_of: ProducerOf, call: Call, *, starts: bool = False) -> Producer:
    return await producer_of(text_param(call.params, "sessionId"), surface=Surface.ACP, starts=starts)


# Reminders.


async def _inject_reminder(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    producer = await _producer(producer_of, call)
    payload = {name: value for name, value in call.params.items() if name != "sessionId"}
    return await _tell(producer, payload, call, Surface.ACP)


async def _remind(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    session_id, payload = _read_legacy(call.params)
    producer = await producer_of(session_id, surface=Surface.ACP_LEGACY)
    result = await _tell(producer, payload, call, Surface.ACP_LEGACY)
    result.setdefault("_meta", {}).setdefault("sideband", {})["deprecated"] = True
    return result


async def _revoke_reminder(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    producer = await _producer(producer_of, call)
    return {"status": await producer.revoke_reminder(text_param(call.params, "reminderId"))}


async def _replace_reminder(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    producer = await _producer(producer_of, call)
    reminder_id = text_param(call.params, "reminderId")
    await producer.replace_reminder(reminder_id, text_param(call.params, "body"))
    return {"reminderId": reminder_id, "status": "replaced"}


async def _clear_reminders(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    producer = await _producer(producer_of, call)
    selectors = {
        option: text_param(call.params, name)
        for option, name in (("id", "id"), ("tag", "tag"), ("dedupe_key", "dedupeKey"))
        if call.params.get(name) is not None
    }
    if not selectors:
        raise InvalidOption("give an id, a tag or a dedupeKey, to say which reminders to end", field="id")
    return {"removedCount": await producer.clear(**selectors)}


async def _pending_injections(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    producer = await producer_of(text_param(call.params, "sessionId"), surface=Surface.ACP, writes=False)
    rows = [_row(waiting) for waiting in await producer.waiting()]
    return {"pendingCount": len(rows), "injections": rows}


# User messages.


async def _inject(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    mode = text_param(call.params, "mode")
    producer = await _producer(producer_of, call, starts=mode == InjectMode.QUEUE)
    content: Any = call.params.get("content")
    return {"messageId": await producer.inject(content, mode=mode, meta=meta_param(call.params))}


async def _revoke_inject(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    producer = await _producer(producer_of, call)
    return {"status": await producer.revoke_message(text_param(call.params, "messageId"))}


async def _replace_inject(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    producer = await _producer(producer_of, call)
    message_id = text_param(call.params, "messageId")
    content: Any = call.params.get("content")
    await producer.replace_message(message_id, content)
    return {"messageId": message_id, "status": "replaced"}


async def _steering(producer_of: ProducerOf, call: Call) -> dict[str, Any]:
    behaviour = member(call.params.get("_meta"), "steering", "idleBehavior")
    if behaviour not in (None, "promptRequired"):
        raise InvalidOption(
            f"_meta.steering.idleBehavior must be 'promptRequired' or absent, not {shown(behaviour)}",
            field="_meta.steering.idleBehavior",
            value=behaviour,
        )
    producer = await _producer(producer_of, call, starts=behaviour is None)
    content: Any = call.params.get("prompt")
    meta = meta_param(call.params)
    try:
        await producer.inject(content, mode=InjectMode.STEER, meta=meta)
    except NoRunningTurn:
        if behaviour is not None:
            return {"outcome": SteeringOutcome.PROMPT_REQUIRED, "reason": "noRunningTurn"}
        await producer.inject(content, mode=InjectMode.QUEUE, meta=meta)
        return {"outcome": SteeringOutcome.STARTED_NEW_TURN}
    return {"outcome": SteeringOutcome.INJECTED}


class _Method(NamedTuple):
    """A handler, and the parameters that its errors are about: the one with the id, and the one with the content."""

    handler: Callable[[ProducerOf, Call], Awaitable[dict[str, Any]]]
    id_name: str = "id"
    content_name: str = "content"


_PROPOSED: Final[Mapping[str, _Method]] = {
    "session/inject_reminder": _Method(_inject_reminder, "_meta.sideband.idempotencyKey"),
    "session/remind": _Method(_remind, "_meta.sideband.idempotencyKey"),
    "session/revoke_reminder": _Method(_revoke_reminder, "reminderId"),
    "session/pending_injections": _Method(_pending_injections),
    "session/inject": _Method(_inject, "messageId"),
    "session/revoke_inject": _Method(_revoke_inject, "messageId"),
    "session/replace_inject": _Method(_replace_inject, "messageId"),
}
_OURS: Final[Mapping[str, _Method]] = {
    "session/clear_reminders": _Method(_clear_reminders),
    "session/replace_reminder": _Method(_replace_reminder, "reminderId"),
}
METHODS: Final[Mapping[str, _Method]] = MappingProxyType(
    {
        **_PROPOSED,
        **{f"{PREFIX}{name}": method for name, method in {**_PROPOSED, **_OURS}.items()},
        "_session/steering": _Method(_steering, content_name="prompt"),
    }
)
"""Every spelling of every method. ACP reserves names without a leading underscore, so each proposed one has a twin."""

WITHOUT_SESSION: Final = frozenset({"session/remind", f"{PREFIX}session/remind"})
"""The methods that need no `sessionId` if the connection has only one session."""


async def _tell(producer: Producer, payload: dict[str, Any], call: Call, surface: Surface) -> dict[str, Any]:
    if call.request_id is None:
        # The sender of a notification reads no refusal, so it is counted and recorded.
        if await producer.notify(payload) is None:
            LOG.warning("a reminder in the notification %s was refused", shown(call.method))
        return {}
    return _accepted(await producer.remind(payload), surface)


def _accepted(accepted: Accepted, surface: Surface) -> dict[str, Any]:
    result: dict[str, Any] = {"reminderId": accepted.reminder_id, "dedupedCount": accepted.deduped_count}
    if accepted.requested:
        case = RULES[surface].case
        result["_meta"] = {
            "sideband": {
                "requested": {spelled(name, case): value for name, value in accepted.requested.items()},
                "effective": {spelled(name, case): value for name, value in accepted.effective.items()},
            }
        }
    return result


def _read_legacy(params: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """The session and the reminder of `session/remind`: flat, in `reminder`, or in part in `_meta.harn.reminder`."""
    payload = dict(params)
    session_id = payload.pop("sessionId", None)
    if session_id is not None and not isinstance(session_id, str):
        raise InvalidOption(f"sessionId must be a text, not {shown(session_id)}", field="sessionId", value=session_id)
    if "reminder" in payload:
        nested, meta = payload.pop("reminder"), payload.pop("_meta", None)
        if payload:
            name = next(iter(payload))
            raise UnknownOption(
                f"session/remind has no option {shown(name)} beside `reminder`; put it inside", field=name, value=name
            )
        if not isinstance(nested, dict):
            raise InvalidOption(f"reminder must be an object, not {shown(nested)}", field="reminder", value=nested)
        payload = {**nested} if meta is None else {"_meta": meta, **nested}
    harn = member(payload.get("_meta"), "harn", "reminder")
    if isinstance(harn, dict):
        missing = {name: value for name, value in harn.items() if name in _HARN_FIELDS and payload.get(name) is None}
        payload |= missing
    return session_id, payload


def _row(waiting: Waiting) -> dict[str, Any]:
    item = waiting.item
    row: dict[str, Any] = {"kind": waiting.kind, "position": waiting.position, "mode": waiting.mode}
    if isinstance(item, QueuedMessage):
        return row | {"messageId": item.id, "content": item.content}
    reminder = item.reminder
    row |= {"reminderId": reminder.id, "body": reminder.body, "tags": reminder.tags}
    if reminder.dedupe_key is not None:
        row["dedupeKey"] = reminder.dedupe_key
    if reminder.ttl_turns is not None:
        row["ttlTurns"] = reminder.ttl_turns
    return row | {"roleHint": reminder.role_hint, "source": outward(reminder.source, item.provenance.via)}
