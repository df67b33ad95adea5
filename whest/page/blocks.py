"""What a page is made of. Every string here is plain text: rendering escapes it, wherever it came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.figure import Figure

Tone = Literal["plain", "good", "warn", "bad"]
Value = str | float | int | bool | None


@dataclass(frozen=True)
class Fact:
    """A figure with its name, and a word on how to read it."""

    label: str
    value: str
    note: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True)
class Headline:
    """The one figure the page is about, and the few that stand beside it."""

    label: str
    value: str
    note: str = ""
    tone: Tone = "plain"
    facts: Sequence[Fact] = ()


@dataclass(frozen=True)
class Gauge:
    """A share of something that ought not to pass 1; below `floor` less makes no difference."""

    label: str
    share: float
    floor: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A table's column. What isn't told is found from the cells: numbers stand to the right."""

    name: str
    note: str = ""
    """Shown where the column's name alone would not be understood."""
    is_numeric: bool | None = None


@dataclass(frozen=True)
class Cell:
    """A cell that reads otherwise than it sorts, links somewhere, or stands out."""

    text: str
    sort: Value = None
    """What it sorts by; the text itself where this is null."""
    href: str | None = None
    """A relative path, or an http(s) address."""
    tone: Tone = "plain"


@dataclass(frozen=True)
class Table:
    """Rows under columns; the reader sorts them by any column."""

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Value | Cell]]
    caption: str


@dataclass(frozen=True)
class Picture:
    """A chart, drawn by matplotlib (or the SVG of one). `alt` says what a reader who can't see it should know."""

    figure: Figure | str
    alt: str
    caption: str = ""
    size: Literal["small", "normal", "wide"] = "normal"
    """How many stand beside each other where there is room: four, two, one."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Code:
    """Text to copy, or output as it came. A folded one opens on a click."""

    text: str
    caption: str = ""
    is_folded: bool = False


@dataclass(frozen=True)
class Facts:
    """Names and values, one below the other."""

    rows: Sequence[tuple[str, str]]
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: Sequence["Block"]
    note: str = ""


Block = Headline | Gauge | Table | Picture | Text | Code | Facts | Section


@dataclass(frozen=True)
class Page:
    """A whole page. It names no folder, so that the file may lie anywhere."""

    title: str
    subtitle: str
    blocks: Sequence[Block]
    kind: str = "run"
    """The word above the title: run, sweep, comparison, leaderboard."""
