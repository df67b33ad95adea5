"""Records as data for the page's script, and the first of them as a plain table."""

import re
from collections.abc import Sequence
from typing import Any

from whest.page.blocks import Cell, Column, Records, Table, Value
from whest.page.charts import script_json
from whest.page.words import clean_text

SHOWN, WITHOUT_SCRIPT = 50, 20
"""Rows per page of records, and rows of the table that stands there without JavaScript."""
LONGEST = 300
"""Characters of a cell."""


def records_json(block: Records) -> str:
    """Records as JSON that is safe inside a <script> element."""
    columns = [
        {
            "name": _words(column.name),
            "note": _words(column.note),
            "number": bool(column.is_numeric),
            "filter": column.name in block.filters,
            "date": column.name == block.date,
        }
        for column in block.columns
    ]
    rows = [[_words(record.key), *map(_cell, record.cells)] for record in block.rows]
    document = {"columns": columns, "rows": rows, "store": _words(block.store), "size": SHOWN}
    return script_json(document)


def first_rows(block: Records) -> Table:
    """The first records as a table."""
    rows = [[_flat(cell) for cell in record.cells] for record in block.rows[:WITHOUT_SCRIPT]]
    columns = [Column(column.name, column.note, bool(column.is_numeric)) for column in block.columns]
    return Table(columns, rows, block.caption)


def _flat(cell: Value | Cell | Sequence[str]) -> Value | Cell:
    return cell if cell is None or isinstance(cell, str | int | float | Cell) else ", ".join(cell)


def _cell(cell: Value | Cell | Sequence[str]) -> Any:
    """A cell in its shortest form: text, words, or an object with text (t), sort value (s), link (h) and tone (o)."""
    if isinstance(cell, str):
        return _words(cell)
    if isinstance(cell, Cell):
        made: dict[str, Any] = {"t": _words(cell.text)}
        if cell.sort is not None:
            made["s"] = _words(cell.sort) if isinstance(cell.sort, str) else cell.sort
        if cell.href is not None:
            made["h"] = safe_href(cell.href)
        if cell.tone != "plain":
            made["o"] = cell.tone
        return made if len(made) > 1 else made["t"]
    return cell if cell is None or isinstance(cell, int | float) else [_words(word) for word in cell]


def safe_href(href: str | None) -> str | None:
    """Only links to files and web pages are allowed; a scheme such as javascript: is dropped."""
    if href is None or not href.isprintable():
        return None
    scheme = re.match(r"\s*([^/?#]*?):", href)
    return href if scheme is None or scheme[1].lower() in ("http", "https") else None


def _words(text: str) -> str:
    words = text if text.isprintable() else clean_text(text)
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
