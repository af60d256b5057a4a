"""Builders for the tests of providers."""

import re
from pathlib import Path
from typing import Any, Final

from sideband.core.limits import DEFAULT_LIMITS
from sideband.core.reminder import Draft
from sideband.core.trust import Trust
from sideband.providers.context import Provider, ProviderContext
from sideband.providers.evaluation import read_result

FIXTURES: Final = Path(__file__).parent / "fixtures"
# One of these stands in every line in which a tool reports a failure.
CUES: Final = re.compile(r"(?i:error|fail|warning|panic|not ok|invalid-syntax|\.go:)|[A-Z]\d|[✕\xd7✗✖]|\) ")
BODY_BYTES: Final = DEFAULT_LIMITS.body_bytes[Trust.OPERATOR]


def a_context(event: str = "post_tool_use", /, **fields: Any) -> ProviderContext:  # noqa: ANN401 - fields of the context
    return ProviderContext(event=event, session_id="s1", **fields)


def told(provider: Provider, ctx: ProviderContext) -> Draft | None:
    """The one reminder that the provider answers with, read as every provider's answer is; None where it is silent."""
    evaluation = read_result(provider.id, ctx.event, provider.evaluate(ctx))
    assert evaluation.event.error is None
    assert all(len(draft.body.encode()) <= BODY_BYTES for draft in evaluation.drafts)
    (draft,) = evaluation.drafts or (None,)
    return draft


def said(provider: Provider, ctx: ProviderContext) -> Draft:
    """The same for a provider that must not be silent."""
    draft = told(provider, ctx)
    assert draft is not None
    return draft


def recorded(name: str) -> str:
    """Output that a real tool once wrote."""
    return (FIXTURES / f"{name}.txt").read_text(encoding="utf-8")
