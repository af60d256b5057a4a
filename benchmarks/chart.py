"""The chart of what placements cost: `python -m benchmarks.chart` writes the one in the documentation."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from xml.sax.saxutils import escape

from benchmarks.placements import Load, priced
from benchmarks.ways import ANTHROPIC, GROUPS

PICTURE: Final = Path(__file__).parents[1] / "docs" / "images" / "placement-cost.svg"

# A reminder is in every request: each lives as long as it takes until the next.
LOADS: Final[Mapping[str, Load]] = MappingProxyType(
    {"1 call per turn": Load(60, 3, 1), "12 calls per turn": Load(60, 3, 12)}
)
_COLOURS: Final = ("#4c78a8", "#f58518")
_WIDTH: Final = 860
_LEFT: Final = 290
_TOP: Final = 64
_ROW: Final = 40
_BAR: Final = 14
_UNIT: Final = 52
"""Pixels for a cost of 1."""


def drawn() -> str:
    """The whole picture."""
    costs = {
        label: {price.way.name: price.relative for price in priced(GROUPS[0], load)} for label, load in LOADS.items()
    }
    height = _TOP + _ROW * len(ANTHROPIC) + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(16, 24, "Input cost of 60 requests with a reminder in each, beside none (Anthropic's rules)", size=15),
        *_legend(),
        *_rows(costs),
        f'<path d="M{_LEFT + _UNIT} {_TOP}V{height - 20}" stroke="#888888" stroke-dasharray="3 3"/>',
        _text(_LEFT + _UNIT - 22, height - 6, "no reminders", size=11),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _legend() -> Iterator[str]:
    for number, (label, colour) in enumerate(zip(LOADS, _COLOURS, strict=True)):
        x = _LEFT + number * 160
        yield f'<rect x="{x}" y="38" width="12" height="12" fill="{colour}"/>'
        yield _text(x + 18, 49, label, size=12)


def _rows(costs: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    for number, way in enumerate(ANTHROPIC):
        y = _TOP + number * _ROW
        yield _text(_LEFT - 10, y + 20, way.name, anchor="end", weight="bold" if way.ours else "normal")
        for place, (label, colour) in enumerate(zip(LOADS, _COLOURS, strict=True)):
            cost = costs[label][way.name]
            top = y + 4 + place * (_BAR + 2)
            yield f'<rect x="{_LEFT}" y="{top}" width="{cost * _UNIT:.1f}" height="{_BAR}" fill="{colour}"/>'
            yield _text(_LEFT + cost * _UNIT + 6, top + 11, f"{cost:.3f}", size=11)


def _text(x: float, y: float, text: str, *, size: int = 13, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="#222222">'
        f"{escape(text)}</text>"
    )


def main() -> None:
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(), encoding="utf-8")
    print(f"{PICTURE} is written")


if __name__ == "__main__":
    main()
