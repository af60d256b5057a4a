"""Sessions of every model in a store, and what `sideband render` tells of them."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

import sideband as sb
from sideband.cli.render import render
from sideband.core.messages import ToolCall
from sideband.loop.hooks import Hooks
from sideband.models.rendered import RenderedModel
from sideband.providers.registry import Registry
from sideband.render.profiles import Placement
from sideband.runtime.session import Session
from sideband.testing import FakeClock
from tests.loop_builders import ATool
from tests.loopback import Loopback, a_loopback
from tests.model_kinds import ModelKind, thoughts

Captured = pytest.CaptureFixture[str]
CALLS: Final = (ToolCall(id="c1", name="work", args={"path": "ä.py"}), ToolCall(id="c2", name="work"))


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 's.db'}"


async def a_run(session: Session, task: str | None, model: Any, **options: Any) -> None:  # noqa: ANN401 - those of agent_loop
    """One run of nothing but the model and a tool; its failure is no matter."""
    defaults: dict[str, Any] = {"tools": [ATool()], "system": "Be brief.", "system_appendix": "In English."}
    alone: dict[str, Any] = {"hooks": Hooks(), "providers": Registry(), "clock": FakeClock(), "reminders": False}
    await sb.agent_loop(task, session=session, model=model, **(defaults | alone | options))


async def a_talk(session: Session, service: Loopback, kind: ModelKind, **options: Any) -> RenderedModel[Any]:  # noqa: ANN401 - those of the model
    """Three turns with calls and reminders of every kind; one is taken back, and one waits in the end."""
    service.will_answer(
        kind.says("I'll look.", CALLS, **(thoughts(kind) if options.pop("thinks", True) else {})),
        kind.says("Done."),
        kind.says("Yes."),
    )
    model = kind.model(service, **options)
    await session.remind("The build is <red> & “broken”. 😀", ttl_turns=1)
    await session.remind("Mind the tests.", ttl_turns=3)
    kept = await session.remind("Use tabs.")
    await a_run(session, "Mend it.", model)
    await session.clear(id=kept.reminder_id)
    await session.remind("Look out.", ttl_turns=2)
    await a_run(session, "Again?", model)
    return model


def document(capsys: Captured, store_url: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the options of the command
    assert render(store=store_url, json=True, **options) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refusal(capsys: Captured, store_url: str, **options: Any) -> str:  # noqa: ANN401 - the same
    assert render(store=store_url, **options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    sentence, *code = captured.err.splitlines(keepends=True)
    assert [line[:6] for line in code] in ([], ["code: "])
    return sentence


async def plain_bodies(store_url: str, kind: ModelKind, placement: Placement | None = None) -> list[bytes]:
    async with a_loopback() as service, sb.open_store(store_url) as store:
        await a_talk(await store.session("fix-login"), service, kind, placement=placement, thinks=False)
    return service.bodies
