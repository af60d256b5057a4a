"""Whatever comes in, the answer is an error that can be read, and nothing has changed."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import msgspec
import pytest
from _pytest.mark import ParameterSet

from sideband.core.accept import (
    Selector,
    accept_message,
    check_body_size,
    revoke_message,
    revoke_reminder,
)
from sideband.core.diagnostics import DIAGNOSTICS
from sideband.core.effects import read_effects
from sideband.core.errors import (
    BodyTooLarge,
    InvalidReminder,
    ReminderError,
    UnknownOption,
    UnknownPropagate,
    UnsupportedMode,
)
from sideband.core.hookevents import read_hook_event, read_provider_event, refuse_too_many_providers
from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.messages import read_content
from sideband.core.parse import parse, parse_json
from sideband.core.reminder import Draft, ReminderId, Source, in_name_of, mint
from sideband.core.seams import InjectMode, Mode
from sideband.core.surfaces import RULES, Surface, spelled
from sideband.core.transcript import Transcript, transcript_compact, transcript_reminder_event
from sideband.core.trust import IN_PROCESS, Provenance, Trust
from tests.builders import a_draft, a_reminder, counting_ids
from tests.sessions import CLIENT, Session
from tests.unit.core.hostile import (
    CONTENTS,
    DEEP,
    HUGE,
    NO_INTEGER,
    NO_KEY,
    NO_OBJECT,
    NO_TEXT,
    TEXTS,
    WRONG,
    Opaque,
    wrong_texts,
)
from tests.unit.core.state_checks import equal_states, from_json

PEER = Provenance(trust=Trust.PEER, principal="ann", via="a2a")
SERVER = Provenance(trust=Trust.SERVER, principal="srv", via="mcp")
SENDER = {
    Surface.SESSION: IN_PROCESS,
    Surface.ACP: CLIENT,
    Surface.ACP_LEGACY: CLIENT,
    Surface.HTTP: CLIENT,
    Surface.A2A: PEER,
    Surface.A2A_METADATA: PEER,
    Surface.MCP: SERVER,
}
BRIDGES = SENDER.keys() - {Surface.SESSION}
NO_INTEGER_AT_ALL = {name: value for name, value in NO_INTEGER.items() if type(value) is not int}


def lower(surface: Surface) -> str:
    return surface.name.lower()


every_surface = pytest.mark.parametrize("surface", list(Surface), ids=lower)


def a_busy_session() -> Session:
    session = Session()
    session.inject(a_reminder("live", dedupe_key="k", tags=("t",), ttl_turns=2))
    session.accept(a_draft(dedupe_key="k"))
    session.accept(a_draft(mode=Mode.AUDIT_ONLY), SERVER)
    session.turn()
    session.send_request()
    return session


def submit(session: Session, surface: Surface, payload: object) -> None:
    deliver(session, surface, parse(payload, surface))


def submit_text(session: Session, surface: Surface, text: bytes) -> None:
    deliver(session, surface, parse_json(text, surface))


def deliver(session: Session, surface: Surface, draft: Draft) -> None:
    """What was read is accepted in the name of who sends on this surface, or injected."""
    if surface in SENDER:
        session.accept(in_name_of(draft, "srv") if surface is Surface.MCP else draft, SENDER[surface])
    else:
        check_body_size(draft.body, Trust.OPERATOR, DEFAULT_LIMITS)
        session.inject(mint(draft, reminder_id=ReminderId("new"), source=Source.IN_PIPELINE))


def a_payload(surface: Surface, **fields: object) -> dict[Any, object]:
    required = {"body": "x", "id": "i1"} if RULES[surface].wants_id else {"body": "x"}
    return {spelled(name, RULES[surface].case): value for name, value in {**required, **fields}.items()}


def refusal(attempt: Callable[[Session], object]) -> ReminderError:
    """The error, after a look at whether it is fit to be sent and the session is as it was."""
    session = a_busy_session()
    before, written = deepcopy(session.state), len(session.journal)
    with pytest.raises(ReminderError) as refused:
        attempt(session)
    error = refused.value
    assert equal_states(session.state, before)
    assert len(session.journal) == written
    assert error.reason
    assert error.code in DIAGNOSTICS
    assert len(str(error)) < 500
    assert str(error).isprintable()
    return error


def labelled(values: Mapping[str, object]) -> list[ParameterSet]:
    return [pytest.param(value, id=label) for label, value in values.items()]


def on_surfaces(*fields: str) -> list[ParameterSet]:
    """Every surface with each of the fields it has."""
    return [
        pytest.param(surface, field, id=f"{surface.name.lower()}-{field}")
        for surface in Surface
        for field in fields
        if field in RULES[surface].fields
    ]


def test_a_plain_payload_gets_through_on_every_surface() -> None:
    for surface in Surface:
        session = a_busy_session()
        written = len(session.journal)
        submit(session, surface, a_payload(surface))
        submit_text(session, surface, msgspec.json.encode(a_payload(surface, body="y")).replace(b"i1", b"i2"))
        assert len(session.journal) == written + 2


def code_for(surface: Surface, field: str, value: object) -> str | None:
    if field == "propagate":
        return UnknownPropagate.code
    if field == "mode" and isinstance(value, str) and value.isprintable():
        return UnsupportedMode.code
    return RULES[surface].invalid.code


@pytest.mark.parametrize(("surface", "field"), on_surfaces(*WRONG))
def test_a_wrong_value_is_refused_with_its_field_and_code(surface: Surface, field: str) -> None:
    name = spelled(field, RULES[surface].case)
    for label, value in WRONG[field].items():
        error = refusal(partial(submit, surface=surface, payload=a_payload(surface, **{field: value})))
        assert (error.field or "").split("[")[0] == name, label
        assert name in str(error), label
        assert error.code == code_for(surface, field, value), label


@pytest.mark.parametrize(
    ("surface", "field"),
    on_surfaces("body", "dedupe_key", "tags", "id", "source", "originating_agent_id"),
)
def test_no_text_holds_what_cannot_be_read(surface: Surface, field: str) -> None:
    for text in wrong_texts("ab"):
        with pytest.raises(RULES[surface].invalid) as refused:
            parse(a_payload(surface, **{field: [text] if field == "tags" else text}), surface)
        assert str(refused.value).isprintable()
        assert (refused.value.field or "").split("[")[0] == spelled(field, RULES[surface].case)


@every_surface
@pytest.mark.parametrize("payload", labelled(NO_OBJECT))
def test_what_is_no_object_is_refused(surface: Surface, payload: object) -> None:
    assert refusal(lambda session: submit(session, surface, payload)).code == RULES[surface].invalid.code


@pytest.mark.parametrize("surface", [surface for surface in Surface if surface is not Surface.MCP], ids=lower)
@pytest.mark.parametrize("key", labelled(NO_KEY))
def test_an_unknown_key_is_refused_by_name(surface: Surface, key: object) -> None:
    payload = a_payload(surface)
    payload[key] = 1
    error = refusal(partial(submit, surface=surface, payload=payload))
    assert error.field is not None
    assert error.code == (InvalidReminder.code if key == "content" and surface in BRIDGES else UnknownOption.code)


def test_a_server_may_send_any_number_of_keys_we_do_not_know() -> None:
    unknown: dict[Any, object] = {
        **dict.fromkeys(NO_KEY.values(), DEEP),
        **{f"key {number}": HUGE for number in range(10_000)},
    }
    draft = parse({**unknown, **a_payload(Surface.MCP)}, Surface.MCP)
    assert len(draft.ignored) == len(unknown)
    assert all(len(key) < 100 and key.isprintable() for key in draft.ignored)


@every_surface
@pytest.mark.parametrize("size", [DEFAULT_LIMITS.body_bytes[Trust.OPERATOR] + 1, 10**6])
@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_body_too_large_is_refused_by_its_size(surface: Surface, size: int, letter: str) -> None:
    body = letter * size
    error = refusal(lambda session: submit(session, surface, a_payload(surface, body=body)))
    assert isinstance(error, BodyTooLarge)
    assert error.value == len(body.encode())


@every_surface
@pytest.mark.parametrize("text", labelled(TEXTS))
def test_text_that_is_no_payload_is_refused(surface: Surface, text: bytes) -> None:
    assert refusal(lambda session: submit_text(session, surface, text)).code == InvalidReminder.code


@every_surface
def test_text_cut_off_anywhere_is_refused(surface: Surface) -> None:
    whole = msgspec.json.encode(a_payload(surface, tags=["a", "é"], dedupe_key='"\\k', ttl_turns=2))
    parse_json(whole, surface)
    for length in range(len(whole)):
        with pytest.raises(InvalidReminder):
            parse_json(whole[:length], surface)


# Other ways in.


@pytest.mark.parametrize("field", [*WRONG, "typo"])
def test_the_lenient_reader_makes_something_usable_of_anything(field: str) -> None:
    for value in [*WRONG.get(field, {}).values(), *wrong_texts("ab")]:
        event = transcript_reminder_event({"body": "x", field: value}, new_id=counting_ids())
        assert msgspec.json.decode(msgspec.json.encode(event), type=type(event)) == event


@pytest.mark.parametrize("payload", labelled(NO_OBJECT))
def test_the_lenient_reader_needs_an_object_all_the_same(payload: Mapping[str, object]) -> None:
    refusal(lambda _: transcript_reminder_event(payload, new_id=counting_ids()))


@pytest.mark.parametrize("content", labelled(CONTENTS))
def test_a_message_that_no_journal_can_hold_is_refused(content: list[dict[str, Any]]) -> None:
    error = refusal(lambda _session: read_content(content, DEFAULT_LIMITS))
    assert error.field in ("content", "body")


def test_a_message_is_kept_as_its_journal_gives_it_back() -> None:
    content = read_content([{"type": "text", "text": "x", "at": (1, 2.0), "who": {"n": None}}], DEFAULT_LIMITS)
    state = Session().state
    (event,) = accept_message(state, content, InjectMode.QUEUE, CLIENT, new_id="m", limits=DEFAULT_LIMITS).events
    assert from_json(event) == event


@pytest.mark.parametrize("part", ["id", "tag", "dedupe_key"])
@pytest.mark.parametrize("value", labelled(NO_TEXT))
def test_a_selector_of_no_text_is_refused(part: str, value: object) -> None:
    error = refusal(lambda session: session.clear(Selector(**{part: value})))  # type: ignore[arg-type]  # the point
    assert error.field == part


@pytest.mark.parametrize(
    "item_id", ["", "\ud800", "\x1b[2J\n", "x" * 10**6], ids=["empty", "surrogate", "escape", "long"]
)
@pytest.mark.parametrize("revoke", [revoke_reminder, revoke_message])
def test_an_id_that_means_nothing_is_unknown(item_id: str, revoke: Callable[..., object]) -> None:
    refusal(lambda session: revoke(session.state, item_id, CLIENT))


@pytest.mark.parametrize("surface", [Surface.HOOK, Surface.PROVIDER], ids=lower)
@pytest.mark.parametrize(
    "returned",
    [
        pytest.param([[]], id="list-in-a-list"),
        pytest.param([None], id="list-of-nothing"),
        pytest.param(["x"], id="list-of-texts"),
        pytest.param([HUGE], id="list-of-a-huge-number"),
        pytest.param([Opaque()], id="list-of-something-opaque"),
        pytest.param(DEEP, id="lists-without-end"),
        pytest.param({"effects": DEEP}, id="effects-without-end"),
        pytest.param({"effects": "x"}, id="effects-as-text"),
        pytest.param({"effects": None}, id="effects-as-null"),
        pytest.param({"effects": [{"reminder": {}}]}, id="effects-without-a-body"),
        pytest.param({"reminder": None}, id="reminder-as-null"),
        pytest.param({"reminder": "x"}, id="reminder-as-text"),
        pytest.param({"reminder": DEEP}, id="reminder-without-end"),
        pytest.param({"reminder": {"body": DEEP}}, id="body-without-end"),
        pytest.param({"body": HUGE}, id="body-as-a-huge-number"),
    ],
)
def test_what_a_hook_or_provider_returns_is_read_strictly(surface: Surface, returned: object) -> None:
    assert refusal(lambda _: read_effects(returned, surface)).code == RULES[surface].invalid.code


@pytest.mark.parametrize("event", labelled({**NO_TEXT, "long": "x" * 10**6, "escape": "\x1b[2J"}))
@pytest.mark.parametrize("read", [read_hook_event, read_provider_event])
def test_an_unknown_event_is_refused(read: Callable[[object], object], event: object) -> None:
    assert refusal(lambda _: read(event)).field == "event"


def test_however_many_providers_there_are_the_error_is_short() -> None:
    refusal(lambda _: refuse_too_many_providers(f"provider-{number}" for number in range(1_000)))


@pytest.mark.parametrize("keep_last", labelled({**NO_INTEGER_AT_ALL, "negative": -1}))
def test_a_tail_of_no_number_is_refused(keep_last: int) -> None:
    transcript = Transcript(messages=({"role": "user", "content": "x"},))
    error = refusal(lambda _: transcript_compact(transcript, strategy="keep_last", keep_last=keep_last))
    assert error.field == "keep_last"
