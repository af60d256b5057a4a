"""The way of a reminder through us, from the bytes of a caller to the bytes for a peer, beside bare codecs.

The bare codecs know the same fields, types and bounds. They neither refuse keys that come twice and hostile
characters, nor trim, nor remove repeated tags, nor say what is wrong in our words; what all that costs is the ratio.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import pydantic
from msgspec import UNSET, Meta, UnsetType
from pydantic.alias_generators import to_camel

from benchmarks.effort import Effort, Progress
from benchmarks.report import Figure, Report, Table, duration, times
from benchmarks.stopwatch import Call, Spread, interleaved
from sideband.core.parse import parse, parse_json
from sideband.core.reminder import MAX_TTL_TURNS, Propagate, Reminder, ReminderId, RoleHint, Source, mint
from sideband.core.seams import Mode
from sideband.core.surfaces import Surface
from sideband.protocols.wire import encode_camel

PART: Final = "codec"

ACP_PAYLOAD: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "body": "src/auth.py changed on disk since it was read. Read it again before editing.",
        "tags": ["workspace", "file_changed"],
        "dedupeKey": "file_changed:src/auth.py",
        "ttlTurns": 2,
        "preserveOnCompact": False,
        "propagate": "session",
        "roleHint": "developer",
        "mode": "finish_step",
    }
)
A2A_PAYLOAD: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "id": "0190a0c4-5f00-7000-8000-0242ac120002",
        **ACP_PAYLOAD,
        "source": "bridge",
        "firedAtTurn": 4,
        "originatingAgentId": "agent-1",
    }
)
LINES_PAYLOAD: Final = MappingProxyType(
    {**ACP_PAYLOAD, "body": "src/auth.py wurde geändert.\nVor dem Bearbeiten noch einmal lesen."}
)
META_PAYLOAD: Final = MappingProxyType({**ACP_PAYLOAD, "_meta": {"sideband": {"idempotencyKey": "build-7"}}})

NEW_ID: Final = ReminderId("0190a0c4-5f00-7000-8000-000000000001")


# The bare codecs.

Tag = Annotated[str, Meta(min_length=1, max_length=64)]


class Bare(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What ACP carries."""

    body: Annotated[str, Meta(min_length=1)]
    tags: Annotated[tuple[Tag, ...], Meta(max_length=16)] = ()
    dedupe_key: Annotated[str, Meta(max_length=256)] | None = None
    ttl_turns: Annotated[int, Meta(ge=1, le=MAX_TTL_TURNS)] | None = None
    preserve_on_compact: bool = False
    propagate: Propagate = Propagate.SESSION
    role_hint: RoleHint = RoleHint.SYSTEM
    mode: Mode = Mode.FINISH_STEP
    meta: dict[str, Any] | UnsetType = msgspec.field(default=UNSET, name="_meta")


