"""Render a page as one HTML file. All text is escaped, and a policy in the file allows only whest's own script."""

import base64
import hashlib
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from whest import __version__
from whest.files import write_atomically
from whest.page.blocks import (
    Bars,
    Block,
    Cell,
    Chart,
    Choice,
    Column,
    Flame,
    Fold,
    Frame,
    Grid,
    Page,
    Records,
    Section,
    Table,
    Value,
)
from whest.page.charts import chart_json, interval_places
from whest.page.grids import grid_json
from whest.page.records import first_rows, records_json, safe_href
from whest.page.words import clean_text

TEMPLATES, VENDOR = Path(__file__).parent / "templates", Path(__file__).parent / "vendor"
PARTS = ("ticks", "words", "paint", "start")
CHART_SCRIPTS = (VENDOR / "uplot.js", *(TEMPLATES / f"chart_{part}.js" for part in PARTS))
OWN_FILES: dict[type, str] = {Records: "records", Grid: "grid"}
"""Blocks with a script and a style of their own. They use parts of the charts' script too."""


HARMLESS = re.compile(r"[\w .,:+−–×%-]*")
"""Text that is the same after cleaning and escaping, as most cells are."""
SMALLEST_BOX = 0.5
"""In thousandths of a flame's width; smaller frames are left out."""


@dataclass(frozen=True)
class ShownCell:
    text: str
    sort: str
    href: str | None
    tone: str
    is_numeric: bool
    is_wrapped: bool = False


def render(page: Page) -> str:
    """One self-contained HTML file. The chart library is in it only if the page needs it."""
    kinds = kinds_of(page.blocks)
    own = [name for kind, name in OWN_FILES.items() if kind in kinds]
    drawn = bool(own) or Chart in kinds
    used = [*(CHART_SCRIPTS if drawn else ()), *(TEMPLATES / f"{name}.js" for name in own)]
    scripts = [_read(path) for path in (TEMPLATES / "page.js", *used)]
    styles = [*([VENDOR / "uplot.css", TEMPLATES / "chart.css"] if drawn else []), TEMPLATES / "page.css"]
    styles += [TEMPLATES / f"{name}.css" for name in own]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            page=page,
            groups=group_charts(page.blocks),
            sections=[block for block in page.blocks if isinstance(block, Section)],
            scripts=[(Markup(script), _digest(script)) for script in scripts],
            style=Markup("\n".join(_read(path) for path in styles)),
            version=__version__,
        )
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def kinds_of(blocks: Any) -> set[type]:
    """The kinds of the blocks, and of the blocks inside them."""
    kinds: set[type] = set()
    for block in blocks:
        kinds.add(type(block))
        inner = [block.blocks] if isinstance(block, Section | Fold) else []
        inner += [own for _, own in block.options] if isinstance(block, Choice) else []
        kinds.update(*map(kinds_of, inner))
    return kinds


def save_page(page: Page, path: Path) -> Path:
    """Write the page, whole or not at all."""
    write_atomically(path, render(page).encode())
    return path


def group_charts(blocks: Any) -> list[tuple[str, list[Block]]]:
    """Put neighbouring charts of the same size into one group; every other block is alone in its group."""
    groups: list[tuple[str, list[Block]]] = []
    for block in blocks:
        kind = f"charts {block.size}" if isinstance(block, Chart) else type(block).__name__.lower()
        if isinstance(block, Chart) and groups and groups[-1][0] == kind:
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
    kinds = [(is_number, column.is_wrapped) for column, is_number in zip(columns, numeric, strict=True)]
    cells = [[_show(cell, *kind) for cell, kind in zip(row, kinds, strict=True)] for row in table.rows]
    return list(zip(columns, numeric, strict=True)), cells


def shown_records(block: Records) -> tuple[Table, Markup]:
    """The first records as a table, and all of them as data."""
    return first_rows(block), Markup(records_json(block))


def cells_html(rows: Sequence[Sequence[ShownCell]]) -> Markup:
    """The rows of a table's body, escaped. A template takes three times as long for a page's thousand cells."""
    return Markup("\n".join(f"<tr>{''.join(map(_cell_html, row))}</tr>" for row in rows))


def _cell_html(cell: ShownCell) -> str:
    shown = _escaped(cell.text)
    shown = f'<a href="{_escaped(cell.href)}">{shown}</a>' if cell.href else shown
    kind = f"{'number ' if cell.is_numeric else ''}{'wrap ' if cell.is_wrapped else ''}{_escaped(cell.tone)}"
    return f'<td class="{kind}" data-sort="{_escaped(cell.sort)}">{shown}</td>'


def _escaped(text: str) -> str:
    return text if HARMLESS.fullmatch(text) else str(escape(clean(text)))


def _show(cell: Value | Cell, is_numeric: bool, is_wrapped: bool) -> ShownCell:
    value = _sort_value(cell)
    sort = "" if value is None else repr(float(value)) if _is_number(value) else str(value)
    if isinstance(cell, Cell):
        return ShownCell(cell.text, sort, safe_href(cell.href), cell.tone, is_numeric, is_wrapped)
    return ShownCell(_format(cell), sort, None, "plain", is_numeric, is_wrapped)


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


def clean(text: Any) -> Any:
    """Every text of the template passes through here; what the template made itself stays."""
    return clean_text(text) if isinstance(text, str) and not isinstance(text, Markup) else text


def bar_widths(block: Bars) -> list[tuple[Any, float, list[tuple[Any, float]]]]:
    """Each bar with its length in per cent, and its parts with theirs."""
    full = block.full or max((bar.value for bar in block.bars), default=0) or 1

    def width(value: float) -> float:
        return round(100 * min(max(value / full, 0.0), 1.0), 2)

    return [(bar, width(bar.value), [(part, width(part.value)) for part in bar.parts]) for bar in block.bars]


def flame_boxes(block: Flame) -> tuple[list[tuple[Frame, int, float, float, str]], int]:
    """Each frame with its row, its place and width in thousandths, and as much of its name as fits; and the rows."""
    boxes: list[tuple[Frame, int, float, float, str]] = []
    whole = sum(max(frame.value, 0.0) for frame in block.frames) or 1.0

    def lay(frames: Sequence[Frame], row: int, left: float) -> None:
        for frame in frames:
            width = 1000 * max(frame.value, 0.0) / whole
            fits = int(width / 7)
            shown = frame.name if len(frame.name) <= fits else f"{frame.name[: fits - 1]}…" if fits > 3 else ""
            if width >= SMALLEST_BOX:
                boxes.append((frame, row, round(left, 2), round(width, 2), shown))
                lay(frame.parts, row + 1, left)
            left += width

    lay(block.frames, 0, 0.0)
    return boxes, max((row for _, row, _, _, _ in boxes), default=0) + 1


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=clean,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_compiled_templates(),
    )
    environment.filters |= {"anchor": anchor, "table": table_cells, "groups": group_charts, "bars": bar_widths}
    environment.filters["cells"] = cells_html
    environment.filters |= {"intervals": interval_places, "link": safe_href}
    environment.filters |= {"records": shown_records, "flame": flame_boxes}
    environment.filters["chart_json"] = lambda chart: Markup(chart_json(chart))
    environment.filters["grid_json"] = lambda grid: Markup(grid_json(grid))
    return environment


def _compiled_templates() -> FileSystemBytecodeCache | None:
    """Templates are compiled once and kept beside their source, as Python keeps modules; None where it couldn't."""
    folder = TEMPLATES / "__pycache__"
    if sys.dont_write_bytecode:
        return None
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None
