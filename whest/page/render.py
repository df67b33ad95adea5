"""Render a page as one HTML file. All text is escaped, and a policy in the file allows only whest's own script."""

import base64
import hashlib
import math
import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from whest import __version__
from whest.files import write_atomically
from whest.page.blocks import Block, Cell, Column, Gauge, Page, Picture, Section, Table, Value
from whest.page.charts import draw_gauge, svg_of

TEMPLATES = Path(__file__).parent / "templates"
BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
"""These characters change the direction of text, so that one name could look like another."""


@dataclass(frozen=True)
class ShownCell:
    text: str
    sort: str
    href: str | None
    tone: str
    is_numeric: bool


def render(page: Page) -> str:
    """One self-contained HTML file."""
    script, style = ((TEMPLATES / name).read_text() for name in ("page.js", "page.css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            groups=group_pictures(page.blocks),
            sections=[block for block in page.blocks if isinstance(block, Section)],
            script=Markup(script),
            script_hash=digest,
            style=Markup(style),
            version=__version__,
            pictures=_Pictures(),
        )
    )


def save_page(page: Page, path: Path) -> Path:
    """Write the page, whole or not at all."""
    write_atomically(path, render(page).encode())
    return path


def group_pictures(blocks: Any) -> list[tuple[str, list[Block]]]:
    """Put neighbouring pictures of the same size into one group; every other block is alone in its group."""
    groups: list[tuple[str, list[Block]]] = []
    for block in blocks:
        kind = f"pictures {block.size}" if isinstance(block, Picture) else type(block).__name__.lower()
        if isinstance(block, Picture) and groups and groups[-1][0] == kind:
            groups[-1][1].append(block)
        else:
            groups.append((kind, [block]))
    return groups


def anchor(title: str) -> str:
    """A heading's id."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"


def table_cells(table: Table) -> tuple[list[tuple[Column, bool]], list[list[ShownCell]]]:
    """The columns, each with whether it is numeric, and the cells with their text and sort value."""
    columns = [column if isinstance(column, Column) else Column(column) for column in table.columns]
    wrong = next((row for row in table.rows if len(row) != len(columns)), None)
    if wrong is not None:
        raise ValueError(f"a row of {len(wrong)} cells under {len(columns)} columns: {wrong}")
    sorts = [[_sort_value(row[i]) for row in table.rows] for i in range(len(columns))]
    numeric = [
        column.is_numeric
        if column.is_numeric is not None
        else any(_is_number(v) for v in values) and all(v in (None, "") or _is_number(v) for v in values)
        for column, values in zip(columns, sorts, strict=True)
    ]
    cells = [[_show(cell, is_number) for cell, is_number in zip(row, numeric, strict=True)] for row in table.rows]
    return list(zip(columns, numeric, strict=True)), cells


def _show(cell: Value | Cell, is_numeric: bool) -> ShownCell:
    value = _sort_value(cell)
    sort = "" if value is None else repr(float(value)) if _is_number(value) else str(value)
    if isinstance(cell, Cell):
        return ShownCell(cell.text, sort, _safe_href(cell.href), cell.tone, is_numeric)
    return ShownCell(_format(cell), sort, None, "plain", is_numeric)


def _format(value: Value) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**7 else f"{value:.3g}"
    return f"{value:#.3g}" if isinstance(value, float) else value


def _sort_value(cell: Value | Cell) -> Value:
    if not isinstance(cell, Cell):
        return cell
    return cell.text if cell.sort is None else cell.sort


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _safe_href(href: str | None) -> str | None:
    """Only links to files and web pages are allowed; a scheme such as javascript: is dropped."""
    if href is None or not href.isprintable():
        return None
    scheme = re.match(r"\s*([^/?#]*?):", href)
    return href if scheme is None or scheme[1].lower() in ("http", "https") else None


def clean(text: Any) -> Any:
    """Replace control characters, surrogates and direction marks by the replacement character."""
    if not isinstance(text, str) or isinstance(text, Markup):
        return text
    return "".join("\ufffd" if _is_unwritable(char) else char for char in text)


def _is_unwritable(char: str) -> bool:
    return (char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs")) or char in BIDI


class _Pictures:
    """Numbers the pictures of a page: so their ids differ, and the same page always gives the same bytes."""

    def __init__(self) -> None:
        self._n = 0

    def svg(self, block: Picture | Gauge) -> Markup:
        self._n += 1
        if isinstance(block, Picture):
            return Markup(svg_of(block.figure, clean(block.alt), self._n))
        return Markup(svg_of(draw_gauge(block.share, block.floor), clean(gauge_words(block)), self._n))


def gauge_words(gauge: Gauge) -> str:
    floor = "" if gauge.floor is None else f"; the floor is at {gauge.floor:.0%}"
    return f"{gauge.label}: {gauge.share:.2%}{floor}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"anchor": anchor, "table": table_cells, "groups": group_pictures}
    return environment
