"""Makes the pictures of the documentation, `docs/images/studio-*.png`, from a rehearsal. Run by hand after the page has changed:

    make test-studio
    .venv/bin/python -m tests.studio.screenshots

The rehearsal is played once, at the pace for people, until its review agent has spoken.
With Pillow installed the pictures get a palette, which makes them less than half as large.
"""

import shutil
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, expect, sync_playwright

from tests.programs import ROOT
from tests.studio.served import Served
from tests.studio.studio_page import StudioPage
from tests.studio.visitor import ARGUMENTS, Visitor

IMAGES: Final = ROOT / "docs" / "images"
DESKTOP: Final = {"width": 1440, "height": 1000}
NARROW: Final = {"width": 400, "height": 800}
# While the reply of this turn is written, the model has just been told what the review agent says.
MOMENT: Final = 9
SECONDS: Final = 180.0


def until_moment(server: Served) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        timeline = server.timeline(server.rehearsal)
        if timeline.get("openTurn") == MOMENT and any(row["state"] == "queued" for row in timeline["reminders"]):
            return
        time.sleep(0.05)
    raise SystemExit(f"turn {MOMENT} of the rehearsal did not come")


def opened(browser: Browser, server: Served, **options: Any) -> StudioPage:  # noqa: ANN401 - Playwright's
    """A page that follows the rehearsal."""
    studio = StudioPage(Visitor(browser, reduced_motion="reduce", **options))
    studio.page.goto(server.new_link())
    studio.until_loaded()
    studio.show(server.rehearsal)
    return studio


def choose_peer(studio: StudioPage) -> None:
    """Select the reminder of the review agent, which did not get all that it asked for."""
    studio.page.evaluate(
        """async () => {
          const { app, keyOf } = await import("/static/state.js");
          const { select } = await import("/static/actions.js");
          const row = app.timeline.reminders.find((each) => each.sender?.trust === "peer");
          if (row) select(keyOf(row));
        }"""
    )


def take(studio: StudioPage, name: str) -> None:
    path = IMAGES / f"studio-{name}.png"
    studio.page.screenshot(path=path, animations="disabled")
    if find_spec("PIL") is not None:
        image: Any = import_module("PIL.Image")
        with image.open(path) as picture:
            # This method keeps colours that occur in few places, such as those of marks.
            few = picture.convert("RGB").quantize(256, method=image.Quantize.MAXCOVERAGE, kmeans=1, dither=0)
        few.save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} KB")  # noqa: T201 - a report


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="sideband-") as folder,
        Served(Path(folder), "--rehearsal") as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(ARGUMENTS))
        # All of them are open before the moment, so that they show the same.
        pages = {scheme: opened(browser, server, viewport=DESKTOP, color_scheme=scheme) for scheme in ("light", "dark")}
        narrow = opened(browser, server, viewport=NARROW, color_scheme="light")
        inspector = opened(browser, server, viewport=DESKTOP, color_scheme="light")
        until_moment(server)
        inspector.show(server.rehearsal, request=MOMENT)
        for studio in pages.values():
            choose_peer(studio)
        # Some words of the reply.
        expect(narrow.transcript.locator(".turn.open .said")).to_contain_text("They pass. A peer")
        for name, studio in (*pages.items(), ("narrow", narrow), ("inspector", inspector)):
            take(studio, name)
        browser.close()


if __name__ == "__main__":
    main()
