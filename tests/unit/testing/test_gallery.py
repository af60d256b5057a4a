"""The gallery: every reminder for every wire and placement."""

from sideband.render.profiles import Placement, Wire
from sideband.testing.gallery import EXAMPLES, gallery


def test_there_is_a_page_for_every_wire_and_placement() -> None:
    titles = [page.splitlines()[0] for page in gallery()]
    assert titles == [f"== {wire}, {placement} ==" for wire in EXAMPLES for placement in Placement]
    assert list(EXAMPLES) == list(Wire)


def test_every_reminder_is_on_every_page() -> None:
    for page in gallery():
        for body in ("The build is red.", "src/auth.py changed", "in English.", "a new step.", "3 tests fail."):
            assert body in page
