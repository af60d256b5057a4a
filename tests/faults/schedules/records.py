"""What is written down while a schedule is played, beside the journal. `at` is how long the journal was then."""

from typing import NamedTuple

from sideband.loop.run import LoopResult
from sideband.models.scripted import ScriptedRequest
from sideband.ports import Logged


class Ticket(NamedTuple):
    """An item whose sender knows that it was accepted."""

    label: str
    item_id: str
    is_message: bool


class Told(NamedTuple):
    """A call of an actor and its reply; `version` numbers the replacements."""

    at: int
    verb: str
    label: str
    answer: str
    item_id: str = ""
    version: int = 1


class Sent(NamedTuple):
    """A request as the model got it."""

    at: int
    request: ScriptedRequest


class ToolMoment(NamedTuple):
    """A tool began or ended a call."""

    at: int
    what: str
    call_id: str


class RunRecord(NamedTuple):
    """The part of the journal that a run filled, and what it came to (None: it was given up half-way)."""

    began: int
    ended: int
    result: LoopResult | None
    max_turns: int
    left_open: tuple[str, ...]


class Watched(NamedTuple):
    """What one subscription was handed, from its cursor on."""

    after: int
    kind_prefix: str
    entries: list[Logged]
