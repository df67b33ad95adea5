"""Pages of runs, sweeps, comparisons and boards: one HTML file each, which loads nothing else."""

from whest.page.blocks import (
    Block,
    Cell,
    Code,
    Column,
    Fact,
    Facts,
    Gauge,
    Headline,
    Page,
    Picture,
    Section,
    Table,
    Text,
)
from whest.page.charts import literal, new_figure
from whest.page.render import render, save_page

__all__ = [
    "Block",
    "Cell",
    "Code",
    "Column",
    "Fact",
    "Facts",
    "Gauge",
    "Headline",
    "Page",
    "Picture",
    "Section",
    "Table",
    "Text",
    "literal",
    "new_figure",
    "render",
    "save_page",
]
