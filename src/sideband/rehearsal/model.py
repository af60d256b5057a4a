"""A model that renders real requests, and takes its replies from a script."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from sideband.core.blocks import estimated_tokens
from sideband.core.events import Usage
from sideband.core.ledger import RequestHead
from sideband.core.messages import Reply, ToolCall
from sideband.inspect.request import Break, share
from sideband.ports import OnText
from sideband.rehearsal.pace import Pace
from sideband.render.plan import Plan
from sideband.render.profiles import Profile
from sideband.render.renderer import Rendered, Renderer
from sideband.render.view import RequestView
from sideband.runtime.profiles import load_profiles
from sideband.runtime.system import new_id

TRANSPORT: Final = "anthropic"
NAME: Final = "claude-opus-5-5"
# So small that a few tool results fill it, and a compaction follows within two minutes.
CONTEXT_WINDOW: Final = 15_000

_ENCODER: Final = msgspec.json.Encoder()


class ScriptedReply(NamedTuple):
    """One line of a script. `midway` is awaited while the reply is being written.

    `is_cut_short`: the script itself interrupts the calls of this line.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    midway: Callable[[], Awaitable[None]] | None = None
    is_cut_short: bool = False


NextLine: TypeAlias = Callable[[RequestView], Awaitable[ScriptedReply]]


def call(tool: str, **args: Any) -> ToolCall:  # noqa: ANN401 - the tool checks them
    """A call of a tool, with an id of its own."""
    return ToolCall(id=f"call_{new_id()[-12:]}", name=tool, args=args)


def rehearsed_profile() -> Profile:
    """What the model that is played honours, with a smaller context window."""
    profile = load_profiles().of(f"{TRANSPORT}:{NAME}")
    return msgspec.structs.replace(profile, context_window=CONTEXT_WINDOW)


class RehearsedModel:
    """Plans each request to its final bytes, as the model of the profile would get it, and answers with the next line.

    A reply is written word by word. The numbers of tokens are those that `sideband render` estimates.
    """

    def __init__(self, next_line: NextLine, *, pace: Pace) -> None:
        self.profile = rehearsed_profile()
        self._next_line = next_line
        self._pace = pace
        self._renderer = Renderer(self.profile, model=NAME)
        # The window of the last request of each session.
        self._windows: dict[str, int] = {}

    @property
    def context_window(self) -> int | None:
        return self.profile.context_window

    def plan(self, view: RequestView) -> Plan:
        """Render the request completely, and describe it so that it can be rendered again from the journal."""
        plan = self._renderer.render(view)
        head = None if plan.route == view.known_route else self._head(view, plan.route)
        return msgspec.structs.replace(plan, head=head or plan.head, request=(view, plan.request))

    def _head(self, view: RequestView, route: str) -> RequestHead:
        head = {
            "route": route,
            "model": f"{TRANSPORT}:{NAME}",
            "rendering": {
                "profile": self.profile,
                "placement": self._renderer.placement,
                "max_output_tokens": None,
                "parameters": {},
            },
            "system": view.system,
            "system_after": view.system_after,
            "tools": view.tools,
        }
        # Encoded and decoded once, so that it equals one that was read back from a journal.
        return msgspec.json.decode(_ENCODER.encode(head), type=RequestHead)

    async def complete(self, plan: Plan, on_text: OnText | None = None) -> Reply:
        """Answer with the next line of the script, at the pace of the rehearsal."""
        view, rendered = plan.request
        line = await self._next_line(view)
        if view.session_id:
            await self._write(line, on_text)
        return Reply(text=line.text, tool_calls=line.calls, usage=self._usage(view, rendered, line))

    async def _write(self, line: ScriptedReply, on_text: OnText | None) -> None:
        words = line.text.split(" ")
        for place, word in enumerate(words):
            if line.midway is not None and place == len(words) // 2:
                await line.midway()
            if on_text is not None:
                written = on_text(word if place == 0 else f" {word}")
                if isinstance(written, Awaitable):
                    await written
            await self._pace.after_word()

    def _usage(self, view: RequestView, rendered: Rendered, line: ScriptedReply) -> Usage:
        last = self._windows.get(view.session_id)
        self._windows[view.session_id] = view.window
        broken = Break.COMPACTION if last is not None and last != view.window else None
        shared = share(self.profile, rendered.parts, rendered.body, broken=broken)
        written = "".join((line.text, *(msgspec.json.encode(one.args).decode() for one in line.calls)))
        return Usage(
            prompt_tokens=round(shared.tokens),
            cached_tokens=round(shared.read),
            written_tokens=round(shared.written),
            output_tokens=estimated_tokens(written),
        )


def unanswered(view: RequestView) -> Iterator[Mapping[str, Any]]:
    """The messages after the last reply, the newest first."""
    for message in reversed(view.messages):
        if message["role"] == "assistant":
            return
        yield message
