"""How much a run may use, and when it is told that it nears the end."""

from bisect import bisect_right
from typing import Any, Final

import msgspec

from sideband.core.usage import Usage

# Shares of a budget that are told, each once until the share falls below it again.
THRESHOLDS: Final = (0.70, 0.85, 0.95)
_REACHED: Final = (0.0, *THRESHOLDS)


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one run; None is no bound."""

    max_turns: int | None = 50
    max_tokens: int | None = None


class Meter:
    """What a run has used so far, beside its bounds."""

    def __init__(self, budget: Budget, *, context_window: int | None) -> None:
        self.budget = budget
        self.context_window = context_window
        self.turns = 0
        self.usage = Usage()
        self.prompt_tokens = 0
        limits = (("context", context_window), ("turns", budget.max_turns), ("tokens", budget.max_tokens))
        self._limits = [(name, limit) for name, limit in limits if limit]
        self._told: dict[str, float] = {}
        # The bound that is reached; None while the run may go on.
        self.spent = self._reached()

    def count(self, usage: Usage) -> None:
        """One more turn was committed."""
        self.turns += 1
        self.prompt_tokens = usage.prompt_tokens
        before = self.usage
        self.usage = Usage(
            prompt_tokens=before.prompt_tokens + usage.prompt_tokens,
            cached_tokens=before.cached_tokens + usage.cached_tokens,
            written_tokens=before.written_tokens + usage.written_tokens,
            output_tokens=before.output_tokens + usage.output_tokens,
        )
        self.spent = self._reached()

    @property
    def tokens(self) -> int:
        return self.usage.prompt_tokens + self.usage.output_tokens

    def _reached(self) -> str | None:
        if self.budget.max_turns is not None and self.turns >= self.budget.max_turns:
            return "max_turns"
        if self.budget.max_tokens is not None and self.tokens >= self.budget.max_tokens:
            return "max_tokens"
        return None

    def crossed(self) -> list[dict[str, Any]]:
        """What `on_budget_threshold` is told now: each threshold that was reached since the last time."""
        news: list[dict[str, Any]] = []
        for name, limit in self._limits:
            used = self.prompt_tokens if name == "context" else self.turns if name == "turns" else self.tokens
            told = self._told.get(name, 0.0)
            # Far from any threshold, as in nearly every turn.
            if not told and used < THRESHOLDS[0] * limit:
                continue
            self._told[name] = reached = _REACHED[bisect_right(THRESHOLDS, used / limit)]
            if reached > told:
                news.append(self._payload(name, used, limit, reached))
        return news

    def _payload(self, name: str, used: int, limit: int, reached: float) -> dict[str, Any]:
        payload: dict[str, Any] = {"budget": name, "used": used, "limit": limit, "threshold": reached}
        payload["ratio"] = used / limit
        if name == "context":
            payload |= {"prompt_tokens": used, "context_window": limit}
        return payload
