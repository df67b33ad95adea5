"""Grids as data for the page's script: numbers as base64 of little-endian float32, which is short and exact."""

import base64

import numpy as np

from whest.page.blocks import Grid
from whest.page.charts import script_json
from whest.page.words import label

MOST_PLACES = 2**17
"""Of one grid. A place takes 5.4 bytes per quantity."""


def grid_json(grid: Grid) -> str:
    """A grid as JSON that is safe inside a <script> element."""
    shapes = {grid.group.shape, *(quantity.values.shape for quantity in grid.quantities)}
    if len(shapes) > 1 or grid.group.ndim != 2:
        raise ValueError(f"the quantities of a grid differ in shape: {sorted(map(str, shapes))}")
    if grid.group.size > MOST_PLACES:
        raise ValueError(f"a grid of {grid.group.size:,} places is too large for a page: at most {MOST_PLACES:,}")
    rows, columns = grid.group.shape
    document = {
        "rows": rows,
        "columns": columns,
        "row": label(grid.row),
        "column": label(grid.column),
        "groups": [label(name) for name in grid.groups],
        "group": _packed(grid.group, "u1"),
        "shown": list(grid.shown),
        "quantities": [
            {"name": label(quantity.name), "kind": quantity.kind, "values": _packed(quantity.values, "<f4")}
            for quantity in grid.quantities
        ],
    }
    return script_json(document)


def _packed(values: np.ndarray, kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode()
