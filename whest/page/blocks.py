"""The blocks of a page. Every string is plain text, which rendering escapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tone = Literal["plain", "good", "warn", "bad"]
Value = str | float | int | bool | None


@dataclass(frozen=True)
class Fact:
    """A figure with its name, and a short note that explains it."""

    label: str
    value: str
    note: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True)
class Headline:
    """The main figure of the page, and a few figures beside it."""

    label: str
    value: str
    note: str = ""
    tone: Tone = "plain"
    facts: Sequence[Fact] = ()


@dataclass(frozen=True)
class Gauge:
    """A share that should not exceed 1. Below `floor`, a smaller share gains nothing."""

    label: str
    share: float
    floor: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    note: str = ""
    """An explanation of the name, shown when the pointer is over it."""
    is_numeric: bool | None = None
    """Whether to align it to the right; None: decided from the cells."""


@dataclass(frozen=True)
class Cell:
    """A cell with its own sort value, link or colour."""

    text: str
    sort: Value = None
    """The value to sort by; None: the text itself."""
    href: str | None = None
    """A relative path, or an http(s) address."""
    tone: Tone = "plain"


@dataclass(frozen=True)
class Table:
    """A table. The reader can sort it by any column."""

    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Value | Cell]]
    caption: str


@dataclass(frozen=True)
class Picture:
    """A chart of matplotlib, or its SVG. `alt` describes it for readers who can't see it."""

    figure: "Figure | str"
    alt: str
    caption: str = ""
    size: Literal["small", "normal", "wide"] = "normal"
    """At most four, two or one of these sizes are placed side by side."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Code:
    """Text to copy, or program output. A folded block opens with a click."""

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
    """A whole page. It contains no absolute paths, so the file can be moved."""

    title: str
    subtitle: str
    blocks: Sequence[Block]
    kind: str = "run"
    """The word above the title: run, sweep, comparison, leaderboard."""
