"""The structs of the wire shapes against the example payloads."""

import inspect
from collections.abc import Iterator
from enum import StrEnum
from types import ModuleType

import msgspec
import pytest

from sideband.core.parse import parse
from sideband.core.reminder import Propagate, RoleHint
from sideband.core.surfaces import RULES, Surface, spelled
from sideband.protocols import wire
from sideband.protocols.a2a import messages as a2a
from sideband.protocols.acp import messages as acp
from sideband.protocols.mcp import messages as mcp
from tests.unit.protocols.examples import EXAMPLES, FOLDER, REMINDERS, Example, within, without_session

MODULES = (wire, acp, a2a, mcp)


def structs(module: ModuleType) -> Iterator[type[msgspec.Struct]]:
    for _, found in inspect.getmembers(module, inspect.isclass):
        if issubclass(found, msgspec.Struct) and found.__module__ == module.__name__:
            yield found


def test_every_example_is_listed_and_every_listed_example_is_there() -> None:
    files = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.json")}
    assert {example.file for example in EXAMPLES} == files


# Metadata knows only doubles; reading 2.0 as 2 is left to the parser.
READ = [example for example in EXAMPLES if example.surface is not Surface.A2A_METADATA]


@pytest.mark.parametrize("example", READ, ids=lambda example: example.id)
def test_a_struct_reads_again_what_it_has_written(example: Example) -> None:
    read = msgspec.convert(example.payload(), example.shape)
    assert msgspec.json.decode(msgspec.json.encode(read), type=example.shape) == read


# A server may leave out defaults that the example spells out.
SENT = [
    example
    for example in EXAMPLES
    if issubclass(example.shape, wire.Outbound) and example.shape is not mcp.ReminderNotification
]


@pytest.mark.parametrize("example", SENT, ids=lambda example: example.id)
def test_what_we_send_can_be_written_to_the_letter(example: Example) -> None:
    payload = example.payload()
    assert msgspec.json.decode(msgspec.json.encode(msgspec.convert(payload, example.shape))) == payload


@pytest.mark.parametrize("example", REMINDERS, ids=lambda example: example.id)
def test_the_parser_accepts_the_reminder_of_an_example(example: Example) -> None:
    assert example.surface is not None
    payload = without_session(within(example.payload(), example.reminder))
    assert parse(payload, example.surface).body == payload["body"]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_shape_says_what_it_is(module: ModuleType) -> None:
    unsaid = [struct.__name__ for struct in structs(module) if not struct.__doc__ and struct.__name__[0] != "_"]
    assert unsaid == []
    assert list(structs(module))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_shape_is_read_or_sent(module: ModuleType) -> None:
    assert [struct for struct in structs(module) if not issubclass(struct, wire.Inbound | wire.Outbound)] == []


@pytest.mark.parametrize(
    ("shape", "surface", "beside"),
    [
        pytest.param(acp.SessionInjectReminderRequest, Surface.ACP, {"sessionId"}, id="acp"),
        pytest.param(acp.LegacyReminder, Surface.ACP_LEGACY, set(), id="acp-in-snake-case"),
        pytest.param(a2a.InjectedReminder, Surface.A2A, set(), id="a2a"),
    ],
)
def test_a_closed_shape_has_exactly_the_fields_that_the_parser_reads(
    shape: type[msgspec.Struct], surface: Surface, beside: set[str]
) -> None:
    rules = RULES[surface]
    assert set(shape.__struct_encode_fields__) == {spelled(field, rules.case) for field in rules.fields} | beside


@pytest.mark.parametrize(
    "shape",
    [acp.SessionInjectReminderRequest, acp.LegacyReminder, a2a.InjectedReminder],
    ids=lambda shape: shape.__name__,
)
def test_what_a_caller_leaves_out_has_the_value_that_the_parser_gives_it(shape: type[msgspec.Struct]) -> None:
    required = {"body": "x", "sessionId": "s"} if "session_id" in shape.__struct_fields__ else {"body": "x"}
    read, draft = msgspec.convert(required, shape), parse({"body": "x"}, Surface.SESSION)
    for field in ("tags", "dedupe_key", "ttl_turns", "preserve_on_compact", "propagate", "role_hint", "mode"):
        assert getattr(read, field) == getattr(draft, field)


def test_a_server_that_counts_no_turns_may_say_so_or_be_silent() -> None:
    silent = mcp.ReminderSpec(id="r-1", body="x")
    assert msgspec.json.encode(silent) == b'{"id":"r-1","body":"x"}'
    outspoken = mcp.ReminderSpec(id="r-1", body="x", fired_at_turn=None)
    assert msgspec.json.encode(outspoken) == b'{"id":"r-1","body":"x","firedAtTurn":null}'


def test_the_kinds_of_pending_rows_are_told_apart_by_their_kind() -> None:
    rows = acp.PendingReminder | acp.PendingMessage
    message = {"kind": "user", "position": 0, "mode": "queue", "messageId": "m", "content": [{"type": "text"}]}
    assert isinstance(msgspec.convert(message, rows), acp.PendingMessage)


def test_content_blocks_are_passed_on_whole() -> None:
    block = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    request = {"sessionId": "s", "mode": "steer", "content": [block]}
    assert msgspec.convert(request, acp.SessionInjectRequest).content == (block,)


@pytest.mark.parametrize("vocabulary", [Propagate, RoleHint], ids=lambda vocabulary: vocabulary.__name__)
def test_capabilities_can_name_every_word(vocabulary: type[StrEnum]) -> None:
    words = [word.value for word in vocabulary]
    field = "propagate" if vocabulary is Propagate else "roleHints"
    capability = msgspec.convert({"inject": True, "emit": True, field: words}, wire.ReminderCapability)
    assert msgspec.json.decode(msgspec.json.encode(capability))[field] == words
