"""`workspace_anchor`: when it fires, and what it says."""

from sideband.providers.context import MountedRoot, MountMode, WorkspaceAnchor
from sideband.providers.workspace_anchor import PROVIDER
from tests.unit.providers.contexts import a_context, said


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
