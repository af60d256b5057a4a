"""A request in a file: what a model is asked, and the reminders that it should be told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from sideband.cli.shot import Subject, Told
from sideband.core.draft import mint
from sideband.core.errors import ReminderError
from sideband.core.ledger import Ledger
from sideband.core.lifecycle import inject
from sideband.core.parse import parse
from sideband.core.reminder import ReminderId, Source
from sideband.core.state import SessionState, apply
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance, Trust, ceiling_for, clamp
from sideband.render.profile import Wire
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView

_ABOUT_THE_SENDER: Final = ("trust", "from")


class SceneError(ValueError):
    """A file that is no request; the message is one sentence."""


class Call(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    name: str
    args: dict[str, Any] = {}


class User(msgspec.Struct, tag_field="role", tag="user", forbid_unknown_fields=True):
    content: str | list[dict[str, Any]]


class Assistant(msgspec.Struct, tag_field="role", tag="assistant", forbid_unknown_fields=True):
    content: str = ""
    tool_calls: list[Call] = []
    native: dict[str, list[dict[str, Any]]] = {}


class Result(msgspec.Struct, tag_field="role", tag="tool", forbid_unknown_fields=True):
    tool_call_id: str
    name: str
    content: str
    status: str = "ok"


class Summary(msgspec.Struct, tag_field="role", tag="system", forbid_unknown_fields=True):
    content: str


class Tool(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})


class Sender(msgspec.Struct, rename={"principal": "from"}):
    trust: Literal["operator", "controller", "peer", "server"] = "operator"
    principal: str | None = None


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """What such a file may hold; `model` None: whoever renders it says for which."""

    messages: list[User | Assistant | Result | Summary]
    system: str = ""
    tools: list[Tool] = []
    reminders: list[dict[str, Any]] = []
    turn: int = 1
    model: str | None = None
    session_id: str = "example"


class Scene(NamedTuple):
    """A request that can be rendered, with its reminders and without; `told` are all of the file."""

    document: Document
    told: tuple[Told, ...]

    def subject(self, renderer: Renderer) -> Subject:
        """What is to be shown, in a conversation that this renderer has sent from its beginning."""
        ledger = Ledger(route=renderer.render(self.view()).route, since=0)
        with_them, without = self.view(), self.view(reminders=False)
        return Subject(
            msgspec.structs.replace(with_them, ledger=ledger),
            msgspec.structs.replace(without, ledger=ledger),
            self.told,
        )

    def view(self, *, reminders: bool = True) -> RequestView:
        """What the request is made from."""
        state = SessionState()
        for told in self.told if reminders else ():
            for event in inject(state.live, told.reminder, told.sender):
                apply(state, event)
        document = self.document
        return RequestView(
            turn=document.turn,
            system=document.system,
            messages=msgspec.to_builtins(document.messages),
            tools=msgspec.to_builtins(document.tools),
            live=state.live,
            session_id=document.session_id,
        )


def read_scene(path: Path) -> Scene:
    """The request in this file; whatever is wrong with it raises `SceneError`."""
    try:
        document = msgspec.json.decode(path.read_bytes(), type=Document)
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SceneError(f"{path} cannot be read: it is not UTF-8") from None
    except msgspec.DecodeError as error:
        raise SceneError(f"{path} is no request: {error}") from None
    for place, message in enumerate(document.messages):
        if (fault := _fault(place, message)) is not None:
            raise SceneError(f"{path} is no request: {fault} (messages[{place}])")
    return Scene(
        document, tuple(_told(path, number, fields) for number, fields in enumerate(document.reminders, start=1))
    )


def _fault(place: int, message: User | Assistant | Result | Summary) -> str | None:
    """What is wrong with a message beyond its types."""
    match message:
        case Summary() if place:
            return "a system message is a summary, and stands first"
        case Assistant(native=native) if not all("type" in block for block in native.get(Wire.ANTHROPIC, ())):
            return "a native block must have a type"
        case _:
            return None


def _told(path: Path, number: int, fields: Mapping[str, Any]) -> Told:
    """A reminder as its sender may have it: hints above its level are lowered."""
    try:
        sender = msgspec.convert({key: fields[key] for key in _ABOUT_THE_SENDER if key in fields}, Sender)
        draft = parse({key: value for key, value in fields.items() if key not in _ABOUT_THE_SENDER}, Surface.PIPELINE)
    except (ReminderError, msgspec.ValidationError) as error:
        raise SceneError(f"{path}, reminder {number}: {error}") from None
    provenance = Provenance(trust=Trust[sender.trust.upper()], principal=sender.principal)
    clamped = clamp(draft, ceiling_for(provenance))
    source = Source.IN_PIPELINE if provenance.trust is Trust.OPERATOR else Source.BRIDGE
    reminder = mint(clamped.draft, reminder_id=ReminderId(str(number)), source=source)
    # Whoever says nothing of a TTL wants none; of the rest only what was said was wanted.
    wanted = {key: value for key, value in clamped.requested.items() if key in fields or key == "ttl_turns"}
    return Told(reminder, provenance, wanted)
