"""The blocks of a page. Every string is plain text, which rendering escapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

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
    is_wrapped: bool = False
    """Whether long text goes on in the next line; else the table becomes wider."""


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


Colour = Literal[
    "ink", "accent", "alarm", "muted", "series-3", "series-4", "series-5", "series-6", "series-7", "series-8"
]
"""Colours by name: the page's theme decides what they look like."""
SERIES: tuple[Colour, ...] = ("series-3", "series-4", "series-5", "series-6", "series-7", "series-8")
COLOURS: tuple[Colour, ...] = ("accent", "alarm", *SERIES)
"""The colours of curves, in order."""


@dataclass(frozen=True)
class Axis:
    """An axis of a chart. If all its values are positive, the reader can change between log and linear."""

    label: str
    is_log: bool = False
    is_integer: bool = False
    """Ticks only at whole numbers."""
    is_time: bool = False
    """The values are seconds since 1970 (UTC), and ticks are dates."""
    low: float | None = None
    high: float | None = None
    """The ends that are shown at first; None: those of the data."""


@dataclass(frozen=True)
class Series:
    """Points of a chart. A `None` in `y` breaks a line, so one series can have several strands."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    kind: Literal["line", "points", "both", "steps"] = "both"
    colour: Colour = "accent"
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    """The ends of each point's error, or nothing."""
    is_band: bool = False
    """Show the errors as a band instead of bars."""
    names: Sequence[str] = ()
    """The name of each point, as "sara-perez"; shown when the pointer is over it."""
    notes: Sequence[str] = ()
    """A second word about each point, as "neuron 17"."""
    is_dashed: bool = False
    is_faint: bool = False
    """Thin and pale: for many points that are only the background."""


@dataclass(frozen=True)
class Guide:
    """A straight line across the chart: vertical at `x`, or horizontal at `y`."""

    name: str
    x: float | None = None
    y: float | None = None
    colour: Colour = "ink"
    is_dashed: bool = True


@dataclass(frozen=True)
class Chart:
    """A chart that the reader can point at, zoom and read as a table. `alt` says what it shows in a sentence."""

    x: Axis
    y: Axis
    series: Sequence[Series]
    alt: str
    caption: str = ""
    guides: Sequence[Guide] = ()
    size: Literal["normal", "wide"] = "normal"
    """At most two or one of these sizes are placed side by side."""


@dataclass(frozen=True)
class Bar:
    """A bar with its name, and the text beside it. `parts` are shown when the reader opens it."""

    name: str
    value: float
    text: str
    colour: Colour = "accent"
    parts: Sequence["Bar"] = ()


@dataclass(frozen=True)
class Bars:
    """Horizontal bars. A bar's length is its value over `full`, or over the largest value."""

    bars: Sequence[Bar]
    caption: str = ""
    full: float | None = None


@dataclass(frozen=True)
class Frame:
    """A part of a whole, with the parts it is made of."""

    name: str
    value: float
    text: str
    parts: Sequence["Frame"] = ()
    colour: Colour = "accent"


@dataclass(frozen=True)
class Flame:
    """Nested parts as rows of boxes: a box is as wide as its value, and its own parts stand below it."""

    frames: Sequence[Frame]
    caption: str = ""


@dataclass(frozen=True)
class Interval:
    """A value with the two ends of its error, and the text beside it."""

    name: str
    value: float
    low: float
    high: float
    text: str
    colour: Colour = "accent"


@dataclass(frozen=True)
class Intervals:
    """Values with their errors, one below the other on one scale. `mark` is a value to compare with."""

    rows: Sequence[Interval]
    caption: str = ""
    is_log: bool = False
    mark: float | None = None


@dataclass(frozen=True)
class Choice:
    """Blocks of which the reader sees one part at a time, chosen by name."""

    label: str
    options: Sequence[tuple[str, Sequence["Block"]]]


@dataclass(frozen=True)
class Record:
    """A row of `Records`. A cell that is a list of words can be found by each of them."""

    key: str
    """A name that stays the same: the reader's star and note belong to it."""
    cells: Sequence[Value | Cell | Sequence[str]]


@dataclass(frozen=True)
class Records:
    """Many rows, shown page by page: the reader filters, sorts and stars them and writes notes.

    Stars and notes stay in the reader's browser, under the name `store`. Without JavaScript the first rows are a table.
    """

    columns: Sequence[Column]
    rows: Sequence[Record]
    caption: str
    store: str
    filters: Sequence[str] = ()
    """Names of columns with a list to choose from."""
    date: str | None = None
    """The name of the column with dates (as 2026-11-18), for the filter by date."""


@dataclass(frozen=True)
class Quantity:
    """A number for every place of a `Grid`. NaN: not known there."""

    name: str
    values: Float[np.ndarray, "row column"]
    kind: Literal["size", "error", "noise"]
    """Quantities of one kind have one scale of colours. An error has two directions, the others begin at 0."""


@dataclass(frozen=True)
class Grid:
    """Two maps of the same places side by side, each of a quantity that the reader chooses.

    `group` is each place's number among `groups`. The reader can sort each row by group, then by the first quantity.
    """

    row: str
    column: str
    """What a row and a column are called, as layer and neuron."""
    quantities: Sequence[Quantity]
    groups: Sequence[str]
    group: Int[np.ndarray, "row column"]
    shown: tuple[int, int]
    """The quantities that are shown at first."""
    alt: str
    caption: str = ""


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

    rows: Sequence[tuple[str, str | Cell]]
    caption: str = ""


@dataclass(frozen=True)
class Fold:
    """Blocks that the reader sees after a click on the title."""

    title: str
    blocks: Sequence["Block"]


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: Sequence["Block"]
    note: str = ""


Block = (
    Headline
    | Gauge
    | Table
    | Records
    | Grid
    | Chart
    | Bars
    | Flame
    | Intervals
    | Choice
    | Text
    | Code
    | Facts
    | Fold
    | Section
)


@dataclass(frozen=True)
class Page:
    """A whole page. It contains no absolute paths, so the file can be moved."""

    title: str
    subtitle: str
    blocks: Sequence[Block]
    kind: str = "run"
    """The word above the title: run, sweep, comparison, leaderboard, gallery."""
    is_wide: bool = False
    """Whether it uses up to 1280 pixels, for tables with many columns."""
    reload_s: int | None = None
    """The page is written again and again: the browser loads it anew after so many seconds."""
