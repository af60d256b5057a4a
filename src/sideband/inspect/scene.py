"""A request described by a JSON file: messages, tools and reminders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from sideband.core.apply import apply
from sideband.core.errors import ReminderError
from sideband.core.ledger import Ledger
from sideband.core.lifecycle import go_live
from sideband.core.parse import parse
from sideband.core.reminder import ReminderId, Source, mint
from sideband.core.state import SessionState
from sideband.core.surfaces import Surface
from sideband.core.trust import Provenance, Trust, ceiling_for, clamp
from sideband.inspect.request import Subject, Told
from sideband.render.profiles import Wire
from sideband.render.renderer import Renderer
from sideband.render.view import RequestView

_ABOUT_THE_SENDER: Final = ("trust", "from")


class SceneError(ValueError):
    """The file does not describe a request; the message is one sentence."""


class SceneCall(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    name: str
    args: dict[str, Any] = {}


class SceneUser(msgspec.Struct, tag_field="role", tag="user", forbid_unknown_fields=True):
    content: str | list[dict[str, Any]]


class SceneAssistant(msgspec.Struct, tag_field="role", tag="assistant", forbid_unknown_fields=True):
    content: str = ""
    tool_calls: list[SceneCall] = []
    native: dict[str, list[dict[str, Any]]] = {}


class SceneResult(msgspec.Struct, tag_field="role", tag="tool", forbid_unknown_fields=True):
    tool_call_id: str
    name: str
    content: str
    status: str = "ok"


class SceneSummary(msgspec.Struct, tag_field="role", tag="system", forbid_unknown_fields=True):
    content: str


class SceneTool(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})


class SceneSender(msgspec.Struct, rename={"principal": "from"}):
    trust: Literal["operator", "controller", "peer", "server"] = "operator"
    principal: str | None = None


class SceneDocument(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the file; `model=None` leaves the choice to the command line."""

    messages: list[SceneUser | SceneAssistant | SceneResult | SceneSummary]
    system: str = ""
    tools: list[SceneTool] = []
    reminders: list[dict[str, Any]] = []
    turn: int = 1
    model: str | None = None
    session_id: str = "example"


class Scene(NamedTuple):
    """A request that can be rendered with and without its reminders; `told` holds all reminders of the file."""

    document: SceneDocument
    told: tuple[Told, ...]

    def subject(self, renderer: Renderer) -> Subject:
        """The request to show, in a conversation that this renderer has sent from the beginning."""
        ledger = Ledger(route=renderer.render(self.view()).route, since=0)
        with_them, without = self.view(), self.view(reminders=False)
        return Subject(
            msgspec.structs.replace(with_them, ledger=ledger),
            # Without its reminders there may be nothing to answer, so this is no new request.
            msgspec.structs.replace(without, ledger=ledger, again=()),
            self.told,
        )

    def view(self, *, reminders: bool = True) -> RequestView:
        """The input of the renderer."""
        state = SessionState()
        for told in self.told if reminders else ():
            for event in go_live(state, told.reminder, told.sender):
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
    """Read the file; raises `SceneError` if it does not describe a request."""
    try:
        document = msgspec.json.decode(path.read_bytes(), type=SceneDocument)
    except OSError as error:
        raise SceneError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SceneError(f"{path} cannot be read: it is not UTF-8") from None
    except msgspec.DecodeError as error:
        raise SceneError(f"{path} is not a request: {error}") from None
    for place, message in enumerate(document.messages):
        if (fault := _fault(place, message)) is not None:
            raise SceneError(f"{path} is not a request: {fault} (messages[{place}])")
    return Scene(
        document, tuple(_told(path, number, fields) for number, fields in enumerate(document.reminders, start=1))
    )


def _fault(place: int, message: SceneUser | SceneAssistant | SceneResult | SceneSummary) -> str | None:
    """What is wrong with a message, apart from its types."""
    match message:
        case SceneSummary() if place:
            return "a system message is a summary and must be the first message"
        case SceneAssistant(native=native) if not all("type" in block for block in native.get(Wire.ANTHROPIC, ())):
            return "a native block must have a type"
        case _:
            return None


def _told(path: Path, number: int, fields: Mapping[str, Any]) -> Told:
    """The reminder after hints above its sender's trust level are lowered."""
    try:
        sender = msgspec.convert({key: fields[key] for key in _ABOUT_THE_SENDER if key in fields}, SceneSender)
        draft = parse({key: value for key, value in fields.items() if key not in _ABOUT_THE_SENDER}, Surface.PIPELINE)
    except (ReminderError, msgspec.ValidationError) as error:
        raise SceneError(f"{path}, reminder {number}: {error}") from None
    provenance = Provenance(trust=Trust[sender.trust.upper()], principal=sender.principal)
    clamped = clamp(draft, ceiling_for(provenance))
    source = Source.IN_PIPELINE if provenance.trust is Trust.OPERATOR else Source.BRIDGE
    reminder = mint(clamped.draft, reminder_id=ReminderId(str(number)), source=source)
    # An omitted TTL is a request for no TTL; other omitted hints request nothing.
    wanted = {key: value for key, value in clamped.requested.items() if key in fields or key == "ttl_turns"}
    return Told(reminder, provenance, wanted)
