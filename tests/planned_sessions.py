"""Sessions whose requests are planned for a route and then answered or voided, and profiles of such routes."""

from functools import lru_cache
from typing import Any, Final

import msgspec

from sideband.core.accept import Selector
from sideband.core.events import Deferred, Dropped, Fired
from sideband.core.ledger import Form, Fragment, Lifetime
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.core.turn import close_turn, void_turn
from sideband.render.plan import Plan, Planner, default_placement
from sideband.render.profiles import Cache, InlineSystem, LeadingRole, Placement, Profile, Wire
from sideband.render.seed import Placed, plan_seed
from sideband.render.view import RequestView
from tests.builders import a_reminder
from tests.sessions import Session, opened

ROUTE: Final = "a-route"

planner_for = lru_cache(maxsize=64)(Planner)
"""One planner per route, as in a renderer."""

CLAUDE: Final = Profile(
    transport="anthropic",
    model="claude",
    wire=Wire.ANTHROPIC,
    prefers_xml_scaffolding=True,
    strict_alternation=False,
    user_after_tool=True,
    tool_results_first=True,
    content_parts=True,
    media=("image/jpeg", "image/png", "application/pdf"),
    media_urls=True,
    cache=Cache.EXPLICIT,
    cache_markers=4,
)
"""Claude: the prefix may change after the last breakpoint, and slots do not clear themselves."""
CLEARING: Final = msgspec.structs.replace(
    CLAUDE,
    prefix_bound_thinking=True,
    inline_system=InlineSystem.AFTER_USER,
    inline_verified=True,
    self_clearing="clears-2026-01-01",
)
GPT: Final = Profile(
    transport="openai",
    model="gpt",
    wire=Wire.OPENAI_CHAT,
    leading_role=LeadingRole.DEVELOPER,
    inline_system=InlineSystem.ANYWHERE,
    inline_verified=True,
    developer_role=True,
    prefers_role_developer=True,
    multiple_leading_system=True,
    strict_alternation=False,
    consecutive_assistant=True,
    user_after_tool=True,
    content_parts=True,
    media=("image/jpeg", "image/png", "application/pdf"),
    media_urls=True,
    encrypted_reasoning=True,
    cache=Cache.EXPLICIT,
)
GEMINI: Final = Profile(
    transport="google",
    model="gemini",
    wire=Wire.GEMINI,
    prefers_xml_scaffolding=True,
    user_after_tool=True,
    content_parts=True,
    media=("image/jpeg", "image/png", "application/pdf", "audio/wav"),
    media_urls=True,
    cache=Cache.IMPLICIT,
)
UNKNOWN: Final = Profile(transport="openai-compatible")
"""An unknown server: the strictest chat template."""


def a_profile(like: Profile = UNKNOWN, **fields: object) -> Profile:
    """A profile like another one, except for `fields`."""
    return msgspec.structs.replace(like, **fields)


class PlannedSession(Session):
    """A session whose requests are planned for one route, and committed as planned."""

    def __init__(self, profile: Profile = CLAUDE, placement: Placement | None = None, *, asks: str = "Fix it.") -> None:
        super().__init__()
        self.profile = profile
        self.placement = default_placement(profile) if placement is None else placement
        if asks:
            self.user(asks)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.state.messages

    # Reminders and messages.

    def remind(
        self, reminder_id: str, body: str | None = None, sender: Provenance = IN_PROCESS, **fields: object
    ) -> None:
        """Make a reminder live; by default its body names its id."""
        self.inject(a_reminder(reminder_id, body=f"Body of {reminder_id}." if body is None else body, **fields), sender)

    def forget(self, reminder_id: str) -> None:
        """Clear a reminder."""
        self.clear(Selector(id=reminder_id))

    def user(self, text: str = "Go on.") -> None:
        self.messages.append({"role": "user", "content": text})

    def result(self, text: str = "ok") -> None:
        self.messages.append({"role": "tool", "tool_call_id": "c1", "name": "run", "status": "ok", "content": text})

    # Requests.

    def view(self, *, again: tuple[Fragment, ...] | None = None) -> RequestView:
        state = self.state
        return RequestView(
            turn=state.live.turn + 1,
            system="Be brief.",
            messages=state.messages,
            tools=(),
            live=state.live,
            session_id="s1",
            window=state.window,
            ledger=state.ledger,
            again=again,
        )

    def plan(self, *, again: tuple[Fragment, ...] | None = None) -> Plan:
        """Plan the next request without committing it."""
        view = self.view(again=again)
        return planner_for(self.profile, self.placement).plan(view, view.ledger.on(ROUTE))

    def plan_seed(self) -> Plan:
        return plan_seed(self.profile, self.view())[0]

    def placed(self) -> tuple[Placed, ...]:
        """The reminders by the placement `seed`."""
        return plan_seed(self.profile, self.view())[1]

    def ask(self) -> Plan:
        """Plan a request and commit it."""
        planned = self.plan()
        self.commit(opened(self.state, msgspec.structs.replace(planned, route=ROUTE)))
        return planned

    def answer(self, text: str = "Done.") -> None:
        """Commit a reply to the open request."""
        assert self.state.request is not None
        reply = {"role": "assistant", "content": text}
        self.decide(close_turn(self.state, reply=reply, usage=None))

    def lose(self) -> None:
        """Void the open request."""
        assert self.state.request is not None
        self.decide(void_turn(self.state))

    def asked_and_answered(self, *, then: str = "tool") -> Plan:
        """One turn, followed by a tool result, a user message or nothing."""
        planned = self.ask()
        self.answer()
        if then == "tool":
            self.result()
        elif then == "user":
            self.user()
        return planned

    # What happened.

    @property
    def fired(self) -> list[Fired]:
        return [event for event in self.journal if isinstance(event, Fired)]

    @property
    def deferred(self) -> list[Deferred]:
        return [event for event in self.journal if isinstance(event, Deferred)]

    @property
    def dropped(self) -> list[Dropped]:
        return [event for event in self.journal if isinstance(event, Dropped)]


def texts(planned: Plan) -> list[str]:
    """The texts of the fragments of a request."""
    return [fragment.text for fragment in planned.fragments]


def shown_ids(planned: Plan) -> list[str]:
    return [entry.reminder_id for entry in planned.shown]


def scopes(planned: Plan) -> list[Lifetime]:
    """The lifetime of each fragment."""
    return [fragment.scope for fragment in planned.fragments]


def carriers(planned: Plan) -> list[tuple[Form, str]]:
    """The form and the role of each fragment."""
    return [(fragment.form, fragment.role) for fragment in planned.fragments]