class BareWithClaims(Bare, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What A2A carries."""

    id: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    source: Annotated[str, Meta(max_length=256)] | None = None
    fired_at_turn: int | None = None
    originating_agent_id: Annotated[str, Meta(max_length=256)] | None = None


class Model(pydantic.BaseModel):
    """The same for pydantic."""

    model_config = pydantic.ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    body: str = pydantic.Field(min_length=1)
    tags: tuple[Annotated[str, pydantic.Field(min_length=1, max_length=64)], ...] = pydantic.Field((), max_length=16)
    dedupe_key: str | None = pydantic.Field(None, max_length=256)
    ttl_turns: int | None = pydantic.Field(None, ge=1, le=MAX_TTL_TURNS)
    preserve_on_compact: bool = False
    propagate: Propagate = Propagate.SESSION
    role_hint: RoleHint = RoleHint.SYSTEM
    mode: Mode = Mode.FINISH_STEP
    meta: dict[str, Any] | None = pydantic.Field(None, alias="_meta")


class ModelWithClaims(Model):
    id: str | None = pydantic.Field(None, min_length=1, max_length=128)
    source: str | None = pydantic.Field(None, max_length=256)
    fired_at_turn: int | None = None
    originating_agent_id: str | None = pydantic.Field(None, max_length=256)


_encode: Final = msgspec.json.Encoder().encode


# What is compared.


class Trial(NamedTuple):
    """The same step done by each."""

    ours: Call
    msgspec: Call
    pydantic: Call


def trials() -> dict[str, Trial]:
    """The rows of the table."""
    return {
        **_steps("ACP", ACP_PAYLOAD, Surface.ACP, Bare, Model),
        **_steps("A2A, 12 fields", A2A_PAYLOAD, Surface.A2A, BareWithClaims, ModelWithClaims),
        WHOLE.format("ACP, lines of other text"): _whole(LINES_PAYLOAD, Surface.ACP, Bare, Model),
        WHOLE.format("ACP, with an envelope"): _whole(META_PAYLOAD, Surface.ACP, Bare, Model),
    }


WHOLE: Final = "{}: JSON to record to JSON"


def _steps(
    name: str, payload: Mapping[str, Any], surface: Surface, bare: type[Bare], model: type[Model]
) -> dict[str, Trial]:
    found = dict(payload)
    raw = _json(found)
    decode = msgspec.json.Decoder(bare).decode
    validate, validate_json = model.model_validate, model.model_validate_json
    record, bare_record, model_record = _record(raw, surface), decode(raw), validate_json(raw)
    return {
        WHOLE.format(name): _whole(payload, surface, bare, model),
        f"{name}: JSON, decode and validate": Trial(
            lambda: parse_json(raw, surface), lambda: decode(raw), lambda: validate_json(raw)
        ),
        f"{name}: record, encode": Trial(
            lambda: encode_camel(record),
            lambda: _encode(bare_record),
            lambda: model_record.model_dump_json(by_alias=True),
        ),
        f"{name}: dict, validate": Trial(
            lambda: parse(found, surface), lambda: msgspec.convert(found, bare), lambda: validate(found)
        ),
    }


def _whole(payload: Mapping[str, Any], surface: Surface, bare: type[Bare], model: type[Model]) -> Trial:
    raw = _json(payload)
    decode, validate_json = msgspec.json.Decoder(bare).decode, model.model_validate_json
    return Trial(
        lambda: encode_camel(_record(raw, surface)),
        lambda: _encode(decode(raw)),
        lambda: validate_json(raw).model_dump_json(by_alias=True),
    )


def _record(raw: bytes, surface: Surface) -> Reminder:
    draft = parse_json(raw, surface)
    return mint(
        draft, reminder_id=NEW_ID if draft.caller_id is None else ReminderId(draft.caller_id), source=Source.BRIDGE
    )


def _json(payload: Mapping[str, Any]) -> bytes:
    # As most clients write it, blanks after commas and colons included.
    return json.dumps(dict(payload), ensure_ascii=False).encode()


def measure(effort: Effort, progress: Progress) -> Report:
    rows = trials()
    calls = {f"{row} / {who}": call for row, trial in rows.items() for who, call in trial._asdict().items()}
    spreads = interleaved(calls, effort, progress, PART)
    return Report(
        part=PART,
        tables=(_table(rows, spreads, effort),),
        figures=tuple(Figure(name=name, value=spread.best) for name, spread in spreads.items()),
    )


def _ratio(spreads: Mapping[str, Spread], row: str, who: str) -> float:
    return spreads[f"{row} / {who}"].best / spreads[f"{row} / msgspec"].best


def _table(rows: Mapping[str, Trial], spreads: Mapping[str, Spread], effort: Effort) -> Table:
    def cells(row: str) -> tuple[str, ...]:
        ours, bare = spreads[f"{row} / ours"], spreads[f"{row} / msgspec"]
        return (
            row,
            *(duration(spreads[f"{row} / {who}"].best) for who in Trial._fields),
            times(_ratio(spreads, row, "ours")),
            times(ours.median / bare.median),
            times(_ratio(spreads, row, "pydantic")),
        )

    return Table(
        title="Codec: a reminder on its way through, beside msgspec and pydantic alone",
        note=(
            f"Time of one call: the best of {effort.loops} loops of {effort.loop_seconds * 1e3:g} ms. "
            "o/m = ours / msgspec, of the best loops and of the medians; p/m = pydantic / msgspec.\n"
            "The bare codecs check types and bounds alone: no repeated keys, no hostile characters, no trimming."
        ),
        columns=("step", "ours", "msgspec", "pydantic", "o/m best", "o/m median", "p/m best"),
        rows=tuple(map(cells, rows)),
    )
