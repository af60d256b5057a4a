"""Conversations whose requests are planned, answered or lost; and the routes they are planned for."""

from typing import Any, Final

import msgspec

from sideband.core.events import Deferred, Dropped, Fired
from sideband.core.ledger import Form, Fragment, Scope
from sideband.core.lifecycle import Selector, close_turn, open_request, void_turn
from sideband.core.trust import IN_PROCESS, Provenance
from sideband.render.planning import Planned, Planner, SeedPlan, default_placement, plan_seed
from sideband.render.profile import Cache, InlineSystem, LeadingRole, Placement, Profile, Wire
from sideband.render.view import RequestView
from tests.builders import a_reminder
from tests.sessions import Session

ROUTE: Final = "a-route"

CLAUDE: Final = Profile(
    transport="anthropic",
    model="claude",
    wire=Wire.ANTHROPIC,
    prefers_xml_scaffolding=True,
    strict_alternation=False,
    user_after_tool=True,
    tool_results_first=True,
    content_parts=True,
    cache=Cache.EXPLICIT,
    cache_markers=4,
)
"""Claude whose prefix may change behind the last breakpoint, and whose slots do not clear themselves."""
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
    cache=Cache.IMPLICIT,
)
UNKNOWN: Final = Profile(transport="openai-compatible")
"""The strictest chat template there is."""


def a_profile(like: Profile = UNKNOWN, **fields: object) -> Profile:
    """A profile like another one, except for `fields`."""
    return msgspec.structs.replace(like, **fields)


class Talk(Session):
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

    # What others say.

    def remind(
        self, reminder_id: str, body: str | None = None, sender: Provenance = IN_PROCESS, **fields: object
    ) -> None:
        """A reminder becomes live; its body tells its id, if nothing else is said."""
        self.inject(a_reminder(reminder_id, body=f"Body of {reminder_id}." if body is None else body, **fields), sender)

    def forget(self, reminder_id: str) -> None:
        """A reminder is cleared."""
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

    def plan(self, *, again: tuple[Fragment, ...] | None = None) -> Planned:
        """The request that would leave now."""
        return Planner(self.profile, self.placement).plan(self.view(again=again), ROUTE)

    def plan_seed(self) -> SeedPlan:
        return plan_seed(self.profile, self.view())

    def ask(self) -> Planned:
        """A request leaves."""
        planned = self.plan()
        turn = self.state.live.turn + 1
        self.commit(
            open_request(
                turn, planned.shown, planned.left_out, planned.unusable, route=ROUTE, fragments=planned.fragments
            )
        )
        return planned

    def answer(self, text: str = "Done.") -> None:
        """The model answers the request that has left."""
        assert self.state.request is not None
        reply = {"role": "assistant", "content": text}
        self.commit(close_turn(self.state.live, self.state.request, reply=reply))

    def lose(self) -> None:
        """Nobody answers the request that has left."""
        assert self.state.request is not None
        self.commit(void_turn(self.state.request))

    def asked_and_answered(self, *, then: str = "tool") -> Planned:
        """One turn; behind the answer stands a tool result, or whatever else is said."""
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


def texts(planned: Planned) -> list[str]:
    """What a request says beside its messages, piece by piece."""
    return [fragment.text for fragment in planned.fragments]


def shown_ids(planned: Planned | SeedPlan) -> list[str]:
    return [entry.reminder_id for entry in planned.shown]


def scopes(planned: Planned) -> list[Scope]:
    """How long each piece stands."""
    return [fragment.scope for fragment in planned.fragments]


def carriers(planned: Planned) -> list[tuple[Form, str]]:
    """What carries each piece, and in which role."""
    return [(fragment.form, fragment.role) for fragment in planned.fragments]
