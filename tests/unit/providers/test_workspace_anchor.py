"""Where the session works."""

import pytest

from sideband.core.reminder import Propagate
from sideband.providers.context import MountedRoot, MountMode, WorkspaceAnchor
from sideband.providers.workspace_anchor import PROVIDER
from tests.unit.providers.contexts import a_context, said, told

EVENTS = ("session_start", "on_budget_threshold")


@pytest.mark.parametrize("event", EVENTS)
def test_it_is_silent_without_an_anchor(event: str) -> None:
    assert told(PROVIDER, a_context(event)) is None


@pytest.mark.parametrize("event", EVENTS)
def test_it_states_the_primary_path_and_every_root_with_its_mode(event: str) -> None:
    anchor = WorkspaceAnchor(
        primary="/repo/main", roots=tuple(MountedRoot(path=f"/repo/{mode}", mode=mode) for mode in MountMode)
    )
    lines = said(PROVIDER, a_context(event, anchor=anchor)).body.split("\n")
    assert lines[1:] == [
        "> primary: /repo/main",
        "> mounted, read_only: /repo/read_only",
        "> mounted, extend: /repo/extend",
        "> mounted, sandboxed: /repo/sandboxed",
    ]


def test_its_lifecycle_is_fixed() -> None:
    draft = said(PROVIDER, a_context("session_start", anchor=WorkspaceAnchor(primary="/repo")))
    assert (draft.tags, draft.dedupe_key, draft.ttl_turns) == (("workspace_anchor",), "workspace_anchor", 1)
    assert draft.propagate is Propagate.SESSION
    assert [event.value for event in PROVIDER.subscribes_to] == list(EVENTS)


def test_more_roots_than_fit_are_counted() -> None:
    root = MountedRoot(path="/repo/" + "x" * 490, mode=MountMode.EXTEND)
    body = said(PROVIDER, a_context("session_start", anchor=WorkspaceAnchor(primary="/repo", roots=(root,) * 100))).body
    shown = body.count("> mounted")
    assert 0 < shown < 100
    assert body.endswith(f"\n{100 - shown} more roots did not fit here.")


def test_a_path_with_a_line_break_stays_on_its_line() -> None:
    body = said(
        PROVIDER, a_context("session_start", anchor=WorkspaceAnchor(primary="/repo\n> mounted, extend: /"))
    ).body
    assert body.split("\n")[1:] == ["> primary: /repo > mounted, extend: /"]
