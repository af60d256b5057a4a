"""A person at a browser: opens the page, and notes everything that the browser complains about."""

import re
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from tests.programs import ROOT

AXE: Final = ROOT / "build" / "studio" / "node_modules" / "axe-core" / "axe.min.js"
# How long something is waited for that has to come, in milliseconds.
PATIENCE: Final = 20_000
expect.set_options(timeout=PATIENCE)
SCREENSHOTS: Final = ROOT / "build" / "studio-failures"
ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP: Final = MappingProxyType({"width": 1440, "height": 900})

# Reported to Python through a binding, because a page that is left forgets what it has seen.
_WATCH: Final = """
document.addEventListener("securitypolicyviolation", (event) => {
  report(`${event.violatedDirective} blocked ${event.blockedURI} ${event.sample} at ${event.sourceFile}:${event.lineNumber}`);
});
"""
_REPORT: Final = "studioReport"


class Visitor:
    """One browser profile with one page. `problems` are errors of scripts, of the console, and of the content policy."""

    def __init__(self, browser: Browser, *, script: Path | None = None, **options: Any) -> None:  # noqa: ANN401 - Playwright's
        self.context: BrowserContext = browser.new_context(**{"viewport": dict(DESKTOP), **options})
        self.context.set_default_timeout(PATIENCE)
        self.problems: list[str] = []
        self._expected: list[re.Pattern[str]] = []
        self.context.expose_binding(_REPORT, lambda _source, text: self.problems.append(f"policy: {text}"))
        self.context.add_init_script(_WATCH.replace("report(", f"window.{_REPORT}("))
        if script is not None:
            self.context.add_init_script(path=script)
        self.page: Page = self.new_page()

    def new_page(self) -> Page:
        """A further tab."""
        page = self.context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(f"script: {error}"))
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text} ({message.location.get('url', '')})")

    def expects(self, *patterns: str) -> None:
        """What this test provokes, such as a failed request, is no problem."""
        self._expected += map(re.compile, patterns)

    def unexpected(self) -> Sequence[str]:
        """The problems that the test did not provoke."""
        return [text for text in self.problems if not any(pattern.search(text) for pattern in self._expected)]

    def settle(self) -> None:
        """Let the browser report what it still has to."""
        if not self.page.is_closed():
            self.page.wait_for_timeout(50)

    def keep_screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        if not self.page.is_closed():
            self.page.screenshot(path=SCREENSHOTS / f"{name}.png", timeout=5_000)
